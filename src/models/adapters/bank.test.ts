// Several adapters of one base as rows of one pass: what each says is what its own network says, and its bits are the same alone and beside the others.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fillNormal, randomKey } from "../../core/numbers/random.ts";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import type { Engine } from "../../engine/engine.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { hasNativeEngine } from "../../engine/onnx/native.ts";
import { openEngine } from "../../engine/open.ts";
import { withAdapters } from "../../network/adapters.ts";
import { compileText } from "../../network/compile.ts";
import { adapterCountOf } from "../../network/graphs/generation.ts";
import { LocalStage } from "../../vnode/serving/local-stage.testing.ts";
import { joined, type NamedAdapter } from "./bank.ts";

const vocabulary = 13;
const base = `
name: base
nodes:
  - { id: table, type: embedder, config: { vocab_size: ${vocabulary}, dim: 32, seq_len: 64, shared_weight_alias: words } }
  - { id: mix, type: attention, config: { num_heads: 2, position_encoding: rope, colocate_group: block } }
  - { id: up, type: linear, config: { out_dim: 64, colocate_group: block } }
  - { id: bend, type: gelu, config: { colocate_group: block } }
  - { id: down, type: linear, config: { out_dim: 32, colocate_group: block } }
  - { id: norm, type: layernorm }
  - { id: head, type: linear, config: { tie_weight_alias: words } }
edges: [{ from: table, to: mix }, { from: mix, to: up }, { from: up, to: bend }, { from: bend, to: down }, { from: down, to: norm }, { from: norm, to: head }]
outputs: [{ name: logits, node_id: head }]
`;

/** Weights of the base are the same whoever asks; those of adapters are each one's own. */
function loader(definition: string, who: string): (name: string) => Promise<Tensor> {
  const parameters = new Map(
    compileText(definition).vnodes.flatMap(({ parameters: own }) => own.map((one) => [one.name, one])),
  );
  return async (name) => {
    const { shape, adapter } = parameters.get(name) as { shape: readonly number[]; adapter?: true };
    const data = new Float32Array(elementCount(shape));
    fillNormal(data, randomKey(adapter ? who : "base", name), 0.3);
    return float32(shape, data);
  };
}

const small = withAdapters(base, { rank: 2, alpha: 4 });
const wide = withAdapters(base, { rank: 5, targets: ["up", "mix"] });
const adapters: NamedAdapter[] = [
  { name: "small", definition: small, load: loader(small, "small") },
  { name: "wide", definition: wide, load: loader(wide, "wide") },
];
const plain = { definition: base, load: loader(base, "") };

const tokens = (seed: number, length: number) => Array.from({ length }, (_, i) => (i * i * seed + 3 * i) % vocabulary);

const kinds = ["reference", "portable", ...(hasNativeEngine() ? ["native" as const] : [])] as const;
for (const kind of kinds)
  test(`answers of several adapters and of the base share passes, bit for bit what they are alone, ${kind}`, async () => {
    const executor = openInlineExecutor((await openEngine(kind)) as Engine);
    const bank = await joined(plain, adapters);
    const plan = compileText(bank.definition);
    assert.equal(adapterCountOf(plan), 2);
    const together = await LocalStage.open(plan, executor, bank.load);
    const prompts = [tokens(1, 9), tokens(2, 5), tokens(3, 12), tokens(1, 9)];
    const rows = prompts.map((ids, i) => ({
      request: `r${i}`,
      position: 0,
      ids,
      adapter: [0, 1, 2, 1][i] ?? 0,
      logits: ids.length,
    }));
    const all = await together.pass(rows);
    let at = 0;
    for (const row of rows) {
      const own = all.slice(at, at + row.ids.length);
      at += row.ids.length;
      const alone = await together.pass([{ ...row, request: `${row.request} alone` }]);
      assert.deepEqual(alone, own, `${row.request} alone`);
      for (const [i, id] of row.ids.entries()) {
        const [single] = await together.pass([{ ...row, request: "one by one", position: i, ids: [id], logits: 1 }]);
        assert.deepEqual(single, own[i], `${row.request} at ${i}`);
      }
      together.drop("one by one");
      const source = row.adapter === 0 ? plain : (adapters[row.adapter - 1] as NamedAdapter);
      const other = openInlineExecutor((await openEngine(kind)) as Engine);
      const apart = await LocalStage.open(compileText(source.definition), other, source.load);
      const expected = await apart.pass([{ request: "r", position: 0, ids: row.ids, logits: row.ids.length }]);
      for (const [i, logits] of expected.entries())
        for (const [j, value] of logits.entries())
          assert.ok(Math.abs(value - (own[i]?.[j] as number)) < 1e-4 * (1 + Math.abs(value)), `${row.request} ${i}`);
      await apart.close();
      await other.close();
    }
    assert.notDeepEqual(all[0], all[9 + 5 + 12], "the same prompt with and without an adapter");
    await together.close();
    await executor.close();
  });

test("an adapter of other weights, of another network, or none at all is refused", async () => {
  const other = { ...adapters[0], name: "other", load: loader(small, "small") } as NamedAdapter;
  const load = async (name: string) => (name === "up.weight" ? loader(base, "x")("down.weight") : other.load(name));
  await assert.rejects(joined(plain, [{ ...other, load }]), /other was made for other weights.*up\.weight differs/);
  const more = small.replace(
    "- { id: norm",
    "- { id: norm2, type: rmsnorm, config: { frozen: true } }\n  - { id: norm",
  );
  const longer = more.replace("{ from: down, to: norm }", "{ from: down, to: norm2 }, { from: norm2, to: norm }");
  await assert.rejects(joined(plain, [{ ...other, definition: longer }]), /other was made for another network/);
  await assert.rejects(joined(plain, [{ ...plain, name: "bare" }]), /bare has no adapters/);
  await assert.rejects(joined(plain, []), /1 to 64 can be joined/);
});
