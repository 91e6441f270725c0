// What checking costs while nobody lies. Signatures and statements: CPU time of a step of T1 on two PNodes of one owner, of which neither may check
// the other. Audits: CPU time of a fleet of one machine that trains the demo GPT, so that nothing moves and nothing is signed but statements, and one that repeats a part of its work,
// from which follows what a tenth costs. Both beside the same session without checks, in turns, so that a busy machine disturbs them alike.

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
const auditedSteps = 40;
const auditedEvery = 10;
/** Sessions stay where they are told to, so that somebody is left who owns nothing of them: neighbours do not check each other. */
const [training, checking] = ["training", "checking"];
/** Half of what somebody is known for so little is repeated, less and less down to a tenth: more to be counted in few turns. */
const rights = 20;
const leastShare = 0.1;
const settledMs = 500;
/** How long is looked at what processes do while nothing is to be done. */
const idleMs = 5_000;
/** Whoever checks something for the first time builds its graphs and starts its threads. */
const warmTurns = 1;
const lockerMetric = "dcnr_pnode_locker_bytes_total";

async function bothReady(lab: Lab, network: Trained, every: number, spread: number, region = ""): Promise<Sessions> {
  await lab.prepare(network);
  const batch = trained[network].samples * microbatches;
  const settings = { batch, microbatches, checkpointEvery: every, spread, requirements: { region } };
  const none = await lab.ready(network, { ...settings, assurance: "none" });
  // Another seed is another session; it costs the same.
  return { none, sampled: await lab.ready(network, { ...settings, assurance: "sampled", seed: 2n }) };
}

async function inTurns<One>(turns: number, log: (line: string) => void, one: (side: Side) => Promise<One>) {
  const measured: Record<Side, One>[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const both: Partial<Record<Side, One>> = {};
    for (const side of turn % 2 === 0 ? sides : sides.toReversed()) both[side] = await one(side);
    measured.push(both as Record<Side, One>);
    log(JSON.stringify(both));
  }
  return measured;
}

async function signatures(turns: number, log: (line: string) => void): Promise<readonly Turn[]> {
  const lab = await Lab.open(2, 1, "encrypted", "one-owner");
  try {
    const sessions = await bothReady(lab, "t1", t1Steps, 2);
    return await inTurns(turns, log, async (side) => {
      const { cpuMs, orchestratorCpuMs, steps } = await lab.stretch(sessions[side], t1Steps);
      return (cpuMs + orchestratorCpuMs) / steps;
    });
  } finally {
    await lab.close();
  }
}

/** CPU milliseconds a step, beyond what they take while nothing is to be done. */
interface Parts {
  readonly trainer: number;
  /** It owns nothing of the session. */
  readonly checker: number;
  readonly orchestrator: number;
}

type PartsTurn = Readonly<Record<Side, Parts>>;

interface Audited {
  readonly turns: readonly PartsTurn[];
  /** VNodes' intervals that were computed with checks, and how many of them were repeated. */
  readonly intervals: number;
  readonly repeated: number;
  readonly lockerBytesPerStep: number;
}

