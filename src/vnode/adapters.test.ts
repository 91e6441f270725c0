// Training of adapters beside frozen weights: what is frozen stays, is stored once for all, and what learns comes to the same
// hashes after a restart.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOfContent } from "../core/hash.ts";
import type { Tensor } from "../core/tensor.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { withAdapters } from "../network/adapters.ts";
import { compileText } from "../network/compile.ts";
import type { StateImage } from "../states/cut.ts";
import { memoryState } from "../states/in-memory.ts";
import { tied, train } from "./training-run.testing.ts";

const base = `
name: base
nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: 5, shared_weight_alias: words } }
  - { id: mix, type: attention, config: { num_heads: 2, colocate_group: block } }
  - { id: up, type: linear, config: { out_dim: 16, colocate_group: block } }
  - { id: bend, type: gelu, config: { colocate_group: block } }
  - { id: down, type: linear, config: { out_dim: 8, colocate_group: block } }
  - { id: norm, type: layernorm, config: { dim: 8 } }
  - { id: head, type: linear, config: { tie_weight_alias: words } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: table, to: mix }
  - { from: mix, to: up }
  - { from: up, to: bend }
  - { from: bend, to: down }
  - { from: down, to: norm }
  - { from: norm, to: head }
  - { from: head, to: loss }
costs: [{ name: loss, node_id: loss }]
`;
const adapted = withAdapters(base, { rank: 2, alpha: 4 });

const executor = () => openInlineExecutor(openReferenceEngine());
const tensorsOf = (image: StateImage | undefined) => new Map([...(image as StateImage).tensors]);
const hashed = ({ data }: Tensor) => hashOfContent({ dtype: "float32", shape: [data.length], bytes: bytesOf(data) });
const bytesOf = (data: Tensor["data"]) =>
  new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength).slice();

for (const precision of ["", "bf16"])
  test(`adapters learn, frozen weights stay${precision && `, in ${precision}`}, and a restart changes no hash`, async () => {
    const text = precision ? `${adapted}\nprecision: ${precision}` : adapted;
    const whole = await train(text, 2, executor());
    assert.ok(whole.losses.at(-1)! < whole.losses[0]!, `${whole.losses[0]} to ${whole.losses.at(-1)}`);
    const again = await train(text, 1, executor(), { line: 8, from: whole });
    for (const [name, hash] of again.hashes) assert.equal(hash, whole.hashes.get(name), name);
    const plan = compileText(text);
    for (const { id, parameters } of plan.vnodes) {
      const [early, late] = [4, 12].map((step) => tensorsOf(whole.snapshots.get(`${id}/${step}`)));
      for (const { name, frozen } of parameters)
        assert.equal(hashed(early!.get(name)!) === hashed(late!.get(name)!), frozen === true, name);
      const moments = [...late!.keys()].filter((name) => name.startsWith("optimizer."));
      const learnt = parameters.filter(({ frozen }) => !frozen).length;
      assert.equal(moments.length, 2 * learnt, `${id}: what is frozen has no moments`);
    }
  });

test("parts of frozen weights are those of the state that they came from, at every step", async () => {
  const before = await train(base, 1, executor());
  const weights = new Map<string, Float32Array>();
  for (const [key, image] of before.snapshots)
    if (key.endsWith("/12")) for (const [name, { data }] of image.tensors) weights.set(name, data as Float32Array);
  const plan = compileText(adapted);
  for (const { parameters } of plan.vnodes)
    for (const { name, shape, adapter } of parameters)
      if (adapter) weights.set(name, new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(0.01));
  const after = await train(adapted, 1, executor(), { weights });
  let shared = 0;
  for (const { id, parameters } of plan.vnodes) {
    const frozen = parameters.filter((one) => one.frozen).map(({ name }) => name);
    if (frozen.length === 0) continue;
    // As an import stores them: weights alone, in the plan's order.
    const tensors = new Map(frozen.map((name) => [name, before.snapshots.get(`${id}/12`)!.tensors.get(name)!]));
    const stored = await memoryState({ metadata: { vnode: id, step: "0" }, tensors });
    for (const step of [4, 8, 12]) {
      const { manifest, reader } = await memoryState(after.snapshots.get(`${id}/${step}`)!);
      assert.deepEqual(
        manifest.parts.slice(0, stored.manifest.parts.length),
        stored.manifest.parts,
        `${id} at ${step}`,
      );
      const read = await reader.read(frozen.map((name) => ({ name, shape: tensors.get(name)!.shape })));
      for (const [name, { data }] of read) assert.deepEqual(data, tensors.get(name)!.data, name);
    }
    shared += stored.manifest.parts.length;
  }
  assert.ok(shared > 4, `${shared} parts`);
});

test("a state without adapters is where they begin: drawn from the seed, the rest as it is", async () => {
  const adaptedTied = withAdapters(
    tied.replace("norm, type: layernorm, config: { dim: 4 }", "norm, type: linear, config: { out_dim: 4 }"),
    { rank: 2 },
  );
  const plan = compileText(adaptedTied);
  const { VNodeState } = await import("./state.ts");
  const { layoutOf } = await import("./layout.ts");
  const vnode = plan.vnodes.find(({ parameters }) => parameters.some(({ adapter }) => adapter))!;
  const inline = executor();
  const fresh = new VNodeState(vnode, layoutOf(vnode, [], new Set()), inline);
  await fresh.initialise(5);
  const own = vnode.parameters.filter(({ adapter }) => !adapter);
  const tensors = new Map(
    own.map(({ name, shape }) => [
      name,
      { dtype: "float32" as const, shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(0.5) },
    ]),
  );
  const { reader } = await memoryState({ metadata: { vnode: vnode.id, step: "7" }, tensors });
  const state = new VNodeState(vnode, layoutOf(vnode, [], new Set()), inline);
  await state.adopt(reader, 5);
  for (const [name, { data }] of state.tensors) assert.deepEqual(data, fresh.tensors.get(name)?.data, name);
  for (const [name, { data }] of state.frozen)
    assert.ok(
      (data as Float32Array).every((value) => value === 0.5),
      name,
    );
  assert.ok(state.frozen.size > 0 && state.tensors.size > 0);
});
