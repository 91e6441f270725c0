// Every operator a graph may contain: an explicit list, in alphabetical order within its kind.
//
// ONNX operators (opset 18) with our attributes; what ONNX takes as constant inputs (shapes, axes, ..) is an
// attribute here, and onnx.ts translates. [a] means optional. All shapes are concrete.
//   element by element, with broadcasting   Add Sub Mul Div (a, b) · Greater Less Equal (a, b) -> bool · Where(condition, a, b)
//   element by element                      Neg Abs Sqrt Reciprocal Exp Log Erf Tanh Sigmoid Relu (x)
//                                           LeakyRelu(x) {alpha} · HardSigmoid(x) {alpha, beta} · Clip(x) {min, max} · Cast(x) {to}
//   matrices                                MatMul(a, b) · Gemm(a, b, [c]) {transA, transB, alpha, beta} · FusedMatMul(a, b) {transA, transB, alpha}
//   along an axis                           Softmax LogSoftmax (x) {axis} · ReduceSum ReduceMean ReduceMax (x) {axes, keepdims}
//   normalisation                           LayerNormalization(x, scale, [bias]) {axis, epsilon} · BatchNormalization(x, scale, bias, mean, variance) {epsilon}
//   shapes                                  Reshape(x) {shape} · Transpose(x) {perm} · Expand(x) {shape} · Identity(x)
//                                           Concat(..) {axis} · Split(x) {axis, split} -> several · Slice(x) {starts, ends, axes, steps} · Pad(x) {pads, value}
//   picking                                 Gather(data, indices) {axis} · GatherElements(data, indices) {axis} · ScatterElements(data, indices, updates) {axis, reduction}
//   images [batch, channels, h, w]          Conv(x, weight [out, in/group, kh, kw], [bias]) {strides, pads, dilations, group} · ConvTranspose
//                                           MaxPool AveragePool (x) {kernel_shape, strides, pads, dilations}
//   several                                 Sum(..)
//   fused by ONNX Runtime                   SimplifiedLayerNormalization(x, scale) {axis, epsilon} · QuickGelu(x) {alpha} ·
//                                           FusedGelu(x) · RotaryEmbedding(x, cos, sin) {interleaved, positions}: composites are lowered to them
//
// Composites of ours, lowered to ONNX operators before execution (lower.ts):
//   Linear(x [.., in], weight, [bias [out]]) {transposed}     weight [in, out], or [out, in] when transposed = 1
//   Embedding(table [rows, width], ids int32 [..])            gradient is sparse: see derive.ts
//   Attention(q [.., heads, seq, width], k, v) {causal = 1, scale = 1/sqrt(width)}   fewer heads in k and v: grouped queries; 3 axes: one head
//   Rope(x [.., seq, width], cos [seq, width/2], sin [seq, width/2]) {interleaved = 0}
//   Gelu Silu (x) · SwiGlu(x [.., 2n]) -> [.., n]: first half times silu(second half)
//   RmsNorm(x, scale [width]) {epsilon} · TopMask(x) {k}: 0 at the k largest of the last axis, -1e9 elsewhere
//   SoftmaxCrossEntropy(logits [.., classes], labels int32 [..]) -> scalar mean over rows with label >= 0
//   LinearCrossEntropy(x [.., width], weight [classes, width], labels int32 [..]) {chunkRows} -> scalar
//   ChanceMask(x, mask)                                       dropout: the mask is a graph input
//   Flatten(x) {axis} · Squeeze(x) {axes} · Unsqueeze(x) {axes} · GlobalAveragePool(x) · Dropout(x) · Pow(x) {exponent}

