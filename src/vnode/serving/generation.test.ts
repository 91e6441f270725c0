// Passes with caches against the whole forward pass, through slabs that are shared, split, grown and repeated.

import assert from "node:assert/strict";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { asideHere } from "../../core/aside.ts";
import { hasCode } from "../../core/errors.ts";
import { fillNormal, randomKey } from "../../core/numbers/random.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { compileText } from "../../network/compile.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import { answeringGraphs } from "../../network/works.ts";
import { memoryState } from "../../states/memory.testing.ts";
import { bucketOf, Caches } from "./caches.ts";
import { VNodeGeneration } from "./generation.ts";
import { ServingWeights } from "./weights.ts";

const context = 70;
const vocabulary = 13;
const definition = transformerYaml({ ...t1, name: "small", blocks: 2, heads: 2, headDim: 4, context, vocabulary });
const plan = compileText(definition);

function weightsOf(name: string, shape: readonly number[]): Tensor {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("weights", name), 0.3);
  return { dtype: "float32", shape, data };
}

class Served {
  readonly executor = openInlineExecutor(openReferenceEngine());
  readonly vnodes = new Map<string, VNodeGeneration>();

  static async open(): Promise<Served> {
    const served = new Served();
    for (const vnode of plan.vnodes) {
      const ties = plan.edges.filter((edge) => edge.kind === "tie" && edge.to === vnode.id);
      const wanted = [
        ...vnode.parameters.map(({ name, shape }) => ({ name, stored: name, shape })),
        ...ties.map(({ toPort, fromPort, shape }) => ({ name: toPort, stored: fromPort, shape })),
      ].map(async (each) => {
        const tensors = new Map([[each.stored, weightsOf(each.stored, each.shape)]]);
        const { reader } = await memoryState({ metadata: {}, tensors });
        return { ...each, precision: "float32" as const, state: reader };
      });
      const weights = await ServingWeights.load(await Promise.all(wanted), served.executor);
      const graphs = answeringGraphs(asideHere, definition, plan, vnode);
      const needs = { plan, vnode, graphs, executor: served.executor, weights, name: vnode.id };
      served.vnodes.set(vnode.id, await VNodeGeneration.open(needs));
    }
    return served;
  }

  /** Logits of each row. Undefined requests are ghosts. */
  async pass(rows: readonly { request?: string; position: number; ids: readonly number[] }[]): Promise<Float32Array[]> {
    const tokens = rows[0]?.ids.length as number;
    const shape = {
      rows: rows.map(({ request, position }) => ({ request: request ?? "", position, ghost: request === undefined })),
      tokens,
    };
    const ids = Int32Array.from(rows.flatMap((row) => row.ids));
    const values = new Map<string, Tensor>();
    const head = generationHead(plan).vnode;
    for (const id of plan.order) {
      const vnode = plan.vnodes.find((each) => each.id === id) as (typeof plan.vnodes)[number];
      const inputs: Record<string, Tensor> = {};
      for (const port of vnode.inputs)
        if (port.source === "inputs") inputs[port.name] = { dtype: "int32", shape: [rows.length, tokens], data: ids };
      for (const edge of plan.edges)
        if (edge.to === id && edge.kind === "activation") inputs[edge.toPort] = values.get(edge.id) as Tensor;
      const results = await (this.vnodes.get(id) as VNodeGeneration).run(shape, inputs);
      for (const edge of plan.edges)
        if (edge.from === id && results[edge.fromPort]) values.set(edge.id, copyOf(results[edge.fromPort] as Tensor));
      if (id === head) {
        const logits = (results["logits"] as Tensor).data as Float32Array;
        const found = rows.map((_, row) => logits.slice(row * vocabulary, (row + 1) * vocabulary));
        this.#recycle(id, results);
        return found;
      }
      this.#recycle(id, results);
    }
    throw new Error("the network has a head");
  }

  #recycle(id: string, results: Readonly<Record<string, Tensor>>): void {
    this.vnodes.get(id)?.recycle(Object.values(results));
  }

  drop(request: string): void {
    for (const vnode of this.vnodes.values()) vnode.drop(request);
  }
}

function copyOf(tensor: Tensor): Tensor {
  return { ...tensor, data: (tensor.data as Float32Array).slice() };
}

function tokensOf(seed: number, length: number): number[] {
  return Array.from({ length }, (_, i) => (i * i * seed + 3 * i + seed) % vocabulary);
}

