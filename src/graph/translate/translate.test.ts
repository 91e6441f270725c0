// Every operator that the reader of ONNX files understands computes what ONNX Runtime computes from the same file, on the reference
// and the portable engine, and its derivatives equal finite differences.

import assert from "node:assert/strict";
import test from "node:test";
import * as native from "onnxruntime-node";
import { type DType, elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import type { Tensors } from "../../engine/engine.ts";
import { openPortableEngine } from "../../engine/portable/engine.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { decodeOnnx } from "../onnx-read.ts";
import { assertClose, checkDerivative, seededRandom } from "../operators/oracle.test.ts";
import { type NodeFile, nodeFile } from "./node-file.testing.ts";
import { tensorOf } from "./site.ts";
import { translations } from "./table.ts";

interface Given {
  readonly tensor: Tensor;
  readonly constant: boolean;
}

const random = seededRandom(7);

/** Random numbers that data feeds. */
function fed(shape: Shape, from = -1, to = 1): Given {
  const values = Array.from({ length: elementCount(shape) }, () => from + (to - from) * random());
  return { tensor: tensorOf("float32", shape, values), constant: false };
}

function values(dtype: DType, shape: Shape, list: readonly number[]): Given {
  return { tensor: tensorOf(dtype, shape, list), constant: false };
}

/** Numbers that the file holds. */
function held(dtype: DType, shape: Shape, list: readonly number[]): Given {
  return { tensor: tensorOf(dtype, shape, list), constant: true };
}

const ints = (...list: number[]) => held("int64", [list.length], list);
const float = (value: number) => ({ float: value });
const floats = (...list: number[]) => ({ floats: list });

interface Case extends Partial<Omit<NodeFile, "op" | "inputs">> {
  readonly inputs: readonly (Given | undefined)[];
  /** False where the result is a step or whole numbers. */
  readonly smooth?: boolean;
}

const one = (shape: Shape, attributes: NodeFile["attributes"] = {}): Case => ({
  inputs: [fed(shape, -2, 2)],
  attributes,
});
const step = (given: Case): Case => ({ ...given, smooth: false });
const nasty = values("float32", [2, 5], [-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, -3.2, 7.7, 2 ** 25]);
const whole = [values("int32", [6], [7, -7, 7, -7, 6, 0]), values("int32", [6], [3, 3, -3, -3, 3, 5])];
const bools = [values("bool", [4], [0, 0, 1, 1]), values("bool", [4], [0, 1, 0, 1])];
const image = () => fed([2, 3, 5, 6]);
const pool = { kernel_shape: [2, 3], strides: [2, 2], pads: [0, 1, 1, 1] };
const lists = { kernel_shape: [3], strides: [2], pads: [1, 1] };
const pair = (...shapes: Shape[]): Case => ({ inputs: shapes.map((shape) => fed(shape, -2, 2)) });
const sizes = (mode: string, rest: NodeFile["attributes"] = {}, to = [2, 3, 8, 9]): Case => ({
  inputs: [image(), undefined, undefined, ints(...to)],
  attributes: { mode, ...rest },
});
const layers = (gates: number, direction: string, rest: NodeFile["attributes"] = {}, reads = 3): Case => {
  const ways = direction === "bidirectional" ? 2 : 1;
  return {
    inputs: [fed([4, 2, 3]), fed([ways, gates * 5, 3]), fed([ways, gates * 5, 5]), fed([ways, 2 * gates * 5])],
    attributes: { hidden_size: 5, direction, ...rest },
    outputs: reads,
  };
};

const cases: Readonly<Record<string, readonly Case[]>> = {
  Abs: [one([2, 3])],
  Add: [pair([2, 3], [3])],
  And: [step({ inputs: bools })],
  ArgMax: [step(one([2, 4, 3], { axis: 1 })), step(one([2, 4], { axis: -1, keepdims: 0, select_last_index: 1 }))],
  ArgMin: [
    step(one([2, 4, 3], { axis: 2, keepdims: 0 })),
    step({ inputs: [values("float32", [1, 4], [2, 1, 1, 3])], attributes: { axis: 1 } }),
  ],
  AveragePool: [
    { inputs: [image()], attributes: { ...pool, count_include_pad: 1 } },
    { inputs: [image()], attributes: { kernel_shape: [2, 2], strides: [2, 2], ceil_mode: 1 } },
    { inputs: [fed([2, 3, 7])], attributes: lists },
    { inputs: [image()], attributes: { kernel_shape: [3, 3], strides: [2, 2], auto_pad: "SAME_LOWER" } },
  ],
  BatchNormalization: [
    {
      inputs: [image(), fed([3]), fed([3]), held("float32", [3], [0.1, 0.2, -1]), held("float32", [3], [1, 2, 0.5])],
      attributes: { epsilon: float(0.01) },
    },
  ],
  Cast: [step({ inputs: [nasty], attributes: { to: 7 } }), { inputs: [fed([3])], attributes: { to: 1 } }],
  CastLike: [step({ inputs: [values("int32", [3], [1, 2, 3]), held("float32", [1], [0])] })],
  Ceil: [step({ inputs: [nasty] })],
  Celu: [one([2, 5], { alpha: float(0.7) })],
  Clip: [
    { inputs: [fed([9], -2, 2), held("float32", [], [-0.5]), held("float32", [], [1])] },
    { ...one([9], { min: float(-1) }), opset: 6 },
  ],
  Concat: [{ ...pair([2, 3], [2, 1]), attributes: { axis: -1 } }],
  Conv: [
    { inputs: [image(), fed([4, 3, 3, 2]), fed([4])], attributes: { strides: [2, 1], pads: [1, 0, 1, 1] } },
    { inputs: [fed([2, 4, 9]), fed([6, 2, 3]), fed([6])], attributes: { group: 2, dilations: [2], pads: [1, 2] } },
    { inputs: [image(), fed([4, 3, 3, 3])], attributes: { strides: [2, 2], auto_pad: "SAME_UPPER" } },
  ],
  ConvTranspose: [
    {
      inputs: [image(), fed([3, 4, 3, 2]), fed([4])],
      attributes: { strides: [2, 2], pads: [1, 0, 1, 1], output_padding: [1, 0] },
    },
    { inputs: [fed([2, 4, 5]), fed([4, 3, 3])], attributes: { strides: [2], group: 2 } },
    { inputs: [image(), fed([3, 2, 3, 3])], attributes: { strides: [2, 2], auto_pad: "SAME_UPPER" } },
  ],
  Cos: [{ inputs: [fed([40], -20, 20)] }],
  Cosh: [one([5])],
  CumSum: [
    { inputs: [fed([2, 4]), ints(1)] },
    { inputs: [fed([3, 4]), ints(0)], attributes: { exclusive: 1, reverse: 1 } },
  ],
  DepthToSpace: [
    { inputs: [fed([2, 8, 2, 3])], attributes: { blocksize: 2 } },
    { inputs: [fed([2, 8, 2, 3])], attributes: { blocksize: 2, mode: "CRD" } },
  ],
  Div: [{ inputs: [fed([2, 3]), fed([3], 1, 2)] }],
  Dropout: [one([4])],
  Einsum: [
    { ...pair([2, 3, 4], [4, 5]), attributes: { equation: "bij,jk->bik" } },
    { ...pair([2, 3, 4, 5], [2, 6, 4, 5]), attributes: { equation: "bqhd,bkhd->bhqk" } },
    { ...pair([3, 4]), attributes: { equation: "ij->ji" } },
    { ...pair([3], [4]), attributes: { equation: "i,j->ij" } },
    { ...pair([3, 4], [3, 4]), attributes: { equation: "ij, ij" } },
    { ...pair([2, 3], [3, 4], [4, 5]), attributes: { equation: "ab,bc,cd->da" } },
  ],
  Elu: [one([2, 5], { alpha: float(0.8) })],
  Equal: [step({ inputs: whole }), step({ inputs: bools })],
  Erf: [one([5])],
  Exp: [one([5])],
  Expand: [{ inputs: [fed([3, 1]), ints(2, 3, 4)] }],
  EyeLike: [step({ inputs: [fed([3, 4])], attributes: { k: 1 } })],
  Flatten: [one([2, 3, 4], { axis: 2 })],
  Floor: [step({ inputs: [nasty] })],
  GRU: [layers(3, "forward", {}, 2), layers(3, "bidirectional", { linear_before_reset: 1 }, 2)],
  Gather: [
    { inputs: [fed([4, 3]), ints(2, 0, -1)], attributes: { axis: 0 } },
    { inputs: [fed([2, 4, 3]), ints(3, 1)], attributes: { axis: 1 } },
  ],
  GatherElements: [{ inputs: [fed([3, 3]), held("int64", [2, 3], [1, 2, 0, 2, 0, 0])], attributes: { axis: 0 } }],
  GatherND: [{ inputs: [fed([3, 4, 2]), held("int64", [2, 2], [0, 1, 2, -1])] }],
  Gelu: [
    { ...one([7]), opset: 20 },
    { ...one([7], { approximate: "tanh" }), opset: 20 },
  ],
  Gemm: [{ ...pair([3, 2], [4, 3], [4]), attributes: { transA: 1, transB: 1, alpha: float(0.5), beta: float(2) } }],
  GlobalAveragePool: [{ inputs: [image()] }],
  GlobalLpPool: [{ inputs: [image()] }],
  GlobalMaxPool: [{ inputs: [image()] }],
  Greater: [step(pair([2, 3], [3]))],
  GreaterOrEqual: [step({ inputs: whole })],
  GroupNormalization: [{ inputs: [fed([2, 4, 3, 2]), fed([4]), fed([4])], attributes: { num_groups: 2 }, opset: 21 }],
  HardSigmoid: [one([9], { alpha: float(0.3), beta: float(0.4) })],
  HardSwish: [{ inputs: [fed([9], -5, 5)] }],
  Hardmax: [step(one([2, 4, 3], { axis: 1 }))],
  Identity: [one([3])],
  InstanceNormalization: [{ inputs: [image(), fed([3]), fed([3])], attributes: { epsilon: float(0.01) } }],
  IsInf: [
    step({
      inputs: [values("float32", [4], [1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0])],
      attributes: { detect_negative: 0 },
    }),
  ],
  IsNaN: [step({ inputs: [values("float32", [3], [1, Number.NaN, 0])] })],
  LRN: [{ inputs: [image()], attributes: { size: 3, alpha: float(0.3), bias: float(2) } }],
  LSTM: [layers(4, "forward"), layers(4, "reverse"), layers(4, "bidirectional")],
  LayerNormalization: [{ ...pair([2, 3, 4], [4], [4]), attributes: { axis: -1, epsilon: float(0.001) } }],
  LeakyRelu: [one([7], { alpha: float(0.2) })],
  Less: [step({ inputs: whole })],
  LessOrEqual: [step({ inputs: whole })],
  Log: [{ inputs: [fed([5], 0.5, 3)] }],
  LogSoftmax: [one([2, 4], { axis: -1 })],
  LpNormalization: [one([3, 4], { axis: 1, p: 2 }), one([3, 4], { axis: 0, p: 1 })],
  LpPool: [{ inputs: [image()], attributes: { kernel_shape: [2, 2] } }],
  MatMul: [pair([2, 3, 4], [4, 5])],
  Max: [pair([2, 3], [3], [2, 1])],
  MaxPool: [
    { inputs: [image()], attributes: pool },
    { inputs: [image()], attributes: { kernel_shape: [2, 2], strides: [2, 2], ceil_mode: 1 } },
    { inputs: [fed([2, 3, 7])], attributes: lists },
  ],
  Mean: [pair([2, 3], [3], [2, 1])],
  MeanVarianceNormalization: [{ inputs: [image()] }],
  Min: [pair([2, 3], [3])],
  Mish: [one([7])],
  Mod: [
    step({ inputs: whole }),
    step({ inputs: whole, attributes: { fmod: 1 } }),
    { inputs: [fed([6], -9, 9), held("float32", [1], [2.5])], attributes: { fmod: 1 } },
  ],
  Mul: [pair([2, 3], [3])],
  Neg: [one([3])],
  Not: [step({ inputs: [bools[0] as Given] })],
  OneHot: [
    step({
      inputs: [values("int64", [3], [0, 2, -1]), ints(4), held("float32", [2], [-1, 5])],
      attributes: { axis: 0 },
    }),
  ],
  Or: [step({ inputs: bools })],
  PRelu: [pair([2, 3, 4], [3, 1])],
  Pad: [
    { inputs: [fed([2, 3]), ints(1, 0, 0, 2), held("float32", [], [7])] },
    { inputs: [fed([2, 3]), ints(1, 2, 0, 1)], attributes: { mode: "reflect" } },
    { inputs: [fed([2, 3]), ints(2, 1, 0, 3)], attributes: { mode: "edge" } },
    { inputs: [fed([2, 4]), ints(0, -1, 1, 2)] },
  ],
  Pow: [2, -1, 0.5, 1.5, 3.7]
    .map((e) => ({ inputs: [fed([5], 0.5, 2), held("float32", [], [e])] }))
    .concat([{ inputs: [held("float32", [], [10]), fed([5])] }]),
  RMSNormalization: [{ ...pair([2, 3, 4], [4]), opset: 23, attributes: { epsilon: float(0.01) } }],
  RNN: [layers(1, "forward", {}, 2), layers(1, "reverse", { activations: ["Relu"] }, 2)],
  Range: [step({ inputs: [held("float32", [], [1]), held("float32", [], [8]), held("float32", [], [2])] })],
  Reciprocal: [{ inputs: [fed([4], 1, 2)] }],
  ReduceL1: [{ inputs: [fed([2, 3, 4]), ints(1)] }],
  ReduceL2: [{ inputs: [fed([2, 3, 4]), ints(-1, 0)], attributes: { keepdims: 0 } }],
  ReduceLogSum: [{ inputs: [fed([2, 3], 1, 2), ints(1)] }],
  ReduceLogSumExp: [{ inputs: [fed([2, 3, 4], -9, 9), ints(1)], attributes: { keepdims: 0 } }],
  ReduceMax: [{ inputs: [fed([2, 3, 4]), ints(1)] }],
  ReduceMean: [{ ...one([2, 3, 4], { axes: [1, 2] }), opset: 13 }],
  ReduceMin: [{ inputs: [fed([2, 3, 4]), ints(2)], attributes: { keepdims: 0 } }],
  ReduceProd: [
    { inputs: [fed([2, 5, 4], 0.5, 2), ints(1)] },
    { inputs: [fed([2, 3], 0.5, 2)], attributes: { keepdims: 0 } },
  ],
  ReduceSum: [{ inputs: [fed([2, 3]), undefined], attributes: { noop_with_empty_axes: 1 } }, { inputs: [fed([2, 3])] }],
  ReduceSumSquare: [{ inputs: [fed([2, 3, 4]), ints(1)] }],
  Relu: [one([5])],
  Reshape: [{ inputs: [fed([2, 3, 4]), ints(0, -1)] }],
  Resize: [
    sizes("nearest"),
    sizes("linear"),
    sizes("linear", { coordinate_transformation_mode: "align_corners" }),
    sizes("linear", { coordinate_transformation_mode: "pytorch_half_pixel" }, [2, 3, 1, 3]),
    sizes("nearest", { coordinate_transformation_mode: "asymmetric", nearest_mode: "floor" }, [2, 3, 3, 13]),
    sizes("cubic"),
    { inputs: [image(), undefined, held("float32", [4], [1, 1, 2, 1.5])], attributes: { mode: "linear" } },
  ],
  Round: [step({ inputs: [nasty] })],
  ScatterElements: [
    step({
      inputs: [fed([3, 3]), held("int64", [1, 3], [1, 0, 2]), fed([1, 3])],
      attributes: { axis: 0, reduction: "add" },
    }),
  ],
  Selu: [one([7])],
  Shape: [step(one([2, 3, 4], { start: 1 }))],
  Shrink: [one([9], { lambd: float(0.5), bias: float(0.2) })],
  Sigmoid: [one([5])],
  Sign: [step({ inputs: [nasty] }), step({ inputs: [whole[0] as Given] })],
  Sin: [{ inputs: [fed([40], -20, 20)] }],
  Sinh: [one([5])],
  Size: [step(one([2, 3]))],
  Slice: [{ inputs: [fed([4, 5]), ints(1, -1), ints(4, -5), ints(0, 1), ints(1, -2)] }],
  Softmax: [one([2, 4], { axis: 0 }), { ...one([2, 3, 4], { axis: 1 }), opset: 11 }],
  Softplus: [{ inputs: [fed([5], -40, 40)] }],
  Softsign: [one([5])],
  SpaceToDepth: [{ inputs: [fed([2, 3, 4, 6])], attributes: { blocksize: 2 } }],
  Split: [
    { inputs: [fed([2, 5]), ints(2, 3)], attributes: { axis: 1 }, outputs: 2 },
    { ...one([2, 6], { axis: 1 }), opset: 13, outputs: 3 },
  ],
  Sqrt: [{ inputs: [fed([4], 1, 2)] }],
  Squeeze: [{ inputs: [fed([2, 1, 3]), ints(1)] }],
  Sub: [pair([2, 3], [3])],
  Sum: [pair([2, 3], [3], [1])],
  Tan: [one([5])],
  Tanh: [one([5])],
  ThresholdedRelu: [one([9], { alpha: float(0.5) })],
  Tile: [{ inputs: [fed([2, 3]), ints(2, 3)] }],
  TopK: [
    { inputs: [fed([3, 6]), ints(3)], outputs: 2 },
    { inputs: [fed([4, 3]), ints(2)], attributes: { axis: 0, largest: 0 }, outputs: 2 },
  ],
  Transpose: [one([2, 3, 4], { perm: [2, 0, 1] }), one([2, 3])],
  Trilu: [{ inputs: [fed([2, 3, 4]), held("int64", [], [1])], attributes: { upper: 0 } }],
  Unsqueeze: [{ inputs: [fed([2, 3]), ints(0, -1)] }],
  Upsample: [{ inputs: [image(), held("float32", [4], [1, 1, 2, 3])], attributes: { mode: "nearest" }, opset: 9 }],
  Where: [{ inputs: [bools[1] as Given, fed([4]), fed([1])] }],
  Xor: [step({ inputs: bools })],
  "com.microsoft.BiasGelu": [pair([2, 3], [3])],
  "com.microsoft.FastGelu": [pair([2, 3], [3])],
  "com.microsoft.FusedMatMul": [{ ...pair([2, 4, 3], [4, 5]), attributes: { transA: 1, alpha: float(0.5) } }],
  "com.microsoft.Gelu": [one([5])],
  "com.microsoft.QuickGelu": [one([5], { alpha: float(1.5) })],
  "com.microsoft.SkipLayerNormalization": [
    { ...pair([2, 3, 4], [2, 3, 4], [4], [4]), attributes: { epsilon: float(0.001) } },
  ],
  "ai.onnx.ml.ArrayFeatureExtractor": [{ inputs: [fed([2, 4]), ints(2, 0)] }],
  "ai.onnx.ml.Normalizer": ["L1", "L2", "MAX"].map((norm) => ({ inputs: [fed([2, 3], 0.5, 2)], attributes: { norm } })),
  "ai.onnx.ml.Scaler": [{ inputs: [fed([2, 3])], attributes: { offset: floats(1, 2, 3), scale: floats(2, 0.5, 1) } }],
};

/** ONNX Runtime on this machine has no kernel for them; they are aliases or compared elsewhere. */
const notCompared = ["Constant", "ConstantOfShape", "SimplifiedLayerNormalization", "Swish", "ai.onnx.ml.ZipMap"];

test("every operator has a case", () => {
  assert.deepEqual(
    Object.keys(translations).filter((name) => !cases[name] && !notCompared.includes(name)),
    [],
  );
  assert.ok(Object.keys(translations).length >= 120, `${Object.keys(translations).length} operators`);
});

for (const [name, list] of Object.entries(cases))
  for (const [i, given] of list.entries())
    test(`ONNX ${name} is what ONNX Runtime computes, and its slope is right (case ${i + 1})`, () =>
      check(name, given));

async function check(name: string, { smooth = true, outputs = 1, ...given }: Case): Promise<void> {
  const at = name.lastIndexOf(".");
  const [domain, op] = at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 1)];
  const file = nodeFile({ op, domain, outputs, ...given });
  const feeds: Record<string, Tensor> = {};
  for (const [i, input] of given.inputs.entries()) if (input && !input.constant) feeds[`x${i}`] = input.tensor;
  const expected = await runFile(file, feeds);
  const model = decodeOnnx(file);
  const ours: Tensors = Object.fromEntries(
    model.inputs.map(({ name: input, dtype }) => {
      const tensor = feeds[input] as Tensor;
      return [
        input,
        tensor.dtype === dtype
          ? tensor
          : tensorOf(dtype, tensor.shape, Array.from(tensor.data as Float32Array, Number)),
      ];
    }),
  );
  for (const engine of [openReferenceEngine(), openPortableEngine()]) {
    const program = await engine.load(model);
    const found = await program.run(ours);
    for (const { name: output } of model.outputs)
      assertClose(found[output] as Tensor, expected[output] as Tensor, 1e-5, `${op} ${output}`);
    await program.release();
  }
  if (!smooth) return;
  const differentiable = model.inputs.filter(({ dtype }) => dtype === "float32").map((input) => input.name);
  const floatOutputs = model.outputs.filter(({ dtype }) => dtype === "float32").length;
  await checkDerivative(model, ours, differentiable, floatOutputs);
}

