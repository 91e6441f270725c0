import { deepStrictEqual, rejects, strictEqual, throws } from "node:assert/strict";
import { after, describe, test } from "node:test";
import { randomKey } from "../core/numbers/random.ts";
import type { Tensor } from "../core/tensor.ts";
import type { GraphModel } from "../graph/model.ts";
import { close, float, layer, layerFeeds, naming, node, normal, numbers, plainLayer } from "./conformance.ts";
import type { Executor, SharedBytes, Tensors } from "./engine.ts";
import { openInlineExecutor } from "./executor.ts";
import { openNativeEngine } from "./onnx/native.ts";
import { openExecutor } from "./pool/threads.ts";
import { openPortableEngine } from "./portable/engine.ts";

const product: GraphModel = {
  name: "product",
  inputs: [float("x", 64, 784), float("w", 784, 128)],
  outputs: [float("y", 64, 128)],
  nodes: [node("MatMul", ["x", "w"], "y")],
  constants: {},
};

const inverse: GraphModel = {
  name: "inverse",
  inputs: [float("x", 3)],
  outputs: [float("y", 3), float("z", 3)],
  nodes: [node("Div", ["one", "x"], "y"), node("Mul", ["x", "x"], "z")],
  constants: { one: { dtype: "float32", shape: [], data: Float32Array.of(1) } },
};

const span = (memory: SharedBytes, start: number, length: number) => ({ memory, start, length });
const over = (memory: SharedBytes, start: number, length: number) =>
  new Float32Array(memory.buffer, memory.offset + start * 4, length);

const nativeKinds: Record<string, () => Promise<Executor>> = {
  inline: async () => openInlineExecutor(await openNativeEngine()),
  "one worker": () => openExecutor({ kind: "native", workers: 1 }),
  "three workers": () => openExecutor({ kind: "native", workers: 3 }),
};

const portableKinds: Record<string, () => Promise<Executor>> = {
  "inline, portable": async () => openInlineExecutor(openPortableEngine()),
  "two workers, portable": () => openExecutor({ kind: "portable", workers: 2 }),
};

const kinds = { ...nativeKinds, ...portableKinds };

/** Opening workers takes most of a test's time: all tests of a kind share them, each under its own graph names. */
const opened = new Map<string, Promise<Executor>>();

async function using(kind: string, work: (executor: Executor) => Promise<void>): Promise<void> {
  const executor = opened.get(kind) ?? (kinds[kind] as () => Promise<Executor>)();
  opened.set(kind, executor);
  const known: string[] = [];
  const { register } = await executor;
  await work({
    ...(await executor),
    register(name, graph) {
      register(name, graph);
      known.push(name);
    },
  });
  for (const name of known) (await executor).unregister(name);
}

after(async () => {
  for (const executor of opened.values()) await (await executor).close();
});