import { fail } from "../../core/errors.ts";
import { chanceMask } from "./activations/chance-mask.ts";
import { dropout } from "./activations/dropout.ts";
import { fusedGelu } from "./activations/fused-gelu.ts";
import { gelu } from "./activations/gelu.ts";
import { hardSigmoid } from "./activations/hard-sigmoid.ts";
import { leakyRelu } from "./activations/leaky-relu.ts";
import { quickGelu } from "./activations/quick-gelu.ts";
import { relu } from "./activations/relu.ts";
import { sigmoid } from "./activations/sigmoid.ts";
import { silu } from "./activations/silu.ts";
import { swiGlu } from "./activations/swiglu.ts";
import { tanh } from "./activations/tanh.ts";
import { batchNormalization } from "./axes/batch-normalization.ts";
import { layerNormalization } from "./axes/layer-normalization.ts";
import { linearCrossEntropy } from "./axes/linear-cross-entropy.ts";
import { logSoftmax } from "./axes/log-softmax.ts";
import { reduceMax } from "./axes/reduce-max.ts";
import { reduceMean } from "./axes/reduce-mean.ts";
import { reduceSum } from "./axes/reduce-sum.ts";
import { rmsNorm } from "./axes/rms-norm.ts";
import { simplifiedLayerNormalization } from "./axes/simplified-layer-normalization.ts";
import { softmax } from "./axes/softmax.ts";
import { softmaxCrossEntropy } from "./axes/softmax-cross-entropy.ts";
import { topMask } from "./axes/top-mask.ts";
import { abs } from "./elements/abs.ts";
import { add } from "./elements/add.ts";
import { cast } from "./elements/cast.ts";
import { clip } from "./elements/clip.ts";
import { div } from "./elements/div.ts";
import { equal } from "./elements/equal.ts";
import { erf } from "./elements/erf.ts";
import { exp } from "./elements/exp.ts";
import { greater } from "./elements/greater.ts";
import { identity } from "./elements/identity.ts";
import { less } from "./elements/less.ts";
import { log } from "./elements/log.ts";
import { mul } from "./elements/mul.ts";
import { neg } from "./elements/neg.ts";
import { pow } from "./elements/pow.ts";
import { reciprocal } from "./elements/reciprocal.ts";
import { sqrt } from "./elements/sqrt.ts";
import { sub } from "./elements/sub.ts";
import { sum } from "./elements/sum.ts";
import { where } from "./elements/where.ts";
import { exponentOf } from "./exact/exponent-of.ts";
import { integerMatMul } from "./exact/integer-matmul.ts";
import { powerOfTwo } from "./exact/power-of-two.ts";
import { averagePool } from "./images/average-pool.ts";
import { conv } from "./images/conv.ts";
import { convTranspose } from "./images/conv-transpose.ts";
import { globalAveragePool } from "./images/global-average-pool.ts";
import { maxPool } from "./images/max-pool.ts";
import { attention } from "./matrices/attention.ts";
import { fusedMatMul } from "./matrices/fused-matmul.ts";
import { gemm } from "./matrices/gemm.ts";
import { linear } from "./matrices/linear.ts";
import { matmul } from "./matrices/matmul.ts";
import { matMulNBits } from "./matrices/matmul-n-bits.ts";
import { rope } from "./matrices/rope.ts";
import { rotaryEmbedding } from "./matrices/rotary-embedding.ts";
import type { Operator } from "./operator.ts";
import { embedding } from "./picking/embedding.ts";
import { gather } from "./picking/gather.ts";
import { gatherBlockQuantized } from "./picking/gather-block-quantized.ts";
import { gatherElements } from "./picking/gather-elements.ts";
import { scatterElements } from "./picking/scatter-elements.ts";
import { concat } from "./shapes/concat.ts";
import { expand } from "./shapes/expand.ts";
import { flatten } from "./shapes/flatten.ts";
import { pad } from "./shapes/pad.ts";
import { reshape } from "./shapes/reshape.ts";
import { slice } from "./shapes/slice.ts";
import { split } from "./shapes/split.ts";
import { squeeze } from "./shapes/squeeze.ts";
import { transpose } from "./shapes/transpose.ts";
import { unsqueeze } from "./shapes/unsqueeze.ts";

/** Executed as they are. */
export const onnxOperators: readonly Operator[] = [
  abs,
  add,
  averagePool,
  batchNormalization,
  cast,
  clip,
  concat,
  conv,
  convTranspose,
  div,
  equal,
  erf,
  exp,
  expand,
  fusedGelu,
  fusedMatMul,
  gather,
  gatherElements,
  gemm,
  greater,
  hardSigmoid,
  identity,
  layerNormalization,
  leakyRelu,
  less,
  log,
  logSoftmax,
  matmul,
  maxPool,
  mul,
  neg,
  pad,
  quickGelu,
  reciprocal,
  reduceMax,
  reduceMean,
  reduceSum,
  relu,
  reshape,
  rotaryEmbedding,
  matMulNBits,
  gatherBlockQuantized,
  scatterElements,
  sigmoid,
  simplifiedLayerNormalization,
  slice,
  softmax,
  split,
  sqrt,
  sub,
  sum,
  tanh,
  transpose,
  where,
];

/** Lowered to the others before execution. */
export const compositeOperators: readonly Operator[] = [
  attention,
  chanceMask,
  dropout,
  embedding,
  flatten,
  gelu,
  globalAveragePool,
  linear,
  linearCrossEntropy,
  pow,
  rmsNorm,
  rope,
  silu,
  softmaxCrossEntropy,
  squeeze,
  swiGlu,
  topMask,
  unsqueeze,
];

/** In graphs of exact numerics alone, which engines write for themselves (src/engine/exact). */
const exactOperators: readonly Operator[] = [exponentOf, integerMatMul, powerOfTwo];

const byType = new Map(
  [...onnxOperators, ...compositeOperators, ...exactOperators].map((operator) => [operator.type, operator]),
);

export function findOperator(type: string): Operator | undefined {
  return byType.get(type);
}

export function operatorOf(type: string): Operator {
  return (
    byType.get(type) ??
    fail("unimplemented", `operator "${type}" is not known; known ones are ${[...byType.keys()].sort().join(", ")}`)
  );
}
