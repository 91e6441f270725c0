// Attention(q [.., heads, seq, width], k, v [.., kvHeads, keys, width]) {causal = 1, scale = 1 / sqrt(width)}: the
// core of attention for stacks of heads; also [batch, seq, width] for one head. Fewer key heads than query heads
// are shared by groups of neighbours (grouped-query attention). The backward computes the weights again from
// q and k, and uses sum(dP P) = sum(dO O) along a row.

import { exp } from "../../core/math.ts";
import { elementCount, float32, type Shape } from "../../core/tensor.ts";
import type { ValueInfo } from "../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "./check.ts";
import { swapLast } from "./matmul.ts";
import type { Attributes, Builder, Operator, Value } from "./operator.ts";

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
  };
}

export const attention: Operator = {
  type: "Attention",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("Attention", inputs, 3);
    checkFloat("Attention", inputs);
    const [q, k, v] = inputs as [Value, Value, Value];
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
    const { heads, kvHeads, sequence, keys, causal } = sizesOf(q.shape, k.shape, attributes);
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
    const { heads, kvHeads, sequence, keys, width, scale, causal } = sizes;
    const valueWidth = (outputs[0] as ValueInfo).shape.at(-1) as number;
    const rows = elementCount(q.shape) / width;
    const weights = new Float64Array(keys);
    return (data, results) => {
      const [query, key, value] = data as [Float32Array, Float32Array, Float32Array];
      const y = results[0] as Float32Array;
      for (let row = 0; row < rows; row++) {
        const position = row % sequence;
        const head = Math.floor(row / sequence);
        const stack = Math.floor(head / heads) * kvHeads + Math.floor((head % heads) / (heads / kvHeads));
        const visible = causal ? position + 1 + keys - sequence : keys;
        let max = Number.NEGATIVE_INFINITY;
        for (let j = 0; j < visible; j++) {
          let score = 0;
          for (let i = 0; i < width; i++)
            score += (query[row * width + i] as number) * (key[(stack * keys + j) * width + i] as number);
          weights[j] = score * scale;
          max = Math.max(max, score * scale);
        }
        let total = 0;
        for (let j = 0; j < visible; j++) {
          weights[j] = exp((weights[j] as number) - max);
          total += weights[j] as number;
        }
        for (let i = 0; i < valueWidth; i++) {
          let sum = 0;
          for (let j = 0; j < visible; j++)
            sum += (weights[j] as number) * (value[(stack * keys + j) * valueWidth + i] as number);
          y[row * valueWidth + i] = sum / total;
        }
      }
    };
  },
  lower(builder, inputs, attributes) {
    const [q, k, v] = inputs as [Value, Value, Value];
    const sizes = sizesOf(q.shape, k.shape, attributes);
    const weights = attentionWeights(builder, q, k, sizes);
    const mixed = builder.op("MatMul", [weights, v]);
    return [builder.op("Reshape", [mixed], { shape: [...q.shape.slice(0, -1), v.shape.at(-1) as number] })];
  },
  vjp({ builder, inputs, outputs, gradients, attributes, wanted }) {
    const [q, k, v] = inputs as [Value, Value, Value];
    const sizes = sizesOf(q.shape, k.shape, attributes);
    const alpha = sizes.scale;
    const weights = attentionWeights(builder, q, k, sizes);
    const dout = grouped(builder, gradients[0] as Value, sizes);
    const out = grouped(builder, outputs[0] as Value, sizes);
    const last = [dout.shape.length - 1];
    const along = builder.op("ReduceSum", [builder.op("Mul", [dout, out])], { axes: last, keepdims: 1 });
    const dweights = builder.op("FusedMatMul", [dout, v], { transB: 1 });
    const dscores = builder.op("Mul", [weights, builder.op("Sub", [dweights, along])]);
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

/** softmax(scale q k^T + mask), grouped: [.., kvHeads, groups * seq, keys]. */
function attentionWeights(builder: Builder, q: Value, k: Value, sizes: Sizes): Value {
  const scores = builder.op("FusedMatMul", [grouped(builder, q, sizes), k], { transB: 1, alpha: sizes.scale });
  if (!sizes.causal) return builder.op("Softmax", [scores], { axis: -1 });
  const masked = builder.op("Add", [scores, builder.constant(causalMask(sizes))]);
  return builder.op("Softmax", [masked], { axis: -1 });
}

function causalMask({ heads, kvHeads, sequence, keys }: Sizes) {
  const rows = (heads / kvHeads) * sequence;
  const mask = new Float32Array(rows * keys);
  for (let row = 0; row < rows; row++)
    mask.fill(maskValue, row * keys + (row % sequence) + 1 + keys - sequence, (row + 1) * keys);
  return float32([rows, keys], mask);
}