for (const [kind, open] of Object.entries(kinds))
  describe(`executor ${kind}`, () => {
    test("runs graphs, names, outputs given and outputs from the pool", () =>
      using(kind, async (executor) => {
        executor.register("layer", layer);
        const block = executor.allocate(1024);
        const y: Tensor = { dtype: "float32", shape: [5, 3], data: over(block, 8, 15) };
        const result = await executor.run("layer", layerFeeds(), { into: { y } });
        close(y, plainLayer(layerFeeds()).y);
        close(result["sums"], plainLayer(layerFeeds()).sums);
        strictEqual(result["y"]?.data, y.data);
      }));

    test("many calls at once give each its own result", () =>
      using(kind, async (executor) => {
        executor.register("layer", layer);
        const feeds = Array.from({ length: 20 }, (_, i) => ({ ...layerFeeds(), x: normal(`x${i}`, [5, 7]) }));
        const results = await Promise.all(feeds.map((feed) => executor.run("layer", feed)));
        for (const [i, result] of results.entries()) close(result["y"], plainLayer(feeds[i] as never).y);
      }));

    test("kernels and graphs see the same memory", () =>
      using(kind, async (executor) => {
        executor.register("layer", layer);
        const block = executor.allocate(300_000);
        const w: Tensor = { dtype: "float32", shape: [7, 3], data: over(block, 5, 21) };
        await executor.kernel({ kind: "fill", into: span(block, 5, 21), value: 0.5 });
        await executor.kernel({ kind: "accumulate", into: span(block, 5, 21), add: normal("w", [7, 3]) });
        const result = await executor.run("layer", { ...layerFeeds(), w });
        const expected = normal("w", [7, 3]);
        for (let i = 0; i < 21; i++) expected.data[i] = (expected.data[i] as number) + 0.5;
        close(result["y"], plainLayer({ ...layerFeeds(), w: expected }).y);
        const mask = executor.tensor("float32", [40_000]);
        await executor.kernel({ kind: "chance", into: mask, key: randomKey(1), rate: 0.5, keepValue: 2, dropValue: 0 });
        deepStrictEqual(new Set(numbers(mask)), new Set([0, 2]));
        const { value } = await executor.kernel({ kind: "sumOfSquares", of: mask });
        strictEqual(value, 4 * numbers(mask).filter((element) => element === 2).length);
      }));

    test("an output that is not finite fails the call and names graph, output and element", () =>
      using(kind, async (executor) => {
        executor.register("inverse of block_3", inverse);
        const x: Tensor = { dtype: "float32", shape: [3], data: Float32Array.of(1, 0, 2) };
        await rejects(
          executor.run("inverse of block_3", { x }, { finite: true }),
          naming("inverse", '"y"', "element 1"),
        );
        await executor.run("inverse of block_3", { x }, { finite: ["z"] });
        const result = await executor.run("inverse of block_3", { x });
        strictEqual(numbers(result["y"])[1], Number.POSITIVE_INFINITY);
      }));

    test("a failure leaves it usable and says which graph and which feed", () =>
      using(kind, async (executor) => {
        executor.register("layer", layer);
        executor.register("broken", { ...layer, name: "broken", nodes: [node("Gemm", ["x", "x"], "y")] });
        await rejects(executor.run("absent", {}), naming('"absent"', "not registered"));
        await rejects(executor.run("layer", {}), naming('"layer"', '"x"', "missing"));
        await rejects(executor.run("broken", layerFeeds()), naming('"broken"'));
        close((await executor.run("layer", layerFeeds()))["y"], plainLayer(layerFeeds()).y);
        throws(() => executor.register("layer", layer), naming("layer", "already"));
      }));

    test("a name can be given to another graph after it was unregistered", () =>
      using(kind, async (executor) => {
        executor.register("graph", layer);
        const before = executor.run("graph", layerFeeds());
        executor.unregister("graph");
        executor.register("graph", inverse);
        const x: Tensor = { dtype: "float32", shape: [3], data: Float32Array.of(1, 4, 2) };
        deepStrictEqual(numbers((await executor.run("graph", { x }))["y"]), [1, 0.25, 0.5]);
        close((await before)["y"], plainLayer(layerFeeds()).y);
      }));

    test("kernels of one call run in order, up to a sum of squares that is not finite", () =>
      using(kind, async (executor) => {
        for (const length of [32, 100_000]) {
          const block = executor.allocate(8 * length);
          const [values, other] = [span(block, 0, length), span(block, length, length)];
          const fill = (value: number) => ({ kind: "fill" as const, into: values, value });
          const squares = { kind: "sumOfSquares" as const, of: values };
          const copy = { kind: "copy" as const, into: other, of: values };
          const results = await executor.kernels([fill(2), squares, copy, fill(Number.NaN), squares, copy]);
          deepStrictEqual(results, [{}, { value: 4 * length }, {}, {}, { value: Number.NaN }]);
          deepStrictEqual(await executor.kernel({ ...squares, of: other }), { value: 4 * length });
          executor.free(block);
        }
      }));

    test("what goes back to the pool is used again, once", () =>
      using(kind, async (executor) => {
        executor.register("product", product);
        const feeds = { x: normal("x", [64, 784]), w: normal("w", [784, 128]) };
        const first = await executor.run("product", feeds);
        const { buffer, byteOffset } = (first["y"] as Tensor).data;
        const isThere = ({ y }: Tensors) => y?.data.buffer === buffer && y.data.byteOffset === byteOffset;
        executor.recycle(Object.values(first));
        const second = await executor.run("product", feeds);
        strictEqual(isThere(second), true);
        const third = await executor.run("product", feeds);
        strictEqual(isThere(third), false);
        executor.recycle(Object.values(second));
        throws(() => executor.recycle(Object.values(second)), naming("once"));
        executor.recycle([normal("foreign", [3])]);
      }));

    test("a closed executor says so", async () => {
      const executor = await open();
      executor.register("layer", layer);
      await executor.close();
      await rejects(executor.run("layer", layerFeeds()), naming("closed"));
    });
  });

