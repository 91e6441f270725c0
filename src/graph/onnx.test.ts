import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { DcnrError } from "../core/errors.ts";
import { elementCount, float32, type Tensor } from "../core/tensor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { GraphBuilder } from "./builder.ts";
import { lowerModel } from "./lower.ts";
import type { GraphModel } from "./model.ts";
import { encodeOnnx } from "./onnx.ts";
import { decodeOnnx } from "./onnx-read.ts";
import { assertClose, checkDerivative, runOnnx, seededRandom } from "./operators/oracle.test.ts";

function small(): GraphModel {
  const builder = new GraphBuilder("small");
  const x = builder.input("x", "float32", [2, 4]);
  const weight = builder.constant(
    float32(
      [4, 3],
      Array.from({ length: 12 }, (_, i) => i / 12),
    ),
    "fc.weight",
  );
  const hidden = builder.op("Clip", [builder.op("Linear", [x, weight])], { min: -0.5, max: 0.75 });
  const parts = builder.ops("Split", [hidden], { axis: 1, split: [1, 2] }, 2);
  builder.output(builder.op("Pad", [parts[1]!], { pads: [0, 1, 0, 0], value: 2 }), "y");
  builder.output(builder.op("ReduceSum", [parts[0]!], { axes: [0], keepdims: 0 }), "sum");
  return lowerModel(builder.build());
}

test("a graph that is written and read again computes the same", async () => {
  const model = small();
  const read = decodeOnnx(encodeOnnx(model));
  const feeds = { x: float32([2, 4], [1, -2, 3, 0.5, 0, 1, -1, 2]) };
  const engine = openReferenceEngine();
  const [expected, actual] = [await (await engine.load(model)).run(feeds), await (await engine.load(read)).run(feeds)];
  assert.deepEqual(actual, expected);
  assert.deepEqual(
    Object.keys(read.constants).filter((name) => name.includes(".")),
    ["fc.weight"],
  );
});

test("equal graphs are written as equal bytes", () => {
  assert.deepEqual(encodeOnnx(small()), encodeOnnx(small()));
});

test("a file that is cut off anywhere, or has any byte changed, is refused or read; it never breaks the process", () => {
  const bytes = encodeOnnx(small());
  const attempt = (damaged: Uint8Array) => {
    try {
      decodeOnnx(damaged);
    } catch (thrown) {
      assert.ok(thrown instanceof DcnrError, `${thrown}`);
      assert.doesNotMatch(thrown.message, /undefined|\bNaN/);
    }
  };
  for (let length = 0; length < bytes.length; length++) attempt(bytes.subarray(0, length));
  const random = seededRandom(4);
  for (let i = 0; i < 2000; i++) {
    const damaged = bytes.slice();
    damaged[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
    attempt(damaged);
  }
});

test("limits are named: bytes, nodes, elements", () => {
  const bytes = encodeOnnx(small());
  assert.throws(() => decodeOnnx(bytes, { bytesMax: 10 }), /bytes, at most 10 are allowed/);
  assert.throws(() => decodeOnnx(bytes, { nodesMax: 2 }), /more than 2 nodes/);
  assert.throws(() => decodeOnnx(bytes, { elementsMax: 5 }), /tensor "fc.weight" has the shape \[4,3\]: at most 5/);
});

test("operators that are not known are named, composites of ours included", () => {
  const bytes = encodeOnnx(small());
  // The operator's type is field 4: its tag and length stand before the name.
  const at = Buffer.from(bytes).indexOf("\x22\x04Clip");
  bytes.set(new TextEncoder().encode("Blip"), at + 2);
  assert.throws(() => decodeOnnx(bytes), /not supported: Blip/);
  const builder = new GraphBuilder("composite");
  builder.output(builder.op("Silu", [builder.input("x", "float32", [2])]), "y");
  assert.throws(() => encodeOnnx(builder.build()), /Silu is a composite: lower the graph/);
});

for (const [name, batch] of [
  ["gpt", 3],
  ["cnn", 3],
] as const) {
  const bytes = readFileSync(new URL(`./fixtures/${name}.onnx`, import.meta.url));
  const expected = JSON.parse(readFileSync(new URL(`./fixtures/${name}.json`, import.meta.url), "utf8")) as {
    x: number[];
    y: number[];
  };
  const feedOf = (model: GraphModel): Record<string, Tensor> => {
    const { name: input, dtype, shape } = model.inputs.find((each) => each.name === "x")!;
    const data = dtype === "int32" ? Int32Array.from(expected.x) : Float32Array.from(expected.x);
    return { [input]: { dtype, shape, data } };
  };

  test(`${name} as PyTorch exports it, with an open batch, gives PyTorch's outputs on reference and ONNX Runtime`, async () => {
    const model = decodeOnnx(bytes, { batch });
    const { shape } = model.outputs[0]!;
    assert.equal(elementCount(shape), expected.y.length);
    const known = float32(shape, expected.y);
    const reference = await (await openReferenceEngine().load(model)).run(feedOf(model));
    assertClose(reference[model.outputs[0]!.name]!, known, 1e-5, "reference");
    assertClose((await runOnnx(model, feedOf(model)))[model.outputs[0]!.name]!, known, 1e-5, "native");
  });

  test(`${name} can be trained: its derivatives are those of finite differences`, async () => {
    const frozen = decodeOnnx(bytes, { batch });
    const weights = Object.entries(frozen.constants).filter(
      ([key, tensor]) => tensor.shape.length > 0 && /weight|bias|MatMul/.test(key),
    );
    const names = new Set(weights.map(([key]) => key));
    const model = decodeOnnx(bytes, { batch, asInput: (key) => names.has(key) });
    await checkDerivative(model, { ...feedOf(model), ...Object.fromEntries(weights) }, [...names].slice(0, 6));
  });
}

test("an open size that nobody gave is asked for by name", () => {
  const bytes = readFileSync(new URL("./fixtures/cnn.onnx", import.meta.url));
  assert.throws(() => decodeOnnx(bytes), /axis 0 of input "x" has the open size batch: say how large it is/);
});