async function runFile(file: Uint8Array, feeds: Tensors): Promise<Tensors> {
  const { InferenceSession, Tensor: OrtTensor } = native;
  const session = await InferenceSession.create(file, { graphOptimizationLevel: "disabled", logSeverityLevel: 3 });
  const inputs = Object.fromEntries(
    Object.entries(feeds).map(([name, { dtype, shape, data }]) => [
      name,
      new OrtTensor(dtype as "float32", data as Float32Array, [...shape]),
    ]),
  );
  const results = await session.run(inputs);
  await session.release();
  return Object.fromEntries(
    Object.entries(results).map(([name, { type, dims, data }]) => [
      name,
      { dtype: type as DType, shape: dims, data: data as Float32Array },
    ]),
  );
}

test("a small file cannot ask for a constant that fills memory", () => {
  const refusals: readonly (readonly [string, Case])[] = [
    ["Pad", { inputs: [fed([2, 3]), ints(0, 2 ** 40, 0, 0)], attributes: { mode: "edge" } }],
    ["Pad", { inputs: [fed([2, 3]), ints(0, 2 ** 23, 0, 0)], attributes: { mode: "wrap" } }],
    ["Range", { inputs: [held("int64", [], [0]), held("int64", [], [2 ** 40]), held("int64", [], [1])] }],
    ["ConstantOfShape", { inputs: [ints(2 ** 20, 2 ** 20)] }],
    ["OneHot", { inputs: [values("int64", [1], [0]), ints(2 ** 40), held("float32", [2], [0, 1])] }],
    ["Resize", sizes("nearest", {}, [2, 3, 2 ** 33, 9])],
  ];
  for (const [op, given] of refusals)
    assert.throws(
      () => decodeOnnx(nodeFile({ op, outputs: 1, ...given })),
      (thrown: Error) => "code" in thrown && /at most|too much/.test(thrown.message),
      op,
    );
});