function assertClose(actual: Float32Array | undefined, expected: Float32Array | undefined, what: string): void {
  assert.ok(actual && expected);
  for (const [i, value] of expected.entries())
    assert.ok(
      Math.abs((actual[i] as number) - value) < 2e-4 * (1 + Math.abs(value)),
      `${what}: ${actual[i]}, ${value}`,
    );
}

/** Logits after the last of these tokens, all at once and without caches. */
async function whole(served: Served, ids: readonly number[]): Promise<Float32Array | undefined> {
  const [logits] = await served.pass([{ request: "whole", position: 0, ids }]);
  served.drop("whole");
  return logits;
}

test("tokens one by one, alone and beside others of other lengths, give what the whole sequence gives", async () => {
  const served = await Served.open();
  const sequences = new Map([
    ["a", tokensOf(1, 60)],
    ["b", tokensOf(2, 40)],
    ["c", tokensOf(5, 37)],
  ]);
  const lengths = new Map([
    ["a", 30],
    ["b", 5],
    ["c", 31],
  ]);
  for (const [request, length] of lengths)
    await served.pass([{ request, position: 0, ids: sequences.get(request)?.slice(0, length) as number[] }]);
  // Groups change, a ghost joins, the buckets of 32 are crossed at different times.
  const groups = [["a"], ["a", "b", "c"], ["b", undefined, "a"], ["c"], ["a", "b", "c"], ["c", "b"], ["a", "b", "c"]];
  for (const group of groups) {
    const rows = group.map((request) => {
      const position = request === undefined ? 0 : (lengths.get(request) as number);
      return { ...(request ? { request } : {}), position, ids: [sequences.get(request ?? "a")?.[position] as number] };
    });
    const logits = await served.pass(rows);
    for (const [row, { request, position }] of rows.entries()) {
      if (request === undefined) continue;
      lengths.set(request, position + 1);
      assertClose(
        logits[row],
        await whole(served, sequences.get(request)?.slice(0, position + 1) as number[]),
        request,
      );
    }
  }
});

test("a pass that does not follow the one before is refused, and a repetition from the start is bit-equal", async () => {
  const served = await Served.open();
  const ids = tokensOf(4, 40);
  const run = async () => {
    await served.pass([{ request: "r", position: 0, ids: ids.slice(0, 30) }]);
    const all: Float32Array[] = [];
    for (let position = 30; position < 36; position++)
      all.push(...(await served.pass([{ request: "r", position, ids: [ids[position] as number] }])));
    return all;
  };
  const first = await run();
  await assert.rejects(served.pass([{ request: "r", position: 39, ids: [1] }]), (error) => hasCode(error, "aborted"));
  await assert.rejects(served.pass([{ request: "r", position: context, ids: [1] }]), /beyond the context/);
  assert.deepEqual(await run(), first);
});

test("slabs are given back when nobody's values lie in them", () => {
  const executor = openInlineExecutor(openReferenceEngine());
  const plans = [{ node: "n", keyInput: "ki", valueInput: "vi", keyOutput: "k", valueOutput: "v", heads: 2, width: 4 }];
  const caches = new Caches(executor, plans);
  const results = (rows: number, tokens: number) => {
    const tensor = () => weightsOf("x", [rows, 2, tokens, 4]);
    return { k: tensor(), v: tensor() };
  };
  const slabBytes = (rows: number, capacity: number) => 2 * rows * 2 * capacity * 4 * 4;
  for (const request of ["a", "b", "c"]) caches.append(request, results(1, 20), 0, 20);
  assert.equal(caches.bytes, 3 * slabBytes(1, bucketOf(20)));
  const feeds = caches.feeds(["a", "b", "c"], 32);
  assert.equal(caches.bytes, slabBytes(3, 32), "they moved together");
  assert.equal(caches.feeds(["a", "b", "c"], 32)["ki"], feeds["ki"], "the same requests need no copy");
  for (let length = 20; length < 33; length++)
    for (const [row, request] of ["a", "b", "c"].entries()) caches.append(request, results(3, 1), row, 1);
  assert.equal(caches.lengthOf("b"), 33);
  assert.equal(caches.bytes, 3 * slabBytes(1, 64), "each outgrew the slab");
  caches.feeds(["a", undefined, "b", "c"], 64);
  caches.drop("a");
  caches.drop("b");
  assert.equal(caches.bytes, slabBytes(4, 64));
  caches.clear();
  assert.deepEqual([caches.bytes, caches.requests], [0, 0]);
});
