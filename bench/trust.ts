// What checking costs while nobody lies. Signatures and statements: CPU time of a step of T1 on two PNodes of one owner, of which neither may check
// the other. Audits: CPU time of a whole fleet that trains the demo GPT, with machines known for long, so that a tenth of their work is repeated.
// Both beside the same session without checks, in turns, so that a busy machine disturbs them alike.

import type { PNodeId } from "../src/core/ids.ts";
import { key } from "../src/orchestrator/records/store-keys.ts";
import { standingAtFirst } from "../src/orchestrator/trust/standing.ts";
import { openStateStore } from "../src/store/open.ts";
import { updateItem } from "../src/store/records/update.ts";
import { realWorld } from "../src/system/world.ts";
import { cpuMsOf, Lab, pause, type Trained, trained } from "./lab.ts";
import { median } from "./side.ts";
import { reckoned } from "./trust-reckoned.ts";

type Side = "none" | "sampled";
const sides = ["none", "sampled"] as const;
type Sessions = Readonly<Record<Side, string>>;

/** CPU milliseconds a step, of PNodes and orchestrator together. */
type Turn = Readonly<Record<Side, number>>;

const microbatches = 8;
const t1Steps = 5;
const checkpointEvery = 20;
/** Long enough for the rest of what was drawn to weigh little. */
const auditedSteps = 80;
const auditedEvery = 10;
/** Long enough known to be checked at the least rate. */
const rights = 1_000;
const settledMs = 500;
const lockerMetric = "dcnr_pnode_locker_bytes_total";

async function bothReady(lab: Lab, network: Trained, every: number): Promise<Sessions> {
  await lab.prepare(network);
  const batch = trained[network].samples * microbatches;
  const settings = { batch, microbatches, checkpointEvery: every, spread: 2 };
  const none = await lab.ready(network, { ...settings, assurance: "none" });
  // Another seed is another session; it costs the same.
  return { none, sampled: await lab.ready(network, { ...settings, assurance: "sampled", seed: 2n }) };
}

async function inTurns(turns: number, log: (line: string) => void, one: (side: Side) => Promise<number>) {
  const measured: Turn[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const both = { none: 0, sampled: 0 };
    for (const side of turn % 2 === 0 ? sides : sides.toReversed()) both[side] = await one(side);
    measured.push(both);
    log(JSON.stringify(both));
  }
  return measured;
}

async function signatures(turns: number, log: (line: string) => void): Promise<readonly Turn[]> {
  const lab = await Lab.open(2, 1, "encrypted", "one-owner");
  try {
    const sessions = await bothReady(lab, "t1", t1Steps);
    return await inTurns(turns, log, async (side) => {
      const { cpuMs, orchestratorCpuMs, steps } = await lab.stretch(sessions[side], t1Steps);
      return (cpuMs + orchestratorCpuMs) / steps;
    });
  } finally {
    await lab.close();
  }
}

interface Audited {
  readonly turns: readonly Turn[];
  /** VNodes' intervals that were computed with checks, and how many of them were repeated. */
  readonly intervals: number;
  readonly repeated: number;
  readonly lockerBytesPerStep: number;
}

async function audits(turns: number, log: (line: string) => void): Promise<Audited> {
  const lab = await Lab.open(3, 1);
  try {
    await knownForLong(lab);
    const sessions = await bothReady(lab, "gpt-demo", auditedEvery);
    const { vnodes } = await lab.client.sessions.get(sessions.sampled);
    const repeatedBefore = await repeatedIn(lab);
    const lockedBefore = await lab.counted(lockerMetric);
    let steps = 0;
    const measured = await inTurns(turns, log, async (side) => {
      const one = await untilSettled(lab, sessions[side]);
      if (side === "sampled") steps += one.steps;
      return one.cpuMs / one.steps;
    });
    return {
      turns: measured,
      intervals: Math.round((vnodes * steps) / auditedEvery),
      repeated: (await repeatedIn(lab)) - repeatedBefore,
      lockerBytesPerStep: ((await lab.counted(lockerMetric)) - lockedBefore) / steps,
    };
  } finally {
    await lab.close();
  }
}

