import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { EdgeId, VNodeId } from "../core/ids.ts";
import { Process } from "./process.ts";
import { roleOf } from "./role.ts";
import {
  drawFrom,
  type Faults,
  openWithoutRoom,
  randomPlan,
  randomSchedule,
  SymbolicNetwork,
  symbolicPlan,
  symbolicVNode,
} from "./symbolic-network.testing.ts";

const calm: Faults = { lost: 0, repeated: 0, crashes: 0, zombies: false };

function run(seed: number, order: number, faults: Faults): Map<string, string> {
  const plan = randomPlan(drawFrom(seed));
  const network = new SymbolicNetwork(plan, randomSchedule(seed), drawFrom(order), faults);
  const hashes = network.run();
  assert.deepEqual(network.evidence, []);
  return hashes;
}

function sorted(hashes: Map<string, string>): [string, string][] {
  return [...hashes].sort(([a], [b]) => (a < b ? -1 : 1));
}

describe("the process of a VNode", () => {
  const seeds = Array.from({ length: 60 }, (_, seed) => seed);

  it("publishes a hash for every step of every VNode", () => {
    for (const seed of seeds) {
      const vnodes = randomPlan(drawFrom(seed)).vnodes.length;
      assert.equal(run(seed, seed, calm).size, vnodes * randomSchedule(seed).steps);
    }
  });

  it("gives the same hashes whatever the order of messages and the number of workers", () => {
    for (const seed of seeds) assert.deepEqual(sorted(run(seed, 7 * seed + 1, calm)), sorted(run(seed, seed, calm)));
  });

  it("gives the same hashes with lost and repeated messages", () => {
    const faults = { ...calm, lost: 10, repeated: 20 };
    for (const seed of seeds) assert.deepEqual(sorted(run(seed, seed + 9, faults)), sorted(run(seed, seed, calm)));
  });

  it("gives the same hashes when VNodes crash and start again at the line", () => {
    const faults = { lost: 5, repeated: 10, crashes: 6, zombies: false };
    for (const seed of seeds) assert.deepEqual(sorted(run(seed, seed + 3, faults)), sorted(run(seed, seed, calm)));
  });

  it("gives the same hashes when replaced owners go on as zombies", () => {
    const faults = { lost: 5, repeated: 10, crashes: 6, zombies: true };
    for (const seed of seeds) assert.deepEqual(sorted(run(seed, seed + 4, faults)), sorted(run(seed, seed, calm)));
  });
});

const pair = symbolicPlan(
  [symbolicVNode("a", "learns"), symbolicVNode("b", "loss")],
  [
    {
      id: "a.out>b.in" as EdgeId,
      kind: "activation",
      from: "a" as VNodeId,
      fromPort: "out",
      to: "b" as VNodeId,
      toPort: "in",
      shape: [1],
      wire: "float32",
      gradient: true,
    },
  ],
);
const edge = pair.edges[0]!.id;
const schedule = { steps: 8, microbatches: 2, validateEvery: 0, validationMicrobatches: 0, checkpointEvery: 2 };

function processOf(vnode: string, line = 0) {
  const role = roleOf(pair, vnode as VNodeId);
  return new Process<string, string>({ role, schedule, line, parallel: 1, persistsPendingMax: 2 });
}

describe("receipt of a message", () => {
  const arrived = (step: number, microbatch: number, hash: string, on = edge) =>
    ({
      kind: "arrived",
      name: { step, microbatch, edge: on, direction: "forward" },
      hash,
      payload: hash,
      from: "p1",
    }) as const;
  const verdicts = (process: Process<string, string>, event: ReturnType<typeof arrived>) =>
    process.step(event).flatMap((effect) => (effect.kind === "receipt" ? [effect.verdict] : []));

  it("drops an older step, stores the next one, and lets later ones wait", () => {
    const process = processOf("b", 4);
    process.step({ kind: "start" });
    assert.deepEqual(verdicts(process, arrived(3, 0, "x")), ["dropped"]);
    assert.deepEqual(verdicts(process, arrived(5, 0, "x")), ["stored"]);
    assert.deepEqual(verdicts(process, arrived(6, 0, "x")), ["wait"]);
  });

  it("refuses names that the plan does not know", () => {
    const process = processOf("b");
    assert.deepEqual(verdicts(process, arrived(0, 2, "x")), ["refused"]);
    assert.deepEqual(verdicts(process, arrived(0, -1, "x")), ["refused"]);
    assert.deepEqual(verdicts(process, arrived(0, 0.5, "x")), ["refused"]);
    assert.deepEqual(verdicts(process, arrived(9, 0, "x")), ["refused"]);
    assert.deepEqual(verdicts(process, arrived(0, 0, "x", "b.out>c.in" as EdgeId)), ["refused"]);
  });

  it("keeps the first content and reports another one as evidence", () => {
    const process = processOf("b");
    verdicts(process, arrived(0, 0, "x"));
    const effects = process.step({ ...arrived(0, 0, "y"), from: "p2" });
    const evidence = effects.find((effect) => effect.kind === "evidence");
    assert.deepEqual([evidence?.first.from, evidence?.second.from], ["p1", "p2"]);
    assert.deepEqual([evidence?.first.hash, evidence?.second.hash], ["x", "y"]);
  });
});

