// What failures and the readiness for them cost, with real processes: how long a kill holds training up, how much speed
// is left with kills, what the machinery takes when nothing fails, and whether checkpoints stall a step.

import { join } from "node:path";
import { percentile } from "../test/chaos/measure.ts";
import { Lab, pause, type Trained, trained } from "./lab.ts";
import { median, Side } from "./side.ts";

type Log = (line: string) => void;

const pieces = ["kills", "machinery", "stall"] as const;
/** A turn's ratio scatters by some 8 % where steps are short, so it takes several to see a few per cent. */
const measuredSteps = {
  "gpt-demo": { turnsFactor: 2, warmUp: 10, steps: 60 },
  t1: { turnsFactor: 1, warmUp: 2, steps: 4 },
};

const network = "gpt-demo";
const settings = { batch: 4 * trained[network].samples, microbatches: 4, checkpointEvery: 20 };
const endless = 1_000_000n;
/** Speed before and after a kill is measured over this long. */
const windowMs = 8_000;
const lookMs = 30;

interface Kills {
  readonly recoveries: number[];
  /** Until the first VNode that was lost takes a step again: all of it but what is computed again. */
  readonly starts: number[];
  readonly losses: number[];
}

/**
 * The machine that takes the place of one that was killed starts when everything that is measured of that kill is over, and has
 * `windowMs` until the next: spares are there already when a kill comes, and no process starts beside what is measured.
 */
async function killAgainAndAgain(kills: number, checkpointEvery: number, log: Log): Promise<Kills> {
  const lab = await Lab.open(3, 1);
  const [recoveries, starts, losses]: [number[], number[], number[]] = [[], [], []];
  try {
    await lab.prepare(network);
    const id = await lab.begin(network, { ...settings, checkpointEvery, steps: endless, spread: 2 });
    const { vnodes } = await lab.client.sessions.get(id);
    await lab.reached(id, vnodes, 3, lookMs);
    for (let kill = 0; kill < kills; kill++) {
      const [before, beforeMs] = [furthest(await lab.steps(id)), performance.now()];
      await pause(windowMs);
      const [top, killedMs] = [furthest(await lab.steps(id)), performance.now()];
      const stepsPerMs = (top - before) / (killedMs - beforeMs);
      const owned = await lab.client.fleet.vnodes(id);
      const hosts = new Set(owned.map(({ pnode }) => pnode));
      const victim = lab.pnodes.find((child) => hosts.has(child.id))!;
      const lost = new Set(owned.filter(({ pnode }) => pnode === victim.id).map(({ id: vnode }) => vnode));
      const sureMs = performance.now();
      await lab.kill(victim);
      const beyond = furthest(await lab.steps(id)) + 1;
      starts.push((await firstStep(lab, id, lost)) - sureMs);
      const recoveredMs = await lab.reached(id, vnodes, beyond, lookMs);
      recoveries.push(recoveredMs - sureMs);
      await pause(Math.max(0, windowMs - (recoveredMs - sureMs)));
      const [after, afterMs] = [furthest(await lab.steps(id)), performance.now()];
      losses.push(afterMs - killedMs - (after - top) / stepsPerMs);
      const [started, recovered, cost] = [starts, recoveries, losses].map((all) => all.at(-1)?.toFixed(0));
      log(
        `kill ${kill + 1} of ${lost.size} VNodes: first step after ${started} ms, progress after ${recovered} ms, cost ${cost} ms`,
      );
      await lab.join(1);
    }
  } finally {
    await lab.close();
  }
  return { recoveries, starts, losses };
}

/** When one of these VNodes was first seen to have taken a step since it is somewhere else. */
async function firstStep(lab: Lab, session: string, vnodes: ReadonlySet<string>): Promise<number> {
  const from = new Map<string, number>();
  for (;;) {
    for (const [vnode, step] of await lab.steps(session)) {
      if (!vnodes.has(vnode)) continue;
      if (step > (from.get(vnode) ?? step)) return performance.now();
      from.set(vnode, step);
    }
    await pause(lookMs);
  }
}

function furthest(steps: ReadonlyMap<string, number>): number {
  return Math.max(0, ...steps.values());
}

