// A kernel walks several memories side by side; a device holds each of them as pieces. Cut where pieces begin and end, every operand
// of a segment is either one piece or lies in shared memory alone.

import { elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import type { DeviceValue, Feed } from "./device.ts";
import type { Residency } from "./residency.ts";

export interface Segment {
  readonly shape: Shape;
  /** Of each operand: what the device holds, or the elements in shared memory. */
  readonly feeds: readonly Feed[];
  /** The same places in shared memory. */
  readonly tensors: readonly Tensor[];
  /** Whether the device holds any of them. */
  readonly isResident: boolean;
}

/** All views are equally long. */
export async function cutSegments(residency: Residency, views: readonly Float32Array[]): Promise<Segment[]> {
  const length = views[0]?.length ?? 0;
  const cuts = new Set([0, length]);
  for (const view of views)
    for (const piece of residency.overlapping({ data: view })) {
      const [start, end] = [(piece.start - view.byteOffset) / 4, (piece.end - view.byteOffset) / 4];
      for (const cut of [start, end]) if (cut > 0 && cut < length) cuts.add(cut);
    }
  const sorted = [...cuts].sort((a, b) => a - b);
  const segments: Segment[] = [];
  for (const [i, start] of sorted.slice(0, -1).entries()) {
    const parts = views.map((view) => view.subarray(start, sorted[i + 1]));
    segments.push(await segmentOf(residency, parts));
  }
  return segments;
}

/** All take the shape of the first that the device holds; what it holds in another shape or cut goes back first. */
async function segmentOf(residency: Residency, parts: readonly Float32Array[]): Promise<Segment> {
  const shape = parts.map((data) => shapeOf(residency, data)).find((found) => found !== undefined);
  const length = parts[0]?.length ?? 0;
  const tensors = parts.map((data): Tensor => ({ dtype: "float32", shape: shape ?? [length], data }));
  const held: (DeviceValue | undefined)[] = [];
  for (const tensor of tensors) held.push(await residency.find(tensor));
  return {
    shape: shape ?? [length],
    feeds: tensors.map((tensor, i) => held[i] ?? tensor),
    tensors,
    isResident: held.some((value) => value !== undefined),
  };
}

function shapeOf(residency: Residency, data: Float32Array): Shape | undefined {
  const [piece, ...others] = residency.overlapping({ data });
  if (piece === undefined || others.length > 0 || piece.value.dtype !== "float32") return undefined;
  return elementCount(piece.value.shape) === data.length && piece.start === data.byteOffset
    ? piece.value.shape
    : undefined;
}