/** As if everybody had been found right often enough. */
async function knownForLong({ store: address, client }: Lab): Promise<void> {
  const world = realWorld({ logFormat: "none" });
  const store = await openStateStore(address, { world });
  for (const { id } of await client.fleet.pnodes()) {
    const pnode = id as PNodeId;
    await updateItem(store, key.standing(pnode), () => ({ ...standingAtFirst(pnode), right: rights }), world);
  }
  await store.close();
}

async function repeatedIn({ client }: Lab): Promise<number> {
  return (await client.trust.standings()).reduce((sum, { auditsDone }) => sum + Number(auditsDone), 0);
}

/** Trains for a while; what it takes to repeat the rest of what was drawn counts too. */
async function untilSettled(lab: Lab, session: string): Promise<{ readonly cpuMs: number; readonly steps: number }> {
  const pids = [lab.orchestrator, ...lab.pnodes].map(({ pid }) => pid);
  const meanStep = async () => {
    const steps = [...(await lab.steps(session)).values()];
    return steps.reduce((sum, step) => sum + step, 0) / steps.length;
  };
  await lab.client.sessions.start(session);
  await pause(settledMs);
  const [from, before] = [await meanStep(), cpuMsOf(pids)];
  let steps = 0;
  while (steps < auditedSteps) {
    await pause(settledMs);
    steps = (await meanStep()) - from;
  }
  await lab.client.sessions.suspend(session);
  let cpuMs = cpuMsOf(pids);
  for (;;) {
    await pause(settledMs);
    const now = cpuMsOf(pids);
    if (now - cpuMs < settledMs / 5) return { cpuMs: now - before, steps };
    cpuMs = now;
  }
}

function row(what: string, target: string, turns: readonly Turn[]): string {
  const ratios = turns.map(({ none, sampled }) => sampled / none).toSorted((a, b) => a - b);
  const [least, most] = [ratios[0], ratios.at(-1)].map((ratio) => (ratio as number).toFixed(3));
  const ms = (side: Side) => `${median(turns.map((one) => one[side])).toFixed(0)} ms`;
  return `| ${what} | ${ms("none")} | ${ms("sampled")} | ${median(ratios).toFixed(3)} (${least} to ${most}) | ${target} |`;
}

function table(rows: readonly string[]): string[] {
  return [
    "",
    "| what | `--assurance none` | `sampled` | sampled / none, median of turns (least to most) | target |",
    "|---|---|---|---|---|",
    ...rows,
  ];
}

export async function trustReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const turns = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 7);
  const parts = ["reckoned", "signatures", "audits"];
  const wanted = (part: string) => !args.some((arg) => parts.includes(arg)) || args.includes(part);
  const rows: string[] = [];
  const notes: string[] = [];
  if (wanted("reckoned")) {
    const { signed, hashedBytes, cpuMs, t1CpuMs } = await reckoned(microbatches, checkpointEvery, turns);
    const what = `${signed.toFixed(0)} messages that cross are signed, ${(hashedBytes / (1 << 20)).toFixed(0)} MiB that stay are hashed`;
    notes.push(
      "",
      `What checks add to a step of T1 on two PNodes, alone (${what}, a statement of each VNode every ${checkpointEvery} steps): ${cpuMs.toFixed(1)} ms, beside ${t1CpuMs.toFixed(0)} ms of the step itself in the same run: ${((100 * cpuMs) / t1CpuMs).toFixed(2)} % (target <= 2 %).`,
    );
  }
  if (wanted("signatures")) {
    const what = `signatures and statements: a step of T1 on two PNodes, ${microbatches} microbatches, a checkpoint every ${t1Steps} steps`;
    rows.push(row(what, "<= 1.02", await signatures(turns, log)));
  }
  if (wanted("audits")) {
    const { turns: measured, intervals, repeated, lockerBytesPerStep } = await audits(turns, log);
    rows.push(row(`audits: a step of the demo GPT, all of three machines, of which two train`, "<= 1.12", measured));
    const share = ((100 * repeated) / intervals).toFixed(1);
    const locker = (lockerBytesPerStep / 1024).toFixed(0);
    notes.push(
      "",
      `Of ${intervals} intervals of single VNodes ${repeated} were repeated (${share} %). Senders stored ${locker} KiB of messages a step for that, and auditors read them once.`,
    );
  }
  return [
    `CPU time of a step with and without checks, PNodes and orchestrator together, nobody lies, ${turns} turns.`,
    ...(rows.length === 0 ? [] : table(rows)),
    ...notes,
  ].join("\n");
}
