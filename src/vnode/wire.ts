// Tensors as they travel between VNodes: in the edge's declared type, named by a hash of type, shape and bytes.
// NaN and infinity never travel, whether computed or made by rounding.

import { rawBytes } from "../core/bytes.ts";
import { fail } from "../core/errors.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../core/numbers/half.ts";
import { fromInt8, toInt8 } from "../core/numbers/int8.ts";
import { areFiniteOnWire, type WireType } from "../core/numbers/wire-types.ts";
import { bytesOf, elementCount, firstNonFinite, type Shape, type Tensor, viewData } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";

export interface WireTensor {
  readonly dtype: WireType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
  /** Whose memory the bytes lie in, if it has to be given back: each holder does so once. */
  readonly memory?: MessageMemory;
}

/** Memory in which messages lie from birth to socket, and from socket to use: shared with whoever computes. */
export interface MessageMemory {
  allocate(bytes: number): Uint8Array;
  /** One more holder. */
  share(bytes: Uint8Array): void;
  release(bytes: Uint8Array): void;
}

export function messageMemory(executor: Executor): MessageMemory {
  return {
    allocate: (bytes) => executor.tensor("uint8", [bytes]).data as Uint8Array,
    share: (bytes) => executor.share({ data: bytes }),
    release: (bytes) => executor.recycle([{ data: bytes }]),
  };
}

/** The same tensor for one more holder. */
export function lend(tensor: WireTensor): WireTensor {
  tensor.memory?.share(tensor.bytes);
  return tensor;
}

export function giveBack(tensor: WireTensor): void {
  tensor.memory?.release(tensor.bytes);
}

/**
 * What was computed as it travels, without a copy where it lies in memory of the executor's and needs no rounding: then
 * the result holds the tensor, and whoever computed it does not any more.
 */
export function packInPlace(tensor: Tensor, wire: WireType, what: string, memory: MessageMemory): WireTensor {
  const { data, dtype, shape } = tensor;
  if (dtype !== wire || !(data.buffer instanceof SharedArrayBuffer)) return pack(tensor, wire, what, true);
  return { dtype: wire, shape, bytes: bytesOf(tensor), memory };
}

/**
 * Rounds to the wire's type. The result owns its bytes. `what` names the place in errors. `proven`: whoever computed it
 * has looked for NaN and infinity already.
 */
export function pack(tensor: Tensor, wire: WireType, what: string, proven = false): WireTensor {
  const packed = { dtype: wire, shape: tensor.shape, bytes: encode(tensor, wire, what, proven) };
  // Floats were looked at before they were rounded; rounding to fewer bits may overflow.
  if (wire !== "float32" && !areFiniteOnWire(wire, packed.shape, packed.bytes))
    fail("out_of_range", `${what} does not fit ${wire}: use bfloat16 or float32 there`);
  return packed;
}

function encode(tensor: Tensor, wire: WireType, what: string, proven: boolean): Uint8Array {
  const { data } = tensor;
  if (wire === "int32") {
    if (!(data instanceof Int32Array)) fail("internal", `${what} is ${tensor.dtype} where int32 travels`);
    return bytesOfCopy(data);
  }
  if (!(data instanceof Float32Array)) fail("internal", `${what} is ${tensor.dtype} where floats travel`);
  if (!proven && firstNonFinite(data) >= 0)
    fail("out_of_range", `${what} has NaN or infinity: lower the learning rate or clip`);
  switch (wire) {
    case "float32":
      return bytesOfCopy(data);
    case "float16":
      return bytesOfView(toFloat16(data));
    case "bfloat16":
      return bytesOfView(toBfloat16(data));
    case "int8":
      return toInt8(data, tensor.shape);
  }
}

function bytesOfView(data: Uint16Array): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function bytesOfCopy(data: Float32Array | Int32Array): Uint8Array {
  // Not filled with zeros first: every byte is written.
  const copy = rawBytes(data.byteLength);
  copy.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return copy;
}

/** Opens it and holds it on: what engines do not compute with as it is goes back at once. */
export function openHeld(tensor: WireTensor): Tensor {
  const opened = open(tensor);
  if (opened.data.buffer !== tensor.bytes.buffer) giveBack(tensor);
  return opened;
}

/** Floats come back as float32, which is what engines compute with. May be a view of the wire's bytes. */
export function open(tensor: WireTensor): Tensor {
  const { dtype, shape } = tensor;
  if (dtype === "int8") return { dtype: "float32", shape, data: fromInt8(tensor.bytes, shape) };
  const data = viewData(dtype, tensor.bytes);
  switch (dtype) {
    case "float32":
    case "int32":
      return { dtype, shape, data };
    case "float16":
      return { dtype: "float32", shape, data: fromFloat16(data as Uint16Array) };
    case "bfloat16":
      return { dtype: "float32", shape, data: fromBfloat16(data as Uint16Array) };
  }
}

export function zeros(shape: Shape): Tensor {
  return { dtype: "float32", shape, data: new Float32Array(elementCount(shape)) };
}
