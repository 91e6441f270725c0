import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { isCommon } from "../../network/rounds.ts";
import { type OpenProcess, openProcess } from "../process.ts";
import type { Schedule } from "../schedule.ts";
import {
  drawFrom,
  elasticRounds,
  type Faults,
  lanedPlan,
  openWithoutRoom,
  quiet,
  randomSchedule,
  roundSchedule,
  SymbolicNetwork,
} from "../symbolic-network.testing.ts";
import { treeSum } from "./reduce.ts";

const calm: Faults = { lost: 0, repeated: 0, crashes: 0, zombies: false };

function run(
  seed: number,
  order: number,
  faults: Faults,
  schedule: Schedule = randomSchedule(seed),
): Map<string, string> {
  const network = new SymbolicNetwork(lanedPlan(seed, schedule.sync).plan, schedule, drawFrom(order), faults);
  const hashes = network.run();
  assert.deepEqual(network.evidence, []);
  return hashes;
}

function sorted(hashes: Map<string, string>): [string, string][] {
  return [...hashes].sort(([a], [b]) => (a < b ? -1 : 1));
}

describe("lanes that learn together", () => {
  const seeds = Array.from({ length: 50 }, (_, seed) => seed);

  it("leave all copies of a VNode that learns with one state after every step", () => {
    for (const seed of seeds) {
      const { plan } = lanedPlan(seed);
      const learning = new Set(plan.edges.flatMap((edge) => (edge.kind === "reduce" ? [edge.from, edge.to] : [])));
      const hashes = run(seed, seed, calm);
      for (const { id, copy } of plan.vnodes)
        for (let step = 1; learning.has(id) && step <= randomSchedule(seed).steps; step++)
          assert.equal(hashes.get(`${id}/${step}`), hashes.get(`${copy?.of}/${step}`), `seed ${seed}: ${id}/${step}`);
    }
  });

  it("give the same hashes whatever is lost, repeated, replaced or goes on as a zombie", () => {
    for (const seed of seeds) {
      const expected = sorted(run(seed, seed, calm));
      for (const zombies of [false, true])
        assert.deepEqual(sorted(run(seed, seed + 5, { lost: 5, repeated: 15, crashes: 8, zombies })), expected);
    }
  });
});

describe("lanes that learn apart for a round", () => {
  const seeds = Array.from({ length: 50 }, (_, seed) => seed);

  it("have one state wherever they are together, and states of their own within a round", () => {
    let apart = 0;
    for (const seed of seeds) {
      const schedule = roundSchedule(seed);
      const { plan } = lanedPlan(seed, schedule.sync);
      const learning = new Set(plan.edges.flatMap((edge) => (edge.kind === "outer" ? [edge.from, edge.to] : [])));
      const hashes = run(seed, seed, calm, schedule);
      for (const { id, copy } of plan.vnodes)
        for (let step = 1; learning.has(id) && step <= schedule.steps; step++) {
          const isOne = hashes.get(`${id}/${step}`) === hashes.get(`${copy?.of}/${step}`);
          if (isCommon(schedule, step)) assert.ok(isOne, `seed ${seed}: ${id}/${step}`);
          else if (!isOne) apart++;
        }
    }
    assert.ok(apart > 100, `${apart} states of lanes that are apart`);
  });

  it("give the same hashes whatever is lost, repeated, replaced or goes on as a zombie", () => {
    for (const seed of seeds) {
      const schedule = roundSchedule(seed);
      const expected = sorted(run(seed, seed, calm, schedule));
      for (const zombies of [false, true]) {
        const faults = { lost: 5, repeated: 15, crashes: 8, zombies };
        assert.deepEqual(sorted(run(seed, seed + 5, faults, schedule)), expected);
      }
    }
  });
});

describe("lanes of which some learn more, rest, are late, leave and come back", () => {
  const elastic = (seed: number, order: number, faults: Faults) => {
    const schedule = { ...roundSchedule(seed), elastic: "on" } as const;
    const { plan, lanes } = lanedPlan(seed, schedule.sync);
    const rounds = elasticRounds(seed, schedule, lanes);
    const network = new SymbolicNetwork(plan, schedule, drawFrom(order), faults, undefined, rounds);
    const hashes = network.run();
    assert.deepEqual(network.evidence, []);
    return { hashes, rounds, plan };
  };
  const seeds = Array.from({ length: 60 }, (_, seed) => seed);

  it("come to what the records alone lead to, whatever is lost, repeated, replaced or goes on as a zombie", () => {
    let dropped = 0;
    let rested = 0;
    for (const seed of seeds) {
      const expected = elastic(seed, seed, quiet);
      const lanes = expected.plan.vnodes[0]?.copy?.lanes ?? 1;
      for (const { lanes: planned, counted = [] } of expected.rounds) {
        dropped += planned.length - counted.length;
        rested += lanes - planned.length;
      }
      for (const zombies of [false, true]) {
        const { hashes } = elastic(seed, seed + 5, { lost: 5, repeated: 15, crashes: 8, zombies });
        // What a late lane has computed in vain is nobody's business.
        for (const [key, hash] of expected.hashes) assert.equal(hashes.get(key), hash, `seed ${seed}: ${key}`);
      }
    }
    assert.ok(dropped > 50 && rested > 50, `${dropped} lanes late, ${rested} resting`);
  });
});

