// Attention(q [.., heads, seq, width], k, v [.., kvHeads, keys, width], [bias [heads, keys]])
// {causal = 1, scale = 1 / sqrt(width), cap, window}: the core of attention for stacks of heads; also
// [batch, seq, width] for one head. Fewer key heads than query heads are shared by groups of neighbours
// (grouped-query attention). `cap` bends scores to cap tanh(score / cap); `bias` is added behind it and has no
// gradient; `window` hides keys that lie `window` positions back or more. The backward computes the weights again
// from q and k, and uses sum(dP P) = sum(dO O) along a row.

import { exp, tanh } from "../../../core/numbers/math.ts";
import { elementCount, float32, type Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "../check.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";
import { swapLast } from "./matmul.ts";

/** Far below any score, yet finite: e^(maskValue - max) is exactly 0 and no NaN can arise. */
const maskValue = -1e9;

interface Sizes {
  readonly heads: number;
  readonly kvHeads: number;
  readonly sequence: number;
  readonly keys: number;
  readonly width: number;
  readonly scale: number;
  readonly causal: boolean;
  /** 0: scores are taken as they are. */
  readonly cap: number;
  /** Keys that a query sees, itself included. */
  readonly window: number;
}

function sizesOf(q: Shape, k: Shape, attributes: Attributes): Sizes {
  const [sequence, width] = q.slice(-2) as [number, number];
  return {
    heads: q.at(-3) as number,
    kvHeads: k.at(-3) as number,
    sequence,
    keys: k.at(-2) as number,
    width,
    scale: numberOf(attributes, "scale", 1 / Math.sqrt(width)),
    causal: numberOf(attributes, "causal", 1) === 1,
    cap: numberOf(attributes, "cap", 0),
    window: numberOf(attributes, "window", Number.POSITIVE_INFINITY),
  };
}

export const attention: Operator = {
  type: "Attention",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("Attention", inputs, 3, 4);
    checkFloat("Attention", inputs);
    const [q, k, v, bias] = inputs as [Value, Value, Value, Value | undefined];
    if (
      q.shape.length < 3 ||
      k.shape.length !== q.shape.length ||
      String(k.shape.slice(0, -1)) !== String(v.shape.slice(0, -1))
    )
      refuse(
        "Attention",
        inputs,
        "q, k and v need equally many axes, at least [heads, sequence, width], and k the rows of v",
      );
    const { heads, kvHeads, sequence, keys, causal, window, cap } = sizesOf(q.shape, k.shape, attributes);
    if (bias && String(bias.shape) !== `${heads},${keys}`)
      refuse("Attention", inputs, `the bias must have the shape [${heads},${keys}]`);
    if (cap < 0 || window < 1) refuse("Attention", inputs, `cap ${cap} and window ${window} must be positive`);
    if (window !== Number.POSITIVE_INFINITY && !causal) refuse("Attention", inputs, "a window needs causal = 1");
    if (heads % kvHeads !== 0)
      refuse("Attention", inputs, `${heads} query heads cannot share ${kvHeads} key heads evenly`);
    if (q.shape.at(-1) !== k.shape.at(-1) || String(q.shape.slice(0, -3)) !== String(k.shape.slice(0, -3)))
      refuse("Attention", inputs, "q and k need one width and one batch");
    if (causal && sequence > keys)
      refuse("Attention", inputs, "a causal query needs at least as many keys as positions");
    return [{ dtype: q.dtype, shape: [...q.shape.slice(0, -1), v.shape.at(-1) as number] }];
  },
  plan(inputs, outputs, attributes) {
    const [q, k] = inputs as [ValueInfo, ValueInfo];
    const sizes = sizesOf(q.shape, k.shape, attributes);
    const { heads, kvHeads, sequence, keys, width, scale, causal, cap, window } = sizes;
    const valueWidth = (outputs[0] as ValueInfo).shape.at(-1) as number;
    const rows = elementCount(q.shape) / width;
    const weights = new Float64Array(keys);
    return (data, results) => {
      const [query, key, value, bias] = data as [Float32Array, Float32Array, Float32Array, Float32Array | undefined];
      const y = results[0] as Float32Array;
      for (let row = 0; row < rows; row++) {
        const position = row % sequence;
        const head = Math.floor(row / sequence);
        const stack = Math.floor(head / heads) * kvHeads + Math.floor((head % heads) / (heads / kvHeads));
        const visible = causal ? position + 1 + keys - sequence : keys;
        const first = Math.max(0, visible - window);
        let max = Number.NEGATIVE_INFINITY;
        for (let j = first; j < visible; j++) {
          let score = 0;
          for (let i = 0; i < width; i++)
            score += (query[row * width + i] as number) * (key[(stack * keys + j) * width + i] as number);
          const scaled = score * scale;
          const bent = cap > 0 ? cap * tanh(scaled / cap) : scaled;
          const shifted = bias ? bent + (bias[(head % heads) * keys + j] as number) : bent;
          weights[j] = shifted;
          max = Math.max(max, shifted);
        }
        let total = 0;
        for (let j = first; j < visible; j++) {
          weights[j] = exp((weights[j] as number) - max);
          total += weights[j] as number;
        }
        for (let i = 0; i < valueWidth; i++) {
          let sum = 0;
          for (let j = first; j < visible; j++)
            sum += (weights[j] as number) * (value[(stack * keys + j) * valueWidth + i] as number);
          y[row * valueWidth + i] = sum / total;
        }
      }
    };
  },
  lower(builder, inputs, attributes) {
    const [q, k, v, bias] = inputs as [Value, Value, Value, Value | undefined];
    const sizes = sizesOf(q.shape, k.shape, attributes);
    const { weights } = attentionWeights(builder, q, k, bias, sizes);
    const mixed = builder.op("MatMul", [weights, v]);
    return [builder.op("Reshape", [mixed], { shape: [...q.shape.slice(0, -1), v.shape.at(-1) as number] })];
  },
  vjp({ builder, inputs, outputs, gradients, attributes, wanted }) {
    const [q, k, v, bias] = inputs as [Value, Value, Value, Value | undefined];
    const sizes = sizesOf(q.shape, k.shape, attributes);
    const alpha = sizes.scale;
    const { weights, bend } = attentionWeights(builder, q, k, bias, sizes);
    const dout = grouped(builder, gradients[0] as Value, sizes);
    const out = grouped(builder, outputs[0] as Value, sizes);
    const last = [dout.shape.length - 1];
    const along = builder.op("ReduceSum", [builder.op("Mul", [dout, out])], { axes: last, keepdims: 1 });
    const dweights = builder.op("FusedMatMul", [dout, v], { transB: 1 });
    const dbent = builder.op("Mul", [weights, builder.op("Sub", [dweights, along])]);
    const dscores = bend === undefined ? dbent : builder.op("Mul", [dbent, slopeOf(builder, bend)]);
    const dq = () => builder.op("Reshape", [builder.op("FusedMatMul", [dscores, k], { alpha })], { shape: q.shape });
    // The narrow operands and results are transposed, not the square weights.
    const dk = () =>
      swapLast(builder, builder.op("FusedMatMul", [swapLast(builder, grouped(builder, q, sizes)), dscores], { alpha }));
    const dv = () => swapLast(builder, builder.op("MatMul", [swapLast(builder, dout), weights]));
    return [wanted[0] ? dq() : undefined, wanted[1] ? dk() : undefined, wanted[2] ? dv() : undefined];
  },
  flops(inputs, outputs) {
    const keys = (inputs[1] as ValueInfo).shape.at(-2) as number;
    return 2 * keys * (elementCount((inputs[0] as ValueInfo).shape) + elementCount((outputs[0] as ValueInfo).shape));
  },
};

