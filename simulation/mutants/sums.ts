// A machine that keeps what it added up for all lanes as it was before it was rounded for the others. An executor sees no more of it than
// kernels: what was added up and looked at before it travels, and what is then copied to where gradients lie.

import type { Executor, KernelCall, KernelOperand } from "../../src/engine/engine.ts";

/** Of sums that wait for their way back, on a machine with several VNodes. */
const waitingMost = 64;
/** Against the largest of a row: what eight bits cannot tell apart. */
const roundingMost = 1 / 127;

export function keepsSumsUnrounded(inner: Executor): Executor {
  const added = new WeakSet<object>();
  const waiting: Float32Array[] = [];
  const seen = (call: KernelCall): KernelCall => {
    if (call.kind === "accumulate") added.add(contentOf(call.into) ?? {});
    if (call.kind === "finite") {
      const sum = contentOf(call.of);
      if (sum && added.delete(sum)) waiting.push(sum.slice());
      if (waiting.length > waitingMost) waiting.shift();
    }
    return call.kind === "copy" ? { ...call, of: unrounded(call.of) } : call;
  };
  const unrounded = (piece: KernelOperand): KernelOperand => {
    const rounded = contentOf(piece);
    if (rounded === undefined || !("shape" in piece)) return piece;
    for (const sum of waiting.toReversed())
      for (const start of [0, sum.length - rounded.length]) {
        const data = start < 0 ? undefined : sum.subarray(start, start + rounded.length);
        if (data && isRoundedOf(rounded, data)) return { ...piece, data: Float32Array.from(data) };
      }
    return piece;
  };
  const changes: Partial<Executor> = {
    kernel: (call, options) => inner.kernel(seen(call), options),
    kernels: (calls, options) => inner.kernels(calls.map(seen), options),
  };
  return new Proxy(inner, {
    get: (target, name) => {
      const value = Reflect.get(changes, name) ?? Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function contentOf(operand: KernelOperand): Float32Array | undefined {
  return "data" in operand && operand.data instanceof Float32Array ? operand.data : undefined;
}

function isRoundedOf(rounded: Float32Array, whole: Float32Array): boolean {
  const largest = whole.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return (
    rounded.some((value, index) => value !== whole[index]) &&
    rounded.every((value, index) => Math.abs(value - (whole[index] as number)) <= largest * roundingMost)
  );
}