async function audits(turns: number, log: (line: string) => void): Promise<Audited> {
  const lab = await Lab.open(0, 1);
  try {
    for (const region of [training, checking]) await lab.join(1, undefined, region);
    await knownForLong(lab);
    const sessions = await bothReady(lab, "gpt-demo", auditedEvery, 1, training);
    const { vnodes } = await lab.client.sessions.get(sessions.sampled);
    await inTurns(warmTurns, log, (side) => untilSettled(lab, sessions[side]));
    const repeatedBefore = await repeatedIn(lab);
    const lockedBefore = await lab.counted(lockerMetric);
    let steps = 0;
    const measured = await inTurns(turns, log, async (side) => {
      const one = await untilSettled(lab, sessions[side]);
      if (side === "sampled") steps += one.steps;
      return one.parts;
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
async function knownForLong({ store: address, client, pnodes }: Lab): Promise<void> {
  const world = realWorld({ logFormat: "none" });
  const store = await openStateStore(address, { world });
  // A machine that has just joined is in the list a moment later.
  for (;;) {
    for (const { id } of await client.fleet.pnodes()) {
      const pnode = id as PNodeId;
      await updateItem(store, key.standing(pnode), () => ({ ...standingAtFirst(pnode), right: rights }), world);
    }
    await pause(settledMs);
    const known = (await client.trust.standings()).filter(({ standing }) => standing === "known");
    if (known.length === pnodes.length) break;
  }
  await store.close();
}

async function repeatedIn({ client }: Lab): Promise<number> {
  return (await client.trust.standings()).reduce((sum, { auditsDone }) => sum + Number(auditsDone), 0);
}

/** Trains for a while; what it takes to repeat the rest of what was drawn counts too. */
async function untilSettled(lab: Lab, session: string): Promise<{ readonly parts: Parts; readonly steps: number }> {
  const meanStep = async () => {
    const steps = [...(await lab.steps(session)).values()];
    return steps.reduce((sum, step) => sum + step, 0) / steps.length;
  };
  const [trainer, checker] = lab.pnodes.map(({ pid }) => [pid]) as [number[], number[]];
  const pids = { trainer, checker, orchestrator: [lab.orchestrator.pid] };
  const look = () => ({ wallMs: performance.now(), cpu: mapped(pids, cpuMsOf) });
  const still = look();
  await pause(idleMs);
  const before = look();
  await lab.client.sessions.start(session);
  await pause(settledMs);
  // Of a session whose VNodes are still being loaded nothing is told.
  let from = await meanStep();
  for (; Number.isNaN(from); from = await meanStep()) await pause(settledMs);
  let steps = 0;
  while (!(steps >= auditedSteps)) {
    await pause(settledMs);
    steps = (await meanStep()) - from;
  }
  await lab.client.sessions.suspend(session);
  for (let last = look(); ; ) {
    await pause(settledMs);
    const now = look();
    const isSettled = sum(now.cpu) - sum(last.cpu) < settledMs / 5;
    last = now;
    if (!isSettled) continue;
    // Heartbeats and gossip go by the clock: on a busy machine, where a step takes long, they would be much of what is measured.
    const waits = (now.wallMs - before.wallMs) / (before.wallMs - still.wallMs);
    const own = (part: keyof Parts) => now.cpu[part] - before.cpu[part] - waits * (before.cpu[part] - still.cpu[part]);
    const owns = { trainer: own("trainer"), checker: own("checker"), orchestrator: own("orchestrator") };
    return { parts: mapped(owns, (ms) => Math.round((10 * ms) / steps) / 10), steps };
  }
}

function mapped<From, To>(all: Readonly<Record<keyof Parts, From>>, to: (from: From) => To): Record<keyof Parts, To> {
  return { trainer: to(all.trainer), checker: to(all.checker), orchestrator: to(all.orchestrator) };
}

function sum({ trainer, checker, orchestrator }: Parts): number {
  return trainer + checker + orchestrator;
}

function row(what: string, target: string, turns: readonly Turn[]): string {
  const ratios = turns.map(({ none, sampled }) => sampled / none).toSorted((a, b) => a - b);
  const [least, most] = [ratios[0], ratios.at(-1)].map((ratio) => (ratio as number).toFixed(3));
  const ms = (side: Side) => `${median(turns.map((one) => one[side])).toFixed(0)} ms`;
  return `| ${what} | ${ms("none")} | ${ms("sampled")} | ${median(ratios).toFixed(3)} (${least} to ${most}) | ${target} |`;
}

const partRows = [
  ["of these, the machine that trains", "trainer"],
  ["of these, the orchestrator", "orchestrator"],
] as const;

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
    const whole = measured.map(({ none, sampled }) => ({ none: sum(none), sampled: sum(sampled) }));
    rows.push(row("audits: a step of the demo GPT, a machine that trains and one that checks", "", whole));
    for (const [what, part] of partRows)
      rows.push(
        row(
          what,
          "",
          measured.map((one) => ({ none: one.none[part], sampled: one.sampled[part] })),
        ),
      );
    const share = repeated / intervals;
    const more = median(whole.map(({ none, sampled }) => sampled / none - 1));
    const checked = median(measured.map(({ none, sampled }) => (sampled.checker - none.checker) / sum(none)));
    const percent = (part: number) => `${(100 * part).toFixed(1)} %`;
    notes.push(
      "",
      `Of ${intervals} intervals of single VNodes ${repeated} were repeated (${percent(share)}), for ${percent(more)} more CPU: ${percent((more * leastShare) / share)} for a tenth (target <= 12 %). The machine that checks took ${percent(checked)}.`,
      `Senders stored ${(lockerBytesPerStep / 1024).toFixed(0)} KiB of messages a step for that, and the one that checks read them once.`,
    );
  }
  return [
    `CPU time of a step with and without checks, PNodes and orchestrator together, nobody lies, ${turns} turns.`,
    ...(rows.length === 0 ? [] : table(rows)),
    ...notes,
  ].join("\n");
}
