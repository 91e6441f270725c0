// Which buffers of a graph share memory: known before the first run. Buffers that are never needed at the same time share a slot; slots
// come in few sizes, so that all programs of a device take theirs from one store.

import type { Dispatch } from "./shader.ts";

/** Of buffers, at least this many bytes: a binding is never empty. */
const leastBytes = 256;

/** The next larger of four sizes in each doubling: at most a quarter of a buffer lies idle. */
export function slotBytes(bytes: number): number {
  const wanted = Math.max(bytes, leastBytes);
  const quarter = 2 ** (Math.ceil(Math.log2(wanted)) - 3);
  return Math.max(leastBytes, Math.ceil(wanted / quarter) * quarter);
}

export interface SlotPlan {
  /** In bytes. */
  readonly slots: readonly number[];
  /** Of each buffer that has one. */
  readonly slotOf: ReadonlyMap<number, number>;
}

/** `bytesOf`: of buffers that need memory for the time of a run; undefined for others. */
export function planSlots(dispatches: readonly Dispatch[], bytesOf: (buffer: number) => number | undefined): SlotPlan {
  const last = new Map<number, number>();
  for (const [at, { bindings }] of dispatches.entries()) for (const { buffer } of bindings) last.set(buffer, at);
  const slots: number[] = [];
  const slotOf = new Map<number, number>();
  const free = new Map<number, number[]>();
  for (const [at, { bindings }] of dispatches.entries()) {
    for (const { buffer } of bindings) {
      const bytes = bytesOf(buffer);
      if (bytes === undefined || slotOf.has(buffer)) continue;
      const size = slotBytes(bytes);
      slotOf.set(buffer, free.get(size)?.pop() ?? slots.push(size) - 1);
    }
    // After the dispatch: what it reads is not written by it.
    for (const buffer of new Set(bindings.map((binding) => binding.buffer))) {
      const slot = slotOf.get(buffer);
      if (slot === undefined || last.get(buffer) !== at) continue;
      const size = slots[slot] as number;
      free.set(size, [...(free.get(size) ?? []), slot]);
    }
  }
  return { slots, slotOf };
}
