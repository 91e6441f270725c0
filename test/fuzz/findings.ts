// Runs one thing on one input and judges how it ended: well, refused by a sentence of ours, or broken.

import { DcnrError } from "../../src/core/errors.ts";

/** An input that breaks something, by the numbers that draw it again. */
export interface Finding {
  readonly target: string;
  readonly seed: number;
  readonly index: number;
  readonly message: string;
}

export interface Tally {
  inputs: number;
  accepted: number;
  refused: number;
  /** The most CPU time of this thread that one input took, and which. */
  slowestMs: number;
  slowest: string;
  readonly findings: Finding[];
  /** What was tried, and whether anything got past its checks. */
  readonly targets: Map<string, boolean>;
}

/** No input may hold the thread longer. */
export const heldMsMax = 50;
/** The first runs of anything are slow: what was held up by compiling, collecting garbage or a neighbour in the cache is not some
 * time later. */
const repeats = 8;

export function emptyTally(): Tally {
  return { inputs: 0, accepted: 0, refused: 0, slowestMs: 0, slowest: "", findings: [], targets: new Map() };
}

/** What is neither of the two is what broke. */
export type Verdict = "accepted" | "refused" | (string & {});

/** Codes that mean "we do not know what happened": nobody chose them. */
const unchosen = new Set(["internal", "unknown"]);

export function verdictOf(thrown: unknown): "refused" | string {
  if (thrown instanceof DcnrError && !unchosen.has(thrown.code)) return "refused";
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}`.slice(0, 300) : String(thrown);
}

/** Thread CPU time, which neighbours on the machine do not lengthen. */
export function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Counts an input by how it ended. */
export function note(tally: Tally, finding: Omit<Finding, "message">, verdict: Verdict): void {
  tally.inputs += 1;
  const isPast = verdict === "accepted" || (tally.targets.get(finding.target) ?? false);
  tally.targets.set(finding.target, isPast);
  if (verdict === "accepted") tally.accepted += 1;
  else if (verdict === "refused") tally.refused += 1;
  else tally.findings.push({ ...finding, message: verdict });
}

/** For how long something holds the thread. */
export type Held = (run: () => Promise<void>) => Promise<number>;

const inAll: Held = async (run) => {
  const startMs = cpuMs();
  await run();
  return cpuMs() - startMs;
};

/** For what takes long and lets others go before it. */
export const atOnce: Held = async (run) => {
  let longestMs = 0;
  let sinceMs = cpuMs();
  const look = () => {
    longestMs = Math.max(longestMs, cpuMs() - sinceMs);
    sinceMs = cpuMs();
    next = setImmediate(look);
  };
  let next = setImmediate(look);
  await run();
  clearImmediate(next);
  return Math.max(longestMs, cpuMs() - sinceMs);
};

/** `run` again and again while it holds the thread too long; the least that it took. */
export async function judge(
  tally: Tally,
  finding: Omit<Finding, "message">,
  run: () => unknown,
  limitMs = heldMsMax,
  held: Held = inAll,
): Promise<void> {
  let heldMs = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < repeats && heldMs > limitMs; turn++) {
    let verdict: Verdict = "accepted";
    const ms = await held(async () => {
      verdict = await ending(run);
    });
    heldMs = Math.min(heldMs, ms);
    if (turn === 0) note(tally, finding, verdict);
  }
  if (limitMs === heldMsMax && heldMs > tally.slowestMs) {
    tally.slowestMs = heldMs;
    tally.slowest = `${finding.target} ${finding.seed}/${finding.index}`;
  }
  if (heldMs > limitMs) tally.findings.push({ ...finding, message: `holds the thread for ${heldMs.toFixed(0)} ms` });
}

export async function ending(run: () => unknown): Promise<Verdict> {
  try {
    await run();
    return "accepted";
  } catch (thrown) {
    return verdictOf(thrown);
  }
}