describe("a round that is longer than a VNode runs ahead of the line", () => {
  const schedule = {
    ...{ steps: 2 + 2 * 101, microbatches: 1, validateEvery: 0, validationMicrobatches: 0, checkpointEvery: 2 },
    sync: { every: 100, after: 2 },
  };

  it("is learned to its end, where it is stored", () => {
    for (const seed of [1, 2, 3]) {
      const stored = { ...schedule, roundCheckpoints: "ends" } as const;
      assert.deepEqual(sorted(run(seed, seed, calm, stored)), sorted(run(seed, seed, calm, schedule)));
    }
  });

  it("is closed without a lane that is gone, since the others do not wait for its states on the way", () => {
    const elastic = { ...schedule, elastic: "on" } as const;
    const { plan } = lanedPlan(1, schedule.sync);
    const lanes = [0, 1].map((lane) => ({ lane, steps: 100, class: "", samples: [[1_000 * lane, 100]] as const }));
    const rounds = [0, 1].map((round) => ({ round, lanes, counted: [0] }));
    const stopping: OpenProcess = (options) => {
      const inner = openProcess<never, never>(options);
      const step = inner.step.bind(inner);
      const isGone = () => options.role.copy?.lane !== 0 && inner.currentStep > 10;
      return Object.assign(inner, { step: (event: Parameters<typeof step>[0]) => (isGone() ? [] : step(event)) });
    };
    const hashes = new SymbolicNetwork(plan, elastic, drawFrom(1), calm, stopping, rounds).run();
    for (const { id, copy } of plan.vnodes) assert.equal(hashes.has(`${id}/204`), copy?.lane === 0, id);
  });
});

describe("lanes on machines that have no room for what they sent", () => {
  it("come to their end, together, in rounds and where some are late", () => {
    for (let seed = 0; seed < 60; seed++) {
      const schedule = roundSchedule(seed);
      const elastic = { ...schedule, elastic: "on" } as const;
      for (const one of [randomSchedule(seed), schedule, elastic]) {
        const { plan, lanes } = lanedPlan(seed, one.sync);
        const rounds = one === elastic ? elasticRounds(seed, elastic, lanes) : [];
        new SymbolicNetwork(plan, one, drawFrom(seed), calm, openWithoutRoom, rounds).run();
      }
    }
  });
});

describe("the sum over lanes", () => {
  const adding = {
    copy: async (part: Float32Array) => part.slice(),
    add: async (into: Float32Array, other: Float32Array) => {
      for (const [i, value] of other.entries()) into[i] = into[i]! + value;
    },
    drop: () => {},
  };
  const partsOf = (lanes: number) => {
    const draw = drawFrom(lanes);
    return new Map(
      Array.from({ length: lanes }, (_, lane) => [lane, Float32Array.from({ length: 64 }, () => draw(1e6) / 7e4 - 7)]),
    );
  };

  it("is the same wherever aligned lanes are added first, and nearly what doubles give", async () => {
    for (let lanes = 1; lanes <= 16; lanes++) {
      const parts = partsOf(lanes);
      const whole = await treeSum(parts, lanes, adding);
      for (const group of [2, 4, 8]) {
        // A machine with a group of lanes sends one partial sum in the place of its first lane.
        const partial = new Map<number, Float32Array>();
        for (let first = 0; first < lanes; first += group) {
          const own = new Map([...parts].filter(([lane]) => lane >= first && lane < first + group));
          partial.set(first, await treeSum(own, lanes, adding));
        }
        assert.deepEqual(await treeSum(partial, lanes, adding), whole, `${lanes} lanes in groups of ${group}`);
      }
      for (let i = 0; i < 64; i++) {
        const exact = [...parts.values()].reduce((sum, part) => sum + part[i]!, 0);
        assert.ok(Math.abs(whole[i]! - exact) <= 1e-4, `${whole[i]} and ${exact}`);
      }
    }
  });

  it("leaves parts as they are and takes lanes without one for nothing", async () => {
    const parts = partsOf(6);
    const before = structuredClone(parts);
    parts.delete(2);
    parts.delete(5);
    before.delete(2);
    before.delete(5);
    const [a, b, c, d] = [...before.values()] as [Float32Array, Float32Array, Float32Array, Float32Array];
    const f = Math.fround;
    assert.deepEqual(
      await treeSum(parts, 6, adding),
      a.map((value, i) => f(f(f(value + b[i]!) + c[i]!) + d[i]!)),
    );
    assert.deepEqual(parts, before);
  });
});