test("the number of workers changes no bit, and the class is the same", async () => {
  const feeds = Array.from({ length: 6 }, (_, i) => ({ x: normal(`x${i}`, [64, 784]), w: normal("w", [784, 128]) }));
  for (const family of [nativeKinds, portableKinds]) {
    const outcomes: string[] = [];
    for (const kind of Object.keys(family))
      await using(kind, async (executor) => {
        executor.register("product", product);
        const results = await Promise.all(feeds.map((feed) => executor.run("product", feed)));
        const digests = results.map((result) => executor.kernel({ kind: "digest", of: result["y"] as Tensor }));
        outcomes.push(JSON.stringify([await executor.numericsClass(), await Promise.all(digests)]));
      });
    strictEqual(new Set(outcomes).size, 1);
  }
});

test("waiting calls start by priority, then in the order they were made", () =>
  using("one worker", async (executor) => {
    executor.register("layer", layer);
    const finished: string[] = [];
    const call = (label: string, priority: number) =>
      executor.run("layer", layerFeeds(), { priority }).then(() => finished.push(label));
    // The second is with the worker already, so that it has no pause after the first.
    await Promise.all([
      call("first", 0),
      call("second", 0),
      call("forward 1", 0),
      call("forward 2", 0),
      call("backward", 1),
      call("urgent", 2),
    ]);
    deepStrictEqual(finished, ["first", "second", "urgent", "backward", "forward 1", "forward 2"]);
  }));

test("moved feeds are gone from the caller, copied ones are not", () =>
  using("one worker", async (executor) => {
    executor.register("layer", layer);
    const kept = layerFeeds();
    await executor.run("layer", kept);
    strictEqual(kept["x"]?.data.length, 35);
    const moved = layerFeeds();
    close((await executor.run("layer", moved, { transfer: true }))["y"], plainLayer(layerFeeds()).y);
    strictEqual(moved["x"]?.data.length, 0);
  }));

test("a worker cannot be asked to write to memory that is not shared", () =>
  using("one worker", async (executor) => {
    executor.register("layer", layer);
    await rejects(
      executor.run("layer", layerFeeds(), { into: { y: normal("y", [5, 3]) } }),
      naming('"y"', "shared memory"),
    );
    await rejects(executor.kernel({ kind: "fill", into: normal("y", [5]), value: 1 }), naming("fill", "shared memory"));
  }));

test("freed memory goes back to the machine, whichever worker used it", () =>
  using("three workers", async (executor) => {
    const bytes = 256 << 20;
    const before = process.memoryUsage.rss();
    const blocks = [0, 1, 2, 3].map(() => executor.allocate(bytes / 4));
    const fill = (memory: SharedBytes) =>
      executor.kernel({ kind: "fill", into: span(memory, 0, bytes / 16), value: 1 });
    await Promise.all(blocks.map(fill));
    const used = process.memoryUsage.rss();
    strictEqual(used - before > bytes / 2, true, `${used - before} bytes more while it is in use`);
    for (const memory of blocks.splice(0)) executor.free(memory);
    // A worker lets go before its next call is done; some rounds of calls reach them all.
    executor.register("layer", layer);
    let left = used;
    for (let round = 0; round < 100 && used - left <= bytes / 3; round++) {
      await Promise.all([1, 2, 3, 4, 5, 6].map(() => executor.run("layer", layerFeeds())));
      left = process.memoryUsage.rss();
    }
    strictEqual(used - left > bytes / 3, true, `${used - left} bytes less after it was freed`);
  }));

test("an engine that cannot be had fails at the start, not later", async (context) => {
  const opening = openExecutor({ kind: "cuda", workers: 1 });
  const opened = await opening.catch(() => undefined);
  await opened?.close();
  if (opened) return context.skip("CUDA is installed here");
  await rejects(opening, /cuda/i);
});
