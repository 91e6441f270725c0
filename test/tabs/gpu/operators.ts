// Operators that the examples' graphs do not reach, forward and, where they have one, backward.

import type { Shape } from "../../../src/core/tensor.ts";
import { GraphBuilder, type Value } from "../../../src/graph/builder.ts";
import { deriveTraining } from "../../../src/graph/derive.ts";
import type { GraphModel } from "../../../src/graph/model.ts";
import type { Attributes } from "../../../src/graph/operators/operator.ts";

type Case = readonly [op: string, inputs: readonly Shape[], attributes?: Attributes];

const trained: readonly Case[] = [
  ["AveragePool", [[2, 3, 7, 6]], { kernel_shape: [3, 2], strides: [2, 2], pads: [1, 0, 1, 1] }],
  ["MaxPool", [[2, 2, 7, 7]], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 0, 0] }],
  ["MaxPool", [[1, 2, 9, 8]], { kernel_shape: [2, 3], strides: [1, 2], dilations: [2, 1] }],
  ["Conv", [[2, 4, 7, 6], [6, 2, 3, 3], [6]], { group: 2, strides: [2, 1], pads: [1, 0, 1, 2], dilations: [1, 2] }],
  [
    "ConvTranspose",
    [
      [2, 4, 4, 5],
      [4, 3, 3, 2],
    ],
    { group: 2, strides: [2, 1], pads: [1, 0, 0, 1] },
  ],
  ["BatchNormalization", [[3, 4, 2, 2], [4], [4]], { epsilon: 1e-3 }],
  ["Softmax", [[3, 5, 4]], { axis: 1 }],
  ["LogSoftmax", [[2, 70]], { axis: -1 }],
  ["ReduceMax", [[4, 40, 3]], { axes: [1], keepdims: 0 }],
  ["ReduceMean", [[5, 4, 33]], { axes: [0, 2], keepdims: 1 }],
  ["ReduceSum", [[50, 20]], { axes: [0], keepdims: 0 }],
  [
    "LayerNormalization",
    [
      [3, 4, 5],
      [4, 5],
      [4, 5],
    ],
    { axis: 1 },
  ],
  ["RmsNorm", [[3, 40], [40]]],
  ["Pad", [[2, 3]], { pads: [1, 0, 2, 1], value: 0 }],
  ["Slice", [[6, 5]], { starts: [1], ends: [-1], axes: [0] }],
  [
    "Concat",
    [
      [2, 3],
      [2, 1],
      [2, 4],
    ],
    { axis: 1 },
  ],
  ["Expand", [[3, 1]], { shape: [2, 3, 4] }],
  ["Gemm", [[5, 6], [7, 5], [7]], { transA: 1, transB: 1, alpha: 0.5, beta: 2 }],
  [
    "FusedMatMul",
    [
      [2, 3, 6, 4],
      [2, 3, 6, 5],
    ],
    { transA: 1, alpha: 0.3 },
  ],
  [
    "MatMul",
    [
      [3, 1, 4, 600],
      [2, 600, 5],
    ],
  ],
  [
    "Attention",
    [
      [2, 4, 5, 6],
      [2, 2, 5, 6],
      [2, 2, 5, 6],
    ],
    { causal: 1 },
  ],
  [
    "Rope",
    [
      [2, 4, 6],
      [4, 3],
      [4, 3],
    ],
    { interleaved: 1 },
  ],
  ["SwiGlu", [[3, 8]]],
  ["Gelu", [[3, 9]]],
  ["Sum", Array.from({ length: 7 }, () => [2, 3])],
  ["Div", [[4, 5], [5]]],
  [
    "Where",
    [
      [4, 5],
      [4, 5],
    ],
  ],
  ...["Abs", "Tanh", "Sigmoid", "Erf", "Neg", "Exp", "Silu", "Relu"].map((op): Case => [op, [[7, 9]]]),
  ["LeakyRelu", [[30]], { alpha: 0.2 }],
  ["HardSigmoid", [[30]], { alpha: 0.3, beta: 0.4 }],
  ["Clip", [[30]], { min: -0.3, max: 0.4 }],
];

const forward: readonly Case[] = [
  ["Slice", [[6, 9]], { starts: [5, 1], ends: [-7, 8], axes: [0, 1], steps: [-2, 3] }],
  ["Transpose", [[2, 3, 4]], { perm: [2, 0, 1] }],
  ["Log", [[5, 5]]],
  ["TopMask", [[4, 6]], { k: 2 }],
];

function graphOf([op, shapes, attributes = {}]: Case, isTrained: boolean, number: number): GraphModel {
  const builder = new GraphBuilder(`${op} ${number}`);
  const inputs = shapes.map((shape, i) => builder.input(`x${i}`, "float32", shape));
  const y = applied(builder, op, inputs, attributes);
  if (!isTrained) {
    builder.output(y, "y");
    return builder.build();
  }
  // Each element of the result has a gradient of its own.
  const loss = builder.op("ReduceSum", [builder.op("Mul", [y, y])], {
    axes: y.shape.map((_, axis) => axis),
    keepdims: 0,
  });
  builder.output(loss, "loss");
  const gradientsOf = op === "Rope" ? ["x0"] : shapes.map((_, i) => `x${i}`);
  return deriveTraining(builder.build(), { loss: "loss", lossScale: 1, gradientsOf }).graph;
}

function applied(builder: GraphBuilder, op: string, inputs: readonly Value[], attributes: Attributes): Value {
  const [x] = inputs as [Value];
  if (op === "Log") return builder.op(op, [builder.op("Exp", [x])]);
  if (op === "Where") return builder.op(op, [builder.op("Greater", [x, inputs[1] as Value]), ...inputs]);
  if (op !== "BatchNormalization") return builder.op(op, inputs, attributes);
  const channels = [x.shape[1] as number];
  const constant = (value: number) =>
    builder.constant({ dtype: "float32", shape: channels, data: new Float32Array(channels[0] as number).fill(value) });
  return builder.op(op, [...inputs, constant(0.1), constant(0.9)], attributes);
}

export const operatorGraphs: readonly GraphModel[] = [
  ...trained.map((one, i) => graphOf(one, true, i)),
  ...forward.map((one, i) => graphOf(one, false, i)),
];
