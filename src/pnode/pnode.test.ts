import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { bits } from "../core/bits.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import type { Tensor } from "../core/tensor.ts";
import { virtualWorld } from "../core/virtual-world.testing.ts";
import { sleep, type World } from "../core/world.ts";
import { testBlobs } from "../data/blobs.testing.ts";
import { buildTensors } from "../data/build.ts";
import { manifestText } from "../data/manifest.ts";
import type { Executor } from "../engine/engine.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { compileText } from "../network/compile.ts";
import { memoryBytesOf } from "../network/memory.ts";
import { type SessionIdentity, sessionIdOf } from "../network/settings/session.ts";
import { identityToWire } from "../network/settings/wire.ts";
import { MemoryNetwork } from "../protocol/memory-network.testing.ts";
import type { Network } from "../protocol/network.ts";
import { memoryTransfer, TestOrchestrator } from "./memory.testing.ts";
import type { PNodeDependencies, PNodeOptions } from "./options.ts";
import { type PNode, startPNode } from "./pnode.ts";

const definition = `
name: mlp
nodes:
  - { id: first, type: linear, config: { in_dim: 4, out_dim: 6, colocate_group: a } }
  - { id: bend, type: tanh, config: { colocate_group: a } }
  - { id: second, type: linear, config: { in_dim: 6, out_dim: 6 } }
  - { id: third, type: linear, config: { in_dim: 6, out_dim: 3, colocate_group: b } }
  - { id: loss, type: cost, config: { cost_function: ce_logits, colocate_group: b } }
edges:
  - { from: first, to: bend }
  - { from: bend, to: second }
  - { from: second, to: third }
  - { from: third, to: loss }
costs: [{ name: loss, node_id: loss }]
`;

function virtualTime() {
  const { world, until } = virtualWorld();
  const stop = async (...pnodes: PNode[]) => {
    let stopped = false;
    void Promise.all(pnodes.map((pnode) => pnode.stop())).then(() => {
      stopped = true;
    });
    await until(() => stopped);
  };
  return { world, until, stop };
}

async function scene({ downloadMs = 0 } = {}) {
  const { world, until, stop } = virtualTime();
  const network = new MemoryNetwork();
  const { contents, ...sink } = testBlobs();
  const fields = [
    { name: "inputs", dtype: "float32", shape: [4] },
    { name: "labels", dtype: "int32", shape: [] },
  ] as const;
  const builder = buildTensors(fields, { blobs: sink });
  const noise = new Float32Array(4 * 32);
  fillNormal(noise, randomKey("samples"), 1);
  await builder.add({ inputs: noise, labels: Int32Array.from({ length: 32 }, (_, index) => index % 3) });
  const manifest = manifestText(await builder.finish());
  contents.set(sha256(manifest), new TextEncoder().encode(manifest));
  const identity: SessionIdentity = {
    definition: sha256(definition),
    dataset: sha256(manifest),
    split: "all",
    validationSplit: "all",
    steps: 9,
    batch: 8,
    microbatches: 2,
    seed: 3,
    numerics: "reference",
    bits,
    learningRate: { schedule: "constant", base: 0.05, warmupSteps: 0, finalShare: 0 },
    clipNorm: 1,
    validateEvery: 4,
    validationMicrobatches: 1,
    initialState: "",
  };
  const work = { case: "training" as const, value: { identity: identityToWire(identity), checkpointEvery: 3 } };
  const orchestrator = new TestOrchestrator({ id: sessionIdOf(identity, "mlp"), definition, work }, contents);
  await network.serve("o1", [orchestrator.service()]);
  const transfer = memoryTransfer(contents);
  const blobs: typeof transfer = {
    ...transfer,
    download: async (...download) => {
      if (downloadMs > 0) await sleep(world.timers, downloadMs);
      return transfer.download(...download);
    },
  };
  const start = (
    id: string,
    more: Partial<PNodeOptions> = {},
    parts: Partial<PNodeDependencies> = {},
  ): Promise<PNode> =>
    startPNode(
      {
        ...{ name: id, software: "test", orchestrators: ["o1"], listen: id },
        capabilities: {},
        ...more,
      },
      { world, network: network.as(id), blobs, executorFor: async () => slowly(inline(), world), ...parts },
    );
  const vnodes = compileText(definition).vnodes.map(({ id }) => id);
  return { world, until, stop, network, orchestrator, contents, start, vnodes, steps: identity.steps };
}

const inline = () => openInlineExecutor(openReferenceEngine());

