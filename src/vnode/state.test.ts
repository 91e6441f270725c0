import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { fillNormal, fillUniform, randomKey } from "../core/numbers/random.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import type { VNodePlan } from "../network/plan.ts";
import { layoutOf } from "./layout.ts";
import { VNodeState } from "./state.ts";

/** More than one kernel call, and not a whole number of vectors. */
const long = (1 << 18) + 6;

describe("a VNode's initial weights", () => {
  it("are those of the oracle, element by element, however many calls draw them", async () => {
    const executor = openInlineExecutor(await openReferenceEngine());
    const plan = {
      id: "table",
      parameters: [
        { name: "normal", shape: [long], initial: { kind: "normal", deviation: 0.02 }, decay: true },
        { name: "uniform", shape: [long], initial: { kind: "uniform", bound: 0.5 }, decay: true },
        { name: "constant", shape: [5], initial: { kind: "constant", value: 1 }, decay: false },
      ],
      optimizer: { kind: "sgd", momentum: 0 },
    } as unknown as VNodePlan;
    const state = new VNodeState(plan, layoutOf(plan, [], new Set()), executor);
    await state.initialise(7);
    const expected = new Float32Array(long);
    fillNormal(expected, randomKey("initial", 7, "table", "normal"), 0.02);
    assert.ok(same(state.tensors.get("normal")?.data as Float32Array, expected), "normal");
    fillUniform(expected, randomKey("initial", 7, "table", "uniform"), -0.5, 0.5);
    assert.ok(same(state.tensors.get("uniform")?.data as Float32Array, expected), "uniform");
    assert.deepEqual(state.tensors.get("constant")?.data, new Float32Array(5).fill(1));
    await executor.close();
  });
});

function same(a: Float32Array, b: Float32Array): boolean {
  return Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));
}
