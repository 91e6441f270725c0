// Elements as a GPU has them: words of four bytes, also conditions and long integers. And what has to be right about feeds before a
// shader reads them.

import type { TensorData } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import { indexWithin } from "../../graph/operators/check.ts";
import { type Feed, isOnDevice } from "../webgpu/device.ts";
import type { ShaderPlan } from "./lower.ts";

export function asWords(data: TensorData): TensorData {
  if (data instanceof Uint8Array) return Int32Array.from(data);
  return data instanceof BigInt64Array ? Int32Array.from(data, Number) : data;
}

/** `count` words behind `start` bytes. */
export function fromWords(mapped: ArrayBuffer, start: number, count: number, into: TensorData): void {
  if (into instanceof Float32Array) into.set(new Float32Array(mapped, start, count));
  else if (into instanceof BigInt64Array) into.set(Array.from(new Int32Array(mapped, start, count), BigInt));
  else (into as Int32Array).set(new Int32Array(mapped, start, count));
}

/** Indices that come from the caller are looked at here: a shader cannot say that one is out of range. */
export function checkIndices(
  { inputs }: GraphModel,
  { checks }: ShaderPlan,
  feeds: Readonly<Record<string, Feed>>,
): void {
  for (const { input, type, size } of checks) {
    const feed = feeds[inputs[input]?.name ?? ""] as Feed;
    if (!isOnDevice(feed)) for (const value of feed.data) indexWithin(type, Number(value), size);
  }
}
