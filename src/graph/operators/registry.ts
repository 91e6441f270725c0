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
//   fused by ONNX Runtime                   FusedGelu(x) · RotaryEmbedding(x, cos, sin) {interleaved, positions}: composites are lowered to them
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
import { abs } from "./abs.ts";
import { add } from "./add.ts";
import { attention } from "./attention.ts";
import { averagePool } from "./average-pool.ts";
import { batchNormalization } from "./batch-normalization.ts";
import { cast } from "./cast.ts";
import { chanceMask } from "./chance-mask.ts";
import { clip } from "./clip.ts";
import { concat } from "./concat.ts";
import { conv } from "./conv.ts";
import { convTranspose } from "./conv-transpose.ts";
import { div } from "./div.ts";
import { dropout } from "./dropout.ts";
import { embedding } from "./embedding.ts";
import { equal } from "./equal.ts";
import { erf } from "./erf.ts";
import { exp } from "./exp.ts";
import { expand } from "./expand.ts";
import { flatten } from "./flatten.ts";
import { fusedGelu } from "./fused-gelu.ts";
import { fusedMatMul } from "./fused-matmul.ts";
import { gather } from "./gather.ts";
import { gatherBlockQuantized } from "./gather-block-quantized.ts";
import { gatherElements } from "./gather-elements.ts";
import { gelu } from "./gelu.ts";
import { gemm } from "./gemm.ts";
import { globalAveragePool } from "./global-average-pool.ts";
import { greater } from "./greater.ts";
import { hardSigmoid } from "./hard-sigmoid.ts";
import { identity } from "./identity.ts";
import { layerNormalization } from "./layer-normalization.ts";
import { leakyRelu } from "./leaky-relu.ts";
import { less } from "./less.ts";
import { linear } from "./linear.ts";
import { linearCrossEntropy } from "./linear-cross-entropy.ts";
import { log } from "./log.ts";
import { logSoftmax } from "./log-softmax.ts";
import { matmul } from "./matmul.ts";
import { matMulNBits } from "./matmul-n-bits.ts";
import { maxPool } from "./max-pool.ts";
import { mul } from "./mul.ts";
import { neg } from "./neg.ts";
import type { Operator } from "./operator.ts";
import { pad } from "./pad.ts";
import { pow } from "./pow.ts";
import { reciprocal } from "./reciprocal.ts";
import { reduceMax } from "./reduce-max.ts";
import { reduceMean } from "./reduce-mean.ts";
import { reduceSum } from "./reduce-sum.ts";
import { relu } from "./relu.ts";
import { reshape } from "./reshape.ts";
import { rmsNorm } from "./rms-norm.ts";
import { rope } from "./rope.ts";
import { rotaryEmbedding } from "./rotary-embedding.ts";
import { scatterElements } from "./scatter-elements.ts";
import { sigmoid } from "./sigmoid.ts";
import { silu } from "./silu.ts";
import { slice } from "./slice.ts";
import { softmax } from "./softmax.ts";
import { softmaxCrossEntropy } from "./softmax-cross-entropy.ts";
import { split } from "./split.ts";
import { sqrt } from "./sqrt.ts";
import { squeeze } from "./squeeze.ts";
import { sub } from "./sub.ts";
import { sum } from "./sum.ts";
import { swiGlu } from "./swiglu.ts";
import { tanh } from "./tanh.ts";
import { topMask } from "./top-mask.ts";
import { transpose } from "./transpose.ts";
import { unsqueeze } from "./unsqueeze.ts";
import { where } from "./where.ts";

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

const byType = new Map([...onnxOperators, ...compositeOperators].map((operator) => [operator.type, operator]));

export function findOperator(type: string): Operator | undefined {
  return byType.get(type);
}

export function operatorOf(type: string): Operator {
  return (
    byType.get(type) ??
    fail("unimplemented", `operator "${type}" is not known; known ones are ${[...byType.keys()].sort().join(", ")}`)
  );
}