/** Query heads of one group stacked along the rows: [.., kvHeads, groups * seq, width]. */
function grouped(builder: Builder, value: Value, { heads, kvHeads, sequence }: Sizes): Value {
  const rows = (heads / kvHeads) * sequence;
  return builder.op("Reshape", [value], {
    shape: [...value.shape.slice(0, -3), kvHeads, rows, value.shape.at(-1) as number],
  });
}

/** softmax(bent scores + bias + mask), grouped: [.., kvHeads, groups * seq, keys]; `bend` is tanh(scores / cap). */
function attentionWeights(
  builder: Builder,
  q: Value,
  k: Value,
  bias: Value | undefined,
  sizes: Sizes,
): { weights: Value; bend: Value | undefined } {
  const { cap, causal } = sizes;
  const scores = builder.op("FusedMatMul", [grouped(builder, q, sizes), k], { transB: 1, alpha: sizes.scale });
  const bend = cap > 0 ? builder.op("Tanh", [builder.op("Mul", [scores, builder.scalar(1 / cap)])]) : undefined;
  const bent = bend === undefined ? scores : builder.op("Mul", [bend, builder.scalar(cap)]);
  const shifted = bias === undefined ? bent : builder.op("Add", [bent, groupedBias(builder, bias, sizes)]);
  const masked = causal ? builder.op("Add", [shifted, builder.constant(causalMask(sizes))]) : shifted;
  return { weights: builder.op("Softmax", [masked], { axis: -1 }), bend };
}

/** The derivative of cap tanh(x / cap), from its tanh. */
function slopeOf(builder: Builder, bend: Value): Value {
  return builder.op("Sub", [builder.scalar(1), builder.op("Mul", [bend, bend])]);
}

/** [heads, keys] to what broadcasts over grouped scores: [kvHeads, groups * seq, keys]. */
function groupedBias(builder: Builder, bias: Value, { heads, kvHeads, sequence, keys }: Sizes): Value {
  const groups = heads / kvHeads;
  if (groups === 1) return builder.op("Reshape", [bias], { shape: [kvHeads, 1, keys] });
  const apart = builder.op("Reshape", [bias], { shape: [kvHeads, groups, 1, keys] });
  const spread = builder.op("Expand", [apart], { shape: [kvHeads, groups, sequence, keys] });
  return builder.op("Reshape", [spread], { shape: [kvHeads, groups * sequence, keys] });
}

function causalMask({ heads, kvHeads, sequence, keys, window }: Sizes) {
  const rows = (heads / kvHeads) * sequence;
  const mask = new Float32Array(rows * keys);
  for (let row = 0; row < rows; row++) {
    const visible = (row % sequence) + 1 + keys - sequence;
    mask.fill(maskValue, row * keys + visible, (row + 1) * keys);
    mask.fill(maskValue, row * keys, row * keys + Math.max(0, visible - window));
  }
  return float32([rows, keys], mask);
}