/** Runs take some virtual time, so that there is a middle to be disturbed in. */
function slowly(executor: Executor, { timers }: World): Executor {
  return {
    ...executor,
    run: async (...run) => {
      await sleep(timers, 5);
      return executor.run(...run);
    },
  };
}

/** Counts holders of the pool's tensors. */
function counting(executor: Executor) {
  const holders = new Map<ArrayBufferLike, number>();
  const add = ({ data: { buffer } }: Pick<Tensor, "data">, change: number) =>
    holders.set(buffer, (holders.get(buffer) ?? 0) + change);
  const counted: Executor = {
    ...executor,
    run: async (name, feeds, options = {}) => {
      const outputs = await executor.run(name, feeds, options);
      for (const [output, tensor] of Object.entries(outputs)) if (!options.into?.[output]) add(tensor, 1);
      return outputs;
    },
    tensor: (dtype, shape) => {
      const tensor = executor.tensor(dtype, shape);
      add(tensor, 1);
      return tensor;
    },
    share: (tensor) => {
      add(tensor, 1);
      executor.share(tensor);
    },
    recycle: (tensors) => {
      const all = [...tensors];
      for (const tensor of all) if (holders.has(tensor.data.buffer)) add(tensor, -1);
      executor.recycle(all);
    },
  };
  return { counted, holders };
}

/** The hashes of an undisturbed run on one PNode. */
async function undisturbed(): Promise<[string, string][]> {
  const { until, stop, orchestrator, start, vnodes, steps } = await scene();
  const pnode = await start("p1");
  for (const vnode of vnodes) orchestrator.place(vnode, "p1");
  await until(() => orchestrator.line === steps);
  await stop(pnode);
  return [...orchestrator.hashes].sort();
}

