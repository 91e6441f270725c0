// The state of a VNode as a safetensors file: what checkpoints, exports and imports consist of. Reading believes
// nothing: sizes are checked against the file before anything is allocated.

import { fail } from "../core/errors.ts";
import { bytesOf, type DType, type Shape, type Tensor, tensorBytes, viewData } from "../core/tensor.ts";

/** A header larger than this is not one of ours: some thousand tensors take a few hundred kilobytes. */
const headerBytesMax = 16 << 20;
const axesMax = 8;

const nameOfType: Partial<Record<DType, string>> = {
  float32: "F32",
  float64: "F64",
  float16: "F16",
  bfloat16: "BF16",
  int32: "I32",
  int64: "I64",
  uint8: "U8",
  bool: "BOOL",
};

export interface Checkpoint {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** Equal checkpoints have equal bytes: tensors lie in the order given, which must not depend on chance. */
export function writeCheckpoint(checkpoint: Checkpoint): Uint8Array<ArrayBuffer> {
  const header: Record<string, unknown> = { __metadata__: checkpoint.metadata };
  let end = 0;
  for (const [name, tensor] of checkpoint.tensors) {
    const start = end;
    end += tensor.data.byteLength;
    header[name] = { dtype: nameOfType[tensor.dtype], shape: tensor.shape, data_offsets: [start, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  // The data starts at a multiple of 8, so that every dtype can be viewed in place.
  const headerBytes = Math.ceil(text.length / 8) * 8;
  const file = new Uint8Array(8 + headerBytes + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(headerBytes), true);
  file.fill(0x20, 8, 8 + headerBytes);
  file.set(text, 8);
  let at = 8 + headerBytes;
  for (const tensor of checkpoint.tensors.values()) {
    file.set(bytesOf(tensor), at);
    at += tensor.data.byteLength;
  }
  return file;
}

/** Tensors are views of `file`. `what` names the file in errors. */
export function readCheckpoint(file: Uint8Array, what: string): Checkpoint {
  const refuse = (reason: string): never => fail("data_loss", `${what} is not a usable safetensors file: ${reason}`);
  if (file.byteLength < 8) refuse(`it has ${file.byteLength} bytes`);
  const headerBytes = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  if (headerBytes > headerBytesMax || 8 + headerBytes > file.byteLength)
    refuse(`its header claims ${headerBytes} of ${file.byteLength} bytes`);
  const data = file.subarray(8 + headerBytes);
  const header = parseHeader(file.subarray(8, 8 + headerBytes)) ?? refuse("its header is not a JSON object");
  const metadata: Record<string, string> = {};
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") {
      for (const [key, value] of Object.entries(entry ?? {})) metadata[key] = String(value);
      continue;
    }
    const tensor = readTensor(entry, data) ?? refuse(`tensor "${name.slice(0, 80)}" has a wrong dtype, shape or place`);
    tensors.set(name, tensor);
  }
  return { metadata, tensors };
}

function parseHeader(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return value !== null && typeof value === "object" && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function readTensor(entry: unknown, data: Uint8Array): Tensor | undefined {
  const { dtype: typeName, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const dtype = (Object.keys(nameOfType) as DType[]).find((candidate) => nameOfType[candidate] === typeName);
  if (dtype === undefined || !isShape(shape) || !Array.isArray(offsets)) return undefined;
  const [start, end] = offsets as unknown[];
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end)) return undefined;
  const [from, to] = [start as number, end as number];
  if (from < 0 || to > data.byteLength || to - from !== tensorBytes(dtype, shape)) return undefined;
  return { dtype, shape, data: viewData(dtype, data.subarray(from, to)) };
}

function isShape(value: unknown): value is Shape {
  return (
    Array.isArray(value) && value.length <= axesMax && value.every((size) => Number.isSafeInteger(size) && size >= 0)
  );
}
