import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { GraphBuilder } from "../../graph/builder.ts";
import type { GraphModel } from "../../graph/model.ts";
import { compileText } from "../../network/compile.ts";
import { buildEvaluation, buildTraining } from "../../network/graphs/graphs.ts";
import { deviceKernel, squaresGraph } from "../webgpu/kernels.ts";
import { lowerToShaders, type ShaderPlan } from "./lower.ts";
import { planSlots, slotBytes } from "./plan.ts";
import { bindingsMax } from "./shader.ts";

function graphOf(build: (builder: GraphBuilder) => void): GraphModel {
  const builder = new GraphBuilder("test");
  build(builder);
  return builder.build();
}

const whats = ({ dispatches }: ShaderPlan) => dispatches.map(({ what }) => what);

function graphsOfExample(name: string): GraphModel[] {
  const plan = compileText(readFileSync(new URL(`../../../examples/${name}.yaml`, import.meta.url), "utf8"));
  return plan.vnodes.flatMap((vnode) => {
    const { forward, backward } = buildTraining(plan, vnode, { microbatch: 2, lossScale: 1 });
    return [forward, backward, buildEvaluation(plan, vnode, { microbatch: 2 })].filter((graph) => graph !== undefined);
  });
}

describe("graphs as shaders", () => {
  test("a chain of element-wise nodes is one dispatch, and moves are none", () => {
    const graph = graphOf((builder) => {
      const x = builder.input("x", "float32", [4, 6]);
      const turned = builder.op("Transpose", [x], { perm: [1, 0] });
      const bent = builder.op("Tanh", [builder.op("Mul", [turned, builder.scalar(2)])]);
      builder.output(builder.op("Add", [bent, turned]), "y");
    });
    const plan = lowerToShaders(graph);
    assert.deepEqual(whats(plan), ["Mul+Tanh+Add"]);
    const code = plan.dispatches[0]?.code ?? "";
    assert.match(code, /fn hyperbolic/);
    assert.match(code, /fn exponential/, "a function brings what it calls");
    assert.doesNotMatch(code, /fn logarithm/);
  });

  test("what is fused into a row's sum is computed while it is read", () => {
    const graph = graphOf((builder) => {
      const x = builder.input("x", "float32", [8, 100]);
      builder.output(builder.op("ReduceSum", [builder.op("Mul", [x, x])], { axes: [1], keepdims: 0 }), "sums");
    });
    assert.deepEqual(whats(lowerToShaders(graph)), ["ReduceSum"]);
  });

  test("no shader is bound to more buffers than every browser allows, however many values are added", () => {
    const graph = graphOf((builder) => {
      const parts = Array.from({ length: 20 }, (_, i) => builder.input(`x${i}`, "float32", [64]));
      builder.output(builder.op("Sum", parts), "y");
    });
    const { dispatches } = lowerToShaders(graph);
    assert.ok(dispatches.length > 1);
    for (const { bindings } of dispatches) assert.ok(bindings.length <= bindingsMax);
  });

  test("an optimizer is four dispatches, with the same code for every size", () => {
    const [small, large] = [
      [3, 5],
      [40, 128],
    ].map((shape) => lowerToShaders(deviceKernel("adam", shape).graph));
    assert.equal(small?.dispatches.length, 4);
    assert.deepEqual(
      small?.dispatches.map(({ code }) => code),
      large?.dispatches.map(({ code }) => code),
    );
    // Squares are reshaped to rows in between.
    assert.deepEqual(whats(lowerToShaders(squaresGraph([40, 128]))), ["Mul", "ReduceSum"]);
  });

  test("products of other sizes run by the same code", () => {
    const product = (rows: number, depth: number, columns: number) =>
      graphOf((builder) => {
        const [a, b] = [builder.input("a", "float32", [rows, depth]), builder.input("b", "float32", [depth, columns])];
        builder.output(builder.op("MatMul", [a, b]), "c");
      });
    const [one, other] = [product(7, 9, 11), product(20, 30, 40)].map((graph) => lowerToShaders(graph).dispatches[0]);
    assert.equal(one?.code, other?.code);
    assert.notDeepEqual(one?.numbers, other?.numbers);
  });

  test("few tiles of a great depth are made in pieces, which are joined in order", () => {
    const graph = graphOf((builder) => {
      const [a, b] = [builder.input("a", "float32", [8, 4096]), builder.input("b", "float32", [4096, 8])];
      builder.output(builder.op("MatMul", [a, b]), "c");
    });
    const { dispatches } = lowerToShaders(graph);
    assert.deepEqual(
      dispatches.map(({ groups }) => groups[2]),
      [16, 1],
    );
  });

  for (const name of ["gpt-demo", "mlp", "conv", "t1", "t2"])
    test(`every graph of ${name} is lowered, and the same way each time`, () => {
      for (const graph of graphsOfExample(name)) {
        const plan = lowerToShaders(graph);
        assert.ok(plan.dispatches.length > 0);
        assert.deepEqual(lowerToShaders(graph), plan);
        for (const { bindings, groups } of plan.dispatches) {
          assert.ok(bindings.length <= bindingsMax);
          assert.ok(groups.every((count) => count >= 1 && count <= 65_535));
        }
      }
    });

  test("an operator that has no shader is refused by its name", () => {
    const graph = graphOf((builder) => {
      builder.output(builder.op("PowerOfTwo", [builder.input("x", "float32", [4])]), "y");
    });
    assert.throws(() => lowerToShaders(graph), /PowerOfTwo does not run on the GPUs of browsers: use portable/);
  });

  test("indices that come from a feed are known, so that one out of range can be refused", () => {
    const graph = graphOf((builder) => {
      const table = builder.input("table", "float32", [10, 4]);
      builder.output(builder.op("Gather", [table, builder.input("ids", "int32", [3])], { axis: 0 }), "rows");
    });
    assert.deepEqual(lowerToShaders(graph).checks, [{ input: 1, type: "Gather", size: 10 }]);
  });
});

describe("slots", () => {
  const step = (...buffers: number[]) => ({
    ...{ what: "", code: "", groups: [1, 1, 1] as const, numbers: [] },
    bindings: buffers.map((buffer) => ({ buffer, writes: false })),
  });

  test("buffers share one where none is needed while the other is", () => {
    const { slots, slotOf } = planSlots([step(0, 1), step(1, 2), step(2, 3)], () => 1000);
    assert.equal(slots.length, 2);
    assert.equal(slotOf.get(2), slotOf.get(0));
    assert.equal(slotOf.get(3), slotOf.get(1));
    assert.notEqual(slotOf.get(1), slotOf.get(0));
  });

  test("a step never writes what it reads", () => {
    const { slotOf } = planSlots([step(0, 1), step(1, 2)], () => 64);
    assert.notEqual(slotOf.get(1), slotOf.get(2));
  });

  test("waste at most a quarter, and come in few sizes", () => {
    const sizes = new Set<number>();
    for (let bytes = 300; bytes < 5_000; bytes += 7) {
      assert.ok(slotBytes(bytes) >= bytes && slotBytes(bytes) < 1.34 * bytes, `${bytes}`);
      sizes.add(slotBytes(bytes));
    }
    assert.ok(sizes.size <= 20, `${sizes.size}`);
  });
});