describe("PNodes", () => {
  it("train to the same hashes on one and on three machines", async () => {
    const expected = await undisturbed();
    const { until, stop, orchestrator, start, vnodes, steps } = await scene();
    assert.equal(expected.length, vnodes.length * steps);
    const pnodes = await Promise.all(["p1", "p2", "p3"].map((id) => start(id)));
    for (const [index, vnode] of vnodes.entries()) orchestrator.place(vnode, `p${1 + (index % 3)}`);
    await until(() => orchestrator.line === steps);
    assert.deepEqual([...orchestrator.hashes].sort(), expected);
    await stop(...pnodes);
  });

  it("refuse VNodes for which they lend no room, and say so; elsewhere these train to the same hashes", async () => {
    const expected = await undisturbed();
    const { until, stop, orchestrator, start, vnodes, steps } = await scene();
    const plan = compileText(definition);
    const needs = plan.vnodes.map((vnode) => memoryBytesOf(vnode, 8, 2));
    const lent = needs.slice(0, -1).reduce((sum, bytes) => sum + bytes, 0);
    const small = await start("p1", { limits: { memoryBytes: BigInt((128 << 20) + Math.ceil(lent)) } });
    const large = await start("p2");
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    const refused = () =>
      orchestrator.heartbeats.at(-1)?.vnodes.find(({ phase, noRoom }) => phase === "failed" && noRoom);
    await until(() => refused() !== undefined);
    assert.match(
      refused()?.detail ?? "",
      /needs \d+ MiB of memory; this PNode lends \d+ MiB to VNodes, and \d+ MiB are/,
    );
    const others = orchestrator.heartbeats.at(-1)?.vnodes.filter(({ phase }) => phase !== "failed") ?? [];
    assert.equal(others.length, vnodes.length - 1);
    orchestrator.place(refused()?.vnode as string, "p2");
    await until(() => orchestrator.line === steps);
    assert.deepEqual([...orchestrator.hashes].sort(), expected);
    await stop(small, large);
  });

  it("load what they had no room for ahead once it is assigned and others have left", async () => {
    const { world, until, stop, orchestrator, start, vnodes, steps } = await scene();
    const [first, second] = compileText(definition).vnodes.map((vnode) => memoryBytesOf(vnode, 8, 2)) as [
      number,
      number,
    ];
    const large = await start("p1");
    const small = await start("p2", { limits: { memoryBytes: BigInt((128 << 20) + Math.max(first, second)) } });
    for (const vnode of vnodes) orchestrator.place(vnode, vnode === vnodes[0] ? "p2" : "p1");
    await until(() => orchestrator.line >= 3);
    orchestrator.prepare([vnodes[1] as string], "p2");
    let prepared = false;
    world.timers.after(50, () => {
      prepared = true;
    });
    await until(() => prepared);
    orchestrator.place(vnodes[0] as string, "p1");
    orchestrator.place(vnodes[1] as string, "p2");
    await until(() => orchestrator.line === steps);
    assert.ok(!orchestrator.heartbeats.some((heartbeat) => heartbeat.vnodes.some(({ noRoom }) => noRoom)));
    await stop(small, large);
  });

  it("know what they stand by for before it is theirs, and forget it when they no longer do", async () => {
    const expected = await undisturbed();
    const { until, stop, orchestrator, start, vnodes, steps, world } = await scene();
    let opened = 0;
    const executorFor = async () => {
      opened++;
      return openInlineExecutor(openReferenceEngine());
    };
    const pass = async (ms: number) => {
      const endMs = world.clock.monotonicMs() + ms;
      world.timers.after(ms, () => {});
      await until(() => world.clock.monotonicMs() >= endMs);
    };
    const spare = await start("p2", {}, { executorFor });
    await until(() => orchestrator.registrations.includes("p2"));
    orchestrator.standBy(vnodes, "p2");
    await pass(500);
    assert.deepEqual([orchestrator.described, opened], [1, 1]);
    assert.equal(spare.readings().vnodes.length, 0, "it hosts nothing by it");
    orchestrator.standBy([], "p2");
    orchestrator.standBy(vnodes, "p2");
    await pass(500);
    assert.deepEqual([orchestrator.described, opened], [2, 1], "what it knew is void");
    for (const vnode of vnodes) orchestrator.place(vnode, "p2");
    await until(() => orchestrator.line === steps);
    assert.equal(orchestrator.described, 2, "and what it knows is not asked for again");
    assert.deepEqual([...orchestrator.hashes].sort(), expected);
    await stop(spare);
  });

  it("report losses, validation and progress with their heartbeats", async () => {
    const { until, stop, orchestrator, start, vnodes, steps } = await scene();
    const pnode = await start("p1");
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    await until(() => orchestrator.line === steps);
    const metrics = orchestrator.heartbeats.flatMap((heartbeat) => heartbeat.metrics);
    const stepsOf = (name: string) =>
      [...new Set(metrics.filter((metric) => metric.name === name).map(({ step }) => Number(step)))].sort(
        (a, b) => a - b,
      );
    assert.deepEqual(stepsOf("loss"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual(stepsOf("validation_loss"), [4, 8, 9]);
    assert.deepEqual(stepsOf("validation_accuracy"), [4, 8, 9]);
    assert.ok(orchestrator.heartbeats.some(({ vnodes: progress }) => progress.length === vnodes.length));
    await stop(pnode);
  });

  it("tell how fast their line is once they have measured it", async () => {
    const { until, stop, orchestrator, start } = await scene();
    const pnode = await start("p1");
    await until(() => orchestrator.heartbeats.length > 0);
    void pnode.measureLine();
    await until(() => orchestrator.measurements.some((one) => one.bandwidthBytesPerSecond > 0));
    await stop(pnode);
  });

  it("wait for data when they begin and never again, and tell how long it was", async () => {
    const downloadMs = 1_000;
    const { until, stop, orchestrator, start, vnodes, steps } = await scene({ downloadMs });
    const pnode = await start("p1");
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    const reached = (step: number) => pnode.readings().vnodes.every((vnode) => Number(vnode.step) >= step);
    await until(() => vnodes.length === pnode.readings().vnodes.length && reached(1));
    const first = pnode.readings().dataWaitMs;
    assert.ok(first >= downloadMs, `${first} ms in the first step`);
    await until(() => orchestrator.line === steps);
    assert.ok(pnode.readings().dataWaitMs < first + downloadMs, "no further download is waited for");
    await stop(pnode);
  });

  it("hold no tensor of a session that is over, whether it came by itself or was disturbed", async () => {
    const { until, stop, orchestrator, network, start, vnodes, steps } = await scene();
    const memories = new Map<string, ReturnType<typeof counting>["holders"]>();
    const begin = (id: string) => {
      const { counted, holders } = counting(inline());
      memories.set(id, holders);
      return start(id, {}, { executorFor: async () => counted });
    };
    const pnodes = await Promise.all(["p1", "p2", "p3"].map(begin));
    for (const [index, vnode] of vnodes.entries()) orchestrator.place(vnode, `p${1 + (index % 3)}`);
    await until(() => orchestrator.line >= 3);
    network.kill("p2");
    await stop(pnodes[1]!);
    for (const { vnode, pnode } of [...orchestrator.placed]) if (pnode === "p2") orchestrator.place(vnode, "p3");
    await until(() => orchestrator.line === steps);
    await stop(...pnodes);
    for (const [id, holders] of memories) {
      assert.ok(holders.size > 0, `${id} computed something`);
      assert.deepEqual(
        [...holders.values()].filter((count) => count !== 0),
        [],
        id,
      );
    }
  });

  it("do not believe a cache on disk whose content has changed", async () => {
    const { until, stop, orchestrator, contents, start, vnodes, steps } = await scene();
    const asked: string[] = [];
    const cache = {
      get: async (hash: Sha256) => {
        asked.push(hash);
        const whole = contents.get(hash);
        return whole?.map((byte, index) => (index === whole.length - 1 ? byte ^ 1 : byte));
      },
      put: async () => {},
    };
    const pnode = await start("p1", {}, { cache });
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    await until(() => orchestrator.line === steps);
    assert.ok(asked.length > 1, "the cache was asked");
    assert.deepEqual([...orchestrator.hashes].sort(), await undisturbed());
    await stop(pnode);
  });

  it("replace one that dies and come to the same hashes", async () => {
    const expected = await undisturbed();
    for (const victimAt of [1, 4, 7]) {
      const { until, stop, orchestrator, network, start, vnodes, steps } = await scene();
      const pnodes = await Promise.all(["p1", "p2", "p3"].map((id) => start(id)));
      for (const [index, vnode] of vnodes.entries()) orchestrator.place(vnode, `p${1 + (index % 3)}`);
      const reached = (step: number) =>
        orchestrator.heartbeats.some(({ vnodes: all }) => all.some((one) => Number(one.step) >= step));
      await until(() => reached(victimAt));
      network.kill("p2");
      await stop(pnodes[1]!);
      for (const { vnode, pnode } of [...orchestrator.placed]) if (pnode === "p2") orchestrator.place(vnode, "p3");
      await until(() => orchestrator.line === steps);
      assert.deepEqual([...orchestrator.hashes].sort(), expected);
      await stop(...pnodes);
    }
  });

  it("go on by a new stream where one swallows what it carries and its peer lives, once they hear that they wait for each other", async () => {
    const { until, stop, orchestrator, network, start, vnodes, steps, world } = await scene();
    let isStuck = false;
    const own = network.as("p1");
    const open: Network["open"] = (address, method, options) => {
      const channel = own.open(address, method, options);
      const isOld = !isStuck;
      const send = async (message: object) => {
        const kind = (message as { readonly event?: { readonly case?: string } }).event?.case;
        if (!isStuck || !isOld || kind !== "delivery") await channel.send(message as never);
      };
      return { ...channel, send } as typeof channel;
    };
    const stuck = { ...own, open } as Network;
    const pnodes = await Promise.all([start("p1", {}, { network: stuck }), start("p2"), start("p3")]);
    for (const [index, vnode] of vnodes.entries()) orchestrator.place(vnode, `p${1 + (index % 3)}`);
    await until(() => orchestrator.line >= 3);
    isStuck = true;
    let over = false;
    world.timers.after(120_000, () => {
      over = true;
    });
    await until(() => over, 121_000);
    assert.ok(orchestrator.line < steps, "asking alone helps nobody");
    orchestrator.circle(vnodes);
    await until(() => orchestrator.line === steps, 10_000);
    assert.deepEqual([...orchestrator.hashes].sort(), await undisturbed());
    await stop(...pnodes);
  });

  it("start with what they loaded while its owner was in doubt, and give up what does not come", async () => {
    const { until, stop, orchestrator, contents, start, vnodes, steps, world } = await scene();
    const [first, second] = [await start("p1"), await start("p2")];
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    await until(() => orchestrator.line >= 3);
    await stop(first);
    const states = vnodes.map((vnode) => orchestrator.durable.get(vnode)!.get(orchestrator.line) as never);
    const whole = new Map(states.map((state) => [state, contents.get(state)!]));
    const reports = () => orchestrator.heartbeats.at(-1)!.vnodes;
    const pass = async (ms: number) => {
      const endMs = world.clock.monotonicMs() + ms;
      world.timers.after(ms, () => {});
      await until(() => world.clock.monotonicMs() >= endMs);
    };

    orchestrator.prepare(vnodes, "p2");
    await pass(10_000);
    for (const state of states) contents.delete(state);
    for (const vnode of vnodes) orchestrator.place(vnode, "p2");
    await until(() => reports().length === vnodes.length && reports().every(({ phase }) => phase === "failed"));
    for (const [state, content] of whole) contents.set(state, content);
    for (const vnode of vnodes) orchestrator.place(vnode, "nobody");
    await until(() => reports().length === 0);

    orchestrator.prepare(vnodes, "p2");
    await pass(1_000);
    for (const state of states) contents.delete(state);
    for (const vnode of vnodes) orchestrator.place(vnode, "p2");
    await until(() => orchestrator.line === steps);
    assert.deepEqual([...orchestrator.hashes].sort(), await undisturbed());
    await stop(second);
  });

  it("go on through the loss of every orchestrator and attach to the next one", async () => {
    const expected = await undisturbed();
    const { until, stop, orchestrator, network, start, vnodes, steps } = await scene();
    await network.serve("o2", [orchestrator.service()]);
    const pnode = await start("p1", { orchestrators: ["o1", "o2"] });
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    await until(() => orchestrator.heartbeats.length > 0);
    network.kill("o1");
    await until(() => orchestrator.registrations.length === 2, 1_000);
    await until(() => orchestrator.line === steps);
    assert.deepEqual([...orchestrator.hashes].sort(), expected);
    await stop(pnode);
  });

  it("stop hosting a VNode whose record is refused", async () => {
    const { until, stop, orchestrator, start, vnodes } = await scene();
    const pnode = await start("p1");
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    await until(() => orchestrator.line >= 3);
    // Another owner, of which this PNode hears nothing.
    const stolen = orchestrator.placed.find(({ vnode }) => vnode === vnodes[0])!;
    stolen.epoch++;
    const durable = [...orchestrator.durable.get(vnodes[0]!)!.keys()];
    await until(() => orchestrator.refused > 0);
    await until(() => orchestrator.heartbeats.at(-1)!.vnodes.every(({ vnode }) => vnode !== vnodes[0]));
    assert.deepEqual([...orchestrator.durable.get(vnodes[0]!)!.keys()], durable);
    assert.equal(orchestrator.heartbeats.at(-1)!.vnodes.length, vnodes.length - 1);
    await stop(pnode);
  });

  it("go on without a pause while another replica of what they host is replaced", async () => {
    const { until, stop, orchestrator, start, vnodes, steps } = await scene();
    const pnode = await start("p1");
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    const reached = (step: number) =>
      orchestrator.heartbeats.at(-1)?.vnodes.some((progress) => Number(progress.step) >= step) ?? false;
    for (let loss = 1; loss <= 3; loss++) {
      await until(() => reached(2 * loss));
      const heard = orchestrator.heartbeats.length;
      for (const placed of orchestrator.placed) {
        placed.since ??= placed.epoch;
        placed.epoch++;
      }
      orchestrator.tell();
      await until(() => orchestrator.heartbeats.length > heard + 1);
      for (const { vnodes: all } of orchestrator.heartbeats.slice(heard))
        for (const { vnode, phase, step } of all) {
          assert.ok(phase !== "loading" && phase !== "replaying", `${vnode} is ${phase}`);
          assert.ok(Number(step) >= 2 * loss - 1, `${vnode} went back to step ${step}`);
        }
    }
    await until(() => orchestrator.line === steps);
    assert.deepEqual([...orchestrator.hashes].sort(), await undisturbed());
    await stop(pnode);
  });

  it("leave when they are let go", async () => {
    const { until, orchestrator, start } = await scene();
    const pnode = await start("p1");
    await until(() => orchestrator.heartbeats.length > 0);
    let left = false;
    void pnode.leave().then(() => {
      left = true;
    });
    await until(() => left, 1_000);
  });

  it("say which checkpoint is lost, and go on once it is found", async () => {
    const { until, stop, orchestrator, contents, start, vnodes, steps } = await scene();
    const first = await start("p1");
    for (const vnode of vnodes) orchestrator.place(vnode, "p1");
    await until(() => orchestrator.line >= 3);
    await stop(first);
    const state = orchestrator.durable.get(vnodes[0]!)!.get(orchestrator.line)!;
    const whole = contents.get(state as never)!;
    contents.set(state as never, whole.slice(1));
    const second = await start("p2");
    for (const vnode of vnodes) orchestrator.place(vnode, "p2");
    const reports = () => orchestrator.heartbeats.flatMap((heartbeat) => heartbeat.vnodes);
    await until(() => reports().some(({ damagedState, phase }) => damagedState === state && phase === "failed"));
    contents.set(state as never, whole);
    await until(() => orchestrator.line === steps);
    assert.deepEqual([...orchestrator.hashes].sort(), await undisturbed());
    await stop(second);
  });
});