/** A PNode with one worker against the same numerics in a plain loop, in turns, by CPU time. */
async function machineryCost(
  name: Trained,
  turns: number,
  { warmUp, steps }: { warmUp: number; steps: number },
  log: Log,
): Promise<number> {
  const lab = await Lab.open(1, 1);
  const bare = await Side.start(process.execPath, [join(import.meta.dirname, "bare-side.ts"), name, "4"]);
  const shares: number[] = [];
  try {
    await lab.prepare(name);
    await bare.run(warmUp);
    for (let turn = 0; turn < turns; turn++) {
      const { cpuStepMs } = await lab.pace(name, { ...settings, batch: 4 * trained[name].samples }, warmUp, steps);
      const { cpuMs } = await bare.run(steps);
      log(`machinery, ${name}: ${cpuStepMs.toFixed(1)} ms CPU a step on a PNode, ${cpuMs.toFixed(1)} ms bare`);
      shares.push(cpuStepMs / cpuMs - 1);
    }
  } finally {
    await bare.stop();
    await lab.close();
  }
  return median(shares);
}

/** Measured at every 5 steps, where it shows, and counted for every 20. */
async function checkpointStall(turns: number, log: Log): Promise<number> {
  const lab = await Lab.open(1, 1);
  const shares: number[] = [];
  try {
    await lab.prepare(network);
    for (let turn = 0; turn < turns; turn++) {
      const often = await lab.pace(network, { ...settings, checkpointEvery: 5 }, 5, 40);
      const never = await lab.pace(network, { ...settings, checkpointEvery: 1_000 }, 5, 40);
      log(`checkpoints: ${often.stepMs.toFixed(1)} ms a step with one in 5, ${never.stepMs.toFixed(1)} ms without`);
      shares.push(((often.stepMs / never.stepMs - 1) * 5) / 20);
    }
  } finally {
    await lab.close();
  }
  return median(shares);
}

/** `npm run bench -- recovery`, or some pieces of it: `npm run bench -- recovery kills`; `--kills N`: so many; `--every N`: with a checkpoint every N steps. */
export async function recoveryReport(args: readonly string[], log: Log): Promise<string> {
  const usual = args.includes("--quick") ? { kills: 8, turns: 2 } : { kills: 20, turns: 3 };
  const asks = (flag: string) => Number(args[args.indexOf(flag) + 1]) || undefined;
  const { turns } = usual;
  const kills = asks("--kills") ?? usual.kills;
  const asked = pieces.filter((piece) => args.includes(piece));
  const does = (piece: (typeof pieces)[number]) => asked.length === 0 || asked.includes(piece);
  const rows: [what: string, measured: string, target: string][] = [];
  const every = asks("--every") ?? settings.checkpointEvery;
  if (does("kills")) {
    log(`a checkpoint every ${every} steps`);
    rows.push(...killRows(await killAgainAndAgain(kills, every, log)));
  }
  if (does("machinery"))
    for (const [name, steps] of Object.entries(measuredSteps) as [Trained, (typeof measuredSteps)[Trained]][]) {
      const what = "CPU of a step beyond the bare numerics (hashes, retention, checkpoints every 20 steps)";
      const cost = await machineryCost(name, steps.turnsFactor * turns, steps, log);
      rows.push([`${what}, ${trained[name].title}`, percent(cost), "<= 8 %"]);
    }
  if (does("stall"))
    rows.push(["step time lost to checkpoints every 20 steps", percent(await checkpointStall(turns, log)), "<= 5 %"]);
  return [
    `The demo GPT on real processes of one machine: 3 PNodes and ${kills} kills for what is about kills, one PNode for the rest.`,
    "",
    "| what | measured | target |",
    "|---|---|---|",
    ...rows.map((row) => `| ${row.join(" | ")} |`),
  ].join("\n");
}

/** From SIGKILL until every VNode is beyond the step that the furthest had reached; and the training time that a kill costs, replay included. */
function killRows({ recoveries, starts, losses }: Kills): [string, string, string][] {
  const lostMs = median(losses);
  return [
    ["kill to progress, p50", seconds(percentile(recoveries, 0.5)), "<= 1.0 s"],
    ["kill to progress, p99", seconds(percentile(recoveries, 0.99)), "<= 3 s"],
    ["kill to the first step that is computed again, p50", seconds(percentile(starts, 0.5)), ""],
    ["training time that a kill costs, replay included", seconds(lostMs), ""],
    ["speed left at one kill a minute, from the row above", percent(1 - Math.max(0, lostMs) / 60_000), ">= 90 %"],
  ];
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
