// A device with memory of its own, as the executor sees it: programs whose feeds may lie there already and whose outputs may stay.
// webgpu/runtime.ts is one on a GPU; tests have one of plain arrays.

import { type Shape, sameShape, type Tensor, type TensorData } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Tensors } from "../engine.ts";

/** A tensor in the device's memory. Whoever holds it disposes of it once. */
export interface DeviceValue {
  readonly dtype: Tensor["dtype"];
  readonly shape: Shape;
  dispose(): void;
}

export type Feed = Tensor | DeviceValue;

export function isOnDevice(feed: Feed): feed is DeviceValue {
  return "dispose" in feed;
}

export interface DeviceProgram {
  /** Writes outputs to the tensors of `into`; gives those that stay. */
  run(feeds: Readonly<Record<string, Feed>>, into: Tensors): Promise<Readonly<Record<string, DeviceValue>>>;
  release(): Promise<void>;
}

export interface Device {
  /** `stays`: the outputs that are left on the device. */
  load(graph: GraphModel, stays: ReadonlySet<string>): Promise<DeviceProgram>;
  upload(tensor: Tensor): Promise<DeviceValue>;
  download(value: DeviceValue, into: TensorData): Promise<void>;
  /** What went over the bus so far, and what lies on the device now, in bytes. */
  readonly traffic: Readonly<Traffic>;
}

export interface Traffic {
  up: number;
  down: number;
  resident: number;
  /** Milliseconds in programs, uploads and downloads: what is left is the executor's own. */
  busyMs: number;
}

/** Counts a value as lying on the device until it is disposed of, once. */
export function resident(traffic: Traffic, bytes: number, dispose: () => void): () => void {
  traffic.resident += bytes;
  let held = true;
  return () => {
    if (!held) return;
    held = false;
    traffic.resident -= bytes;
    dispose();
  };
}

/** How every failure begins that means that a device is gone, with everything on it. */
export const lostDevice = "the GPU was lost";

export function sameValue(value: DeviceValue, { dtype, shape }: Pick<Tensor, "dtype" | "shape">): boolean {
  return value.dtype === dtype && sameShape(value.shape, shape);
}
