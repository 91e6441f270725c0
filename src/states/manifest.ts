// A VNode's state by name: which tensors it has, and the hashes of the parts that hold their bytes one behind the
// other. The hash of the manifest is the state's name. Only the manifest tells the step, so a part that training did
// not change keeps its name and is not sent again. Reading believes nothing that it did not check.

import { stateBytesMax, stateManifestBytesMax, statePartBytes } from "../core/blobs.ts";
import { fail } from "../core/errors.ts";
import { canonicalJson } from "../core/hash.ts";
import { parseSha256, type Sha256 } from "../core/ids.ts";
import { type DType, elementBytes, elementCount, type Shape } from "../core/tensor.ts";
import { written } from "../core/words/written.ts";

const format = "dcnr-state-1";
const axesMax = 8;

const dtypes: readonly DType[] = ["float32", "float64", "int32", "int64", "uint8", "bool", "float16", "bfloat16"];

export interface StateTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

/** What a state is before its bytes are looked at. Tensors lie in this order, which must not depend on chance. */
export interface StateDescription {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: readonly StateTensor[];
  /** The first tensors have so many bytes and parts of their own: they never change, and others have the same. Absent: none. */
  readonly apartBytes?: number;
}

export interface StateManifest extends StateDescription {
  /** Of all tensors. */
  readonly bytes: number;
  readonly partBytes: number;
  readonly parts: readonly Sha256[];
}

export function stateBytesOf(tensors: readonly StateTensor[]): number {
  return tensors.reduce((sum, { dtype, shape }) => sum + elementBytes(dtype) * elementCount(shape), 0);
}

type Cut = Pick<StateManifest, "bytes" | "partBytes" | "apartBytes">;

/** Every part is full but the last, and the last of those that lie apart. */
export function partLength(cut: Cut, index: number): number {
  const { bytes, partBytes, apartBytes = 0 } = cut;
  const start = partStart(cut, index);
  return Math.min(partBytes, (start < apartBytes ? apartBytes : bytes) - start);
}

export function partStart({ partBytes, apartBytes = 0 }: Cut, index: number): number {
  const apart = Math.ceil(apartBytes / partBytes);
  return index < apart ? index * partBytes : apartBytes + (index - apart) * partBytes;
}

export function partCount({ bytes, partBytes, apartBytes = 0 }: Cut): number {
  return Math.ceil(apartBytes / partBytes) + Math.ceil((bytes - apartBytes) / partBytes);
}

/** Equal states have equal text. */
export function writeStateManifest(manifest: StateManifest): Uint8Array<ArrayBuffer> {
  const { metadata, tensors, bytes, partBytes, parts, apartBytes } = manifest;
  const written = { format, metadata, tensors, bytes, partBytes, parts, ...(apartBytes && { apartBytes }) };
  const text = new TextEncoder().encode(canonicalJson(written));
  if (text.byteLength > stateManifestBytesMax)
    fail("resource_exhausted", `a state of ${tensors.length} tensors has a manifest of ${text.byteLength} bytes`);
  return text;
}

/** `what` names the state in errors. */
export function readStateManifest(text: Uint8Array, what: string): StateManifest {
  const refuse = (reason: string): never => fail("data_loss", `${what} has no usable manifest: ${reason}`);
  if (text.byteLength > stateManifestBytesMax) refuse(`it has ${text.byteLength} bytes`);
  const json = parseObject(text) ?? refuse("it is not a JSON object");
  if (json["format"] !== format) refuse(`its format is ${written(json["format"])}, not ${format}`);
  const { bytes, partBytes, parts } = json;
  if (!isCount(bytes) || bytes > stateBytesMax) return refuse(`it claims ${written(bytes)} bytes`);
  if (!isCount(partBytes) || partBytes === 0 || partBytes > statePartBytes)
    return refuse(`its parts have ${written(partBytes)} bytes, at most ${statePartBytes} are allowed`);
  const { apartBytes = 0 } = json;
  if (!isCount(apartBytes) || apartBytes > bytes) return refuse(`it sets ${written(apartBytes)} bytes apart`);
  const wanted = partCount({ bytes, partBytes, apartBytes });
  if (!Array.isArray(parts) || parts.length !== wanted) return refuse(`it does not name ${wanted} parts`);
  const tensors = readTensors(json["tensors"]) ?? refuse("a tensor has a wrong name, dtype or shape");
  if (stateBytesOf(tensors) !== bytes) refuse(`its tensors do not fill ${bytes} bytes`);
  return {
    metadata: readMetadata(json["metadata"]) ?? refuse("its metadata are no texts"),
    tensors,
    bytes,
    partBytes,
    ...(apartBytes > 0 && { apartBytes }),
    parts: parts.map((hash) => parseSha256(written(hash), `a part of ${what}`)),
  };
}

function parseObject(text: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(text));
    return value !== null && typeof value === "object" && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function readMetadata(value: unknown): Record<string, string> | undefined {
  const entries = Object.entries(value ?? {});
  return entries.every(([, entry]) => typeof entry === "string") ? Object.fromEntries(entries) : undefined;
}

function readTensors(value: unknown): StateTensor[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const tensors = new Map<string, StateTensor>();
  for (const entry of value as unknown[]) {
    const { name, dtype, shape } = (entry ?? {}) as Record<string, unknown>;
    const known = dtypes.find((candidate) => candidate === dtype);
    if (typeof name !== "string" || tensors.has(name) || known === undefined || !isShape(shape)) return undefined;
    if (elementCount(shape) * elementBytes(known) > stateBytesMax) return undefined;
    tensors.set(name, { name, dtype: known, shape });
  }
  return [...tensors.values()];
}

function isShape(value: unknown): value is Shape {
  return Array.isArray(value) && value.length <= axesMax && value.every(isCount);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
