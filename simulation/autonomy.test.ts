import assert from "node:assert/strict";
import { test } from "node:test";
import { crewAims } from "./crew-worlds.ts";
import { calmRun, fleetOf } from "./draw.ts";
import { noFaults, untilFinished } from "./faults.ts";
import { NetworkRun } from "./network-run.ts";
import { runSeed } from "./run.ts";
import { scenarios } from "./scenarios.ts";
import { SeededChance } from "./world/chance.ts";

/**
 * Few of them here: `npm run orphans` and longer runs of the simulator do the rest. 149 hung once; in 15 and
 * 17 owners had not read all of their data when the orchestrators went, and nobody else had it: in 15 one that might host only since a
 * later charter fetched nothing, and waited too long after a damaged answer; in 47 a PNode lost its disk, and
 * with it the charter that let it hear the others, and one kept what it had taken over of a session that nobody owned any more; in 159 a finished session kept the room that another one waited for; in 73 a VNode's new owner was never told
 * of it, and might host nothing by its charter because it had been lost for a moment; in 13 a relay that was started anew could ask nobody for whom it may relay;
 * in 80 the only relay lost its disk, and with it the permit that let others hear of it, so that it could call nobody behind a router;
 * in 420025 an orchestrator that was to wait for less than a clock can tell woke at the same moment, for ever.
 */
const seeds = [10, 13, 15, 17, 33, 47, 60, 73, 80, 149, 159, 420025];

test("worlds without orchestrators train to the undisturbed roots", async () => {
  for (const seed of seeds) assert.deepEqual((await runSeed(seed, { autonomy: true })).violations, [], `seed ${seed}`);
});

/**
 * In 60050 the only machine that might host by the newest charter was behind a router and lost its disk, and the check waited for it; in 50074 a
 * machine behind a router that started anew knew no other member, since its first comparison had broken off, and found no relay.
 */
test("worlds without orchestrators in which machines are behind routers do, too", async () => {
  for (const seed of [50074, 60050])
    assert.deepEqual((await runSeed(seed, { autonomy: true, routers: true })).violations, [], `seed ${seed}`);
});

/** Virtual time from the death of a PNode to the first takeover of what it hosted. */
async function takenOverAfterMs(seed: number): Promise<number> {
  const chance = new SeededChance(seed, "orphans");
  const fleet = fleetOf(5, 2);
  const goneMs = 4_000;
  const crashMs = goneMs + chance.between(0, 4_000);
  const scenario = { ...(scenarios[0] as (typeof scenarios)[number]), steps: 60 };
  const calm = calmRun(scenario, fleet, { checkpointEvery: 2, replicas: 1, autonomy: "on" });
  const plan = {
    ...noFaults(seed),
    windowMs: 60_000,
    timed: [
      {
        atMs: goneMs,
        fault: { kind: "orchestrators gone", hosts: fleet.orchestrators, durationMs: untilFinished } as const,
      },
      {
        atMs: crashMs,
        fault: { kind: "crash", host: `busy/${chance.uniform()}`, silent: false, durationMs: 60_000 } as const,
      },
    ],
  };
  const settings = { ...calm, computeMs: 60, vnodesPerPNode: 4, plan };
  const { violations, trace = "" } = await new NetworkRun(seed, settings, () => undefined, { readable: true }).finish();
  assert.deepEqual(violations, [], `seed ${seed}`);
  const found = /^ *(\d+\.\d+) .*is taken over at step/m.exec(trace);
  assert.ok(found, `seed ${seed}: nobody took over`);
  return Number(found[1]) * 1_000 - crashMs;
}

test("where all orchestrators are gone, what a dead PNode hosted is taken over in two and a half seconds, rarely later", async () => {
  const tookMs = [];
  for (let seed = 1; seed <= 5; seed++) tookMs.push(await takenOverAfterMs(seed));
  tookMs.sort((a, b) => a - b);
  assert.ok((tookMs[2] as number) <= 2_500, `the usual one took ${tookMs[2]} ms`);
  assert.ok((tookMs[4] as number) <= 3_500, `the slowest took ${tookMs[4]} ms`);
});

test("what a PNode took over it goes on with when orchestrators are back: it is not taken for the dead one's", async () => {
  const fleet = fleetOf(5, 2);
  const scenario = { ...(scenarios[0] as (typeof scenarios)[number]), steps: 120 };
  const calm = calmRun(scenario, fleet, { checkpointEvery: 2, replicas: 1, autonomy: "on" });
  const timed = [
    {
      atMs: 4_000,
      fault: { kind: "orchestrators gone", hosts: fleet.orchestrators, durationMs: 14_000 } as const,
    },
    { atMs: 5_000, fault: { kind: "crash", host: "busy/0.5", silent: false, durationMs: 90_000 } as const },
  ];
  const settings = { ...calm, computeMs: 100, vnodesPerPNode: 4, plan: { ...noFaults(1), windowMs: 60_000, timed } };
  const { violations, trace = "" } = await new NetworkRun(1, settings, () => undefined, { readable: true }).finish();
  assert.deepEqual(violations, []);
  const took = [...trace.matchAll(/(\S+) +warn no orchestrator is there: VNode (\S+) is taken over/g)];
  const kept = [
    ...trace.matchAll(/VNode (\S+) was taken over while no orchestrator was there; (\S+) goes on with it/g),
  ];
  const byVNode = (pairs: readonly (readonly [string | undefined, string | undefined])[]) =>
    [...new Set(pairs.map((pair) => pair.join(" ")))].sort();
  assert.ok(took.length > 0);
  assert.deepEqual(
    byVNode(kept.map(([, vnode, pnode]) => [vnode, pnode])),
    byVNode(took.map(([, pnode, vnode]) => [vnode, pnode])),
  );
});

for (const aim of crewAims)
  test(`crews come to the undisturbed roots where nothing happens but this: ${aim}`, async () => {
    assert.deepEqual((await runSeed(1, { crew: aim })).violations, []);
  });