describe("a session that is to rest", () => {
  const begun = (line: number, restAfter: number) => {
    const role = roleOf(pair, "a" as VNodeId);
    const rests = { ...schedule, restAfter };
    const process = new Process<string, string>({ role, schedule: rests, line, parallel: 1, persistsPendingMax: 2 });
    return process.step({ kind: "start" }).flatMap(({ kind }) => (kind === "ask" ? [] : [kind]));
  };

  it("finishes the step after which it rests, and begins no other", () => {
    assert.deepEqual(begun(4, 4), ["forward"]);
    assert.deepEqual(begun(6, 4), []);
  });
});

describe("microbatches in flight", () => {
  const many = { ...schedule, microbatches: 8 };
  /** Forward passes that begin until no gradient is needed for the next. */
  const begun = (window?: number) => {
    const role = roleOf(pair, "a" as VNodeId);
    const process = new Process<string, string>({ role, schedule: many, line: 0, parallel: 1, persistsPendingMax: 2 });
    if (window !== undefined) process.step({ kind: "window", microbatches: window });
    const outputs = new Map([["out", { hash: "h", payload: "p" }]]);
    let count = 0;
    for (let effects = process.step({ kind: "start" }); effects.some(({ kind }) => kind === "forward"); count++)
      effects = process.step({ kind: "forwardDone", step: 0, microbatch: count, outputs, measures: {} });
    return count;
  };

  it("are as many as the plan says, or more if the way to others is long", () => {
    const { window } = roleOf(pair, "a" as VNodeId);
    assert.equal(begun(), window);
    assert.equal(begun(window + 3), window + 3);
    assert.equal(begun(1), window);
    assert.equal(begun(100), many.microbatches);
  });
});

describe("what was sent", () => {
  const name = { step: 0, microbatch: 0, edge, direction: "forward" } as const;

  it("is delivered again when asked for, and gone once the line has passed", () => {
    const process = processOf("a");
    process.step({ kind: "start" });
    const outputs = new Map([["out", { hash: "h", payload: "p" }]]);
    process.step({ kind: "forwardDone", step: 0, microbatch: 0, outputs, measures: {} });
    const outcome = () =>
      process
        .step({ kind: "asked", names: [name], asker: "b" })
        .flatMap((effect) =>
          effect.kind === "answer" ? [effect.outcome] : effect.kind === "deliver" ? [effect.message.payload] : [],
        );
    assert.deepEqual(outcome(), ["coming", "p"]);
    const collected = process.step({ kind: "lineAdvanced", line: 2 }).find((effect) => effect.kind === "collect");
    assert.deepEqual(collected?.released, ["p"]);
    assert.deepEqual(outcome(), ["gone"]);
  });
});

describe("back-pressure", () => {
  it("of full retention never stops a VNode before the checkpoint that would empty it", () => {
    const process = processOf("a", 2);
    process.step({ kind: "full", full: true });
    assert.ok(process.step({ kind: "start" }).some((effect) => effect.kind === "forward"));
  });

  it("of full retention keeps no network from its end, where weights are evaluated before the last state is stored", () => {
    for (let seed = 0; seed < 60; seed++) {
      const plan = randomPlan(drawFrom(seed));
      new SymbolicNetwork(plan, randomSchedule(seed), drawFrom(seed), calm, openWithoutRoom).run();
    }
  });

  it("of a paused session starts nothing until it goes on", () => {
    const process = processOf("a");
    process.step({ kind: "pause", paused: true });
    assert.ok(!process.step({ kind: "start" }).some((effect) => effect.kind === "forward"));
    assert.ok(process.step({ kind: "pause", paused: false }).some((effect) => effect.kind === "forward"));
  });
});
