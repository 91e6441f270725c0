// Weights in safetensors files, read tensor by tensor: a model may be larger than memory. Headers come from
// strangers; every offset is checked against the file before anything is read.

import { open, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import { fromBfloat16, fromFloat16 } from "../../core/numbers/half.ts";
import { elementCount, type Shape, type Tensor } from "../../core/tensor.ts";

type StoredType = "F32" | "F16" | "BF16" | "F64";

const storedBytes: Readonly<Record<StoredType, number>> = { F32: 4, F16: 2, BF16: 2, F64: 8 };

interface StoredTensor {
  readonly file: string;
  readonly dtype: string;
  readonly shape: Shape;
  /** In the file. */
  readonly start: number;
  readonly end: number;
}

export interface StoredWeights {
  readonly names: readonly string[];
  has(name: string): boolean;
  shapeOf(name: string): Shape;
  /** As float32. */
  load(name: string): Promise<Tensor>;
}

/** The largest models have some thousand tensors, 100 bytes each. */
const headerBytesMax = 32 << 20;
const tensorsMax = 200_000;
const filesMax = 1_000;
const rankMax = 8;

/** Reads model.safetensors, or the files that model.safetensors.index.json lists. */
export async function openWeights(folder: string): Promise<StoredWeights> {
  const tensors = new Map<string, StoredTensor>();
  for (const file of await weightFiles(folder))
    for (const [name, tensor] of (await readHeader(join(folder, file))).tensors) {
      if (tensors.has(name)) fail("invalid_argument", `tensor "${name}" is in two files of ${folder}`);
      tensors.set(name, tensor);
    }
  return storedWeights(folder, tensors);
}

/** One file, with what its metadata says. */
export async function openWeightsFile(
  path: string,
): Promise<{ metadata: Readonly<Record<string, string>>; weights: StoredWeights }> {
  const { metadata, tensors } = await readHeader(path);
  return { metadata, weights: storedWeights(path, tensors) };
}

function storedWeights(place: string, tensors: ReadonlyMap<string, StoredTensor>): StoredWeights {
  const find = (name: string) =>
    tensors.get(name) ?? fail("not_found", `${place} has no tensor "${name}": is it a model of this family?`);
  return {
    names: [...tensors.keys()],
    has: (name) => tensors.has(name),
    shapeOf: (name) => find(name).shape,
    load: (name) => loadTensor(name, find(name)),
  };
}

async function weightFiles(folder: string): Promise<string[]> {
  const index = await readJson(join(folder, "model.safetensors.index.json"), headerBytesMax).catch((thrown) => {
    if ((thrown as { code?: string }).code === "not_found") return undefined;
    throw thrown;
  });
  if (index === undefined) return ["model.safetensors"];
  const map = index["weight_map"];
  if (map === null || typeof map !== "object") fail("invalid_argument", `the index of ${folder} has no weight_map`);
  const files = new Set(Object.values(map as Record<string, unknown>).map(String));
  if (files.size > filesMax) fail("invalid_argument", `the index of ${folder} names ${files.size} files, too many`);
  for (const file of files)
    if (file !== basename(file) || file.startsWith("."))
      fail(
        "permission_denied",
        `the index of ${folder} names "${file.slice(0, 80)}", which is not a file of the folder`,
      );
  return [...files].sort();
}

/** A JSON object from a file of bounded size. */
export async function readJson(path: string, bytesMax: number): Promise<Record<string, unknown>> {
  const text = await readText(path, bytesMax);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail("invalid_argument", `${path} is not JSON: ${messageOf(thrown)}`, thrown);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    fail("invalid_argument", `${path} is not a JSON object`);
  return value as Record<string, unknown>;
}

export async function readText(path: string, bytesMax: number): Promise<string> {
  const found = await stat(path).catch((thrown) => fail("not_found", `there is no file ${path}`, thrown));
  if (found.size > bytesMax)
    fail("resource_exhausted", `${path} has ${found.size} bytes, at most ${bytesMax} are allowed`);
  return (await readRange(path, 0, found.size)).toString("utf8");
}

export async function readRange(path: string, start: number, end: number): Promise<Buffer> {
  const file = await open(path, "r").catch((thrown) =>
    fail("not_found", `${path} cannot be opened: ${messageOf(thrown)}`, thrown),
  );
  try {
    const content = Buffer.alloc(end - start);
    for (let done = 0; done < content.byteLength; ) {
      const { bytesRead } = await file.read(content, done, Math.min(content.byteLength - done, 1 << 30), start + done);
      if (bytesRead === 0) fail("data_loss", `${path} ends at byte ${start + done}, before ${end}: it is incomplete`);
      done += bytesRead;
    }
    return content;
  } finally {
    await file.close();
  }
}

interface Header {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

async function readHeader(path: string): Promise<Header> {
  const { size } = await stat(path).catch((thrown) => fail("not_found", `there is no file ${path}`, thrown));
  const refuse = (why: string): never => fail("invalid_argument", `${path} is not a usable safetensors file: ${why}`);
  if (size < 8) refuse(`it has ${size} bytes`);
  const headerBytes = Number((await readRange(path, 0, 8)).readBigUInt64LE(0));
  if (headerBytes > headerBytesMax || 8 + headerBytes > size)
    refuse(`its header claims ${headerBytes} of ${size} bytes`);
  let header: unknown;
  try {
    header = JSON.parse((await readRange(path, 8, 8 + headerBytes)).toString("utf8"));
  } catch (thrown) {
    refuse(`its header is not JSON: ${messageOf(thrown)}`);
  }
  if (header === null || typeof header !== "object" || Array.isArray(header)) refuse("its header is not a JSON object");
  const { __metadata__: notes, ...stored } = header as Record<string, unknown>;
  const entries = Object.entries(stored);
  if (entries.length > tensorsMax) refuse(`it has ${entries.length} tensors`);
  const first = 8 + headerBytes;
  const tensors = new Map(
    entries.map(([name, entry]): [string, StoredTensor] => {
      const tensor = readEntry(path, entry, first, size);
      return [name, tensor ?? refuse(`tensor "${name.slice(0, 80)}" has a wrong dtype, shape or place`)];
    }),
  );
  return {
    metadata: Object.fromEntries(Object.entries(notes ?? {}).filter(([, note]) => typeof note === "string")),
    tensors,
  };
}

function readEntry(file: string, entry: unknown, first: number, size: number): StoredTensor | undefined {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const isCount = (value: unknown): value is number =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  if (typeof dtype !== "string" || !Array.isArray(shape) || shape.length > rankMax || !shape.every(isCount))
    return undefined;
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount)) return undefined;
  const [start, end] = offsets as [number, number];
  const width = Object.hasOwn(storedBytes, dtype) ? storedBytes[dtype as StoredType] : undefined;
  if (start > end || first + end > size) return undefined;
  if (width !== undefined && end - start !== elementCount(shape) * width) return undefined;
  return { file, dtype, shape, start: first + start, end: first + end };
}

async function loadTensor(name: string, { file, dtype, shape, start, end }: StoredTensor): Promise<Tensor> {
  const bytes = await readRange(file, start, end);
  // The bytes may lie anywhere in a pooled buffer; typed views need their own alignment.
  const { buffer } = new Uint8Array(bytes);
  switch (dtype) {
    case "F32":
      return { dtype: "float32", shape, data: new Float32Array(buffer) };
    case "F64":
      return { dtype: "float32", shape, data: Float32Array.from(new Float64Array(buffer)) };
    case "F16":
      return { dtype: "float32", shape, data: fromFloat16(new Uint16Array(buffer)) };
    case "BF16":
      return { dtype: "float32", shape, data: fromBfloat16(new Uint16Array(buffer)) };
    default:
      fail("unimplemented", `tensor "${name}" is stored as ${dtype}: only F32, F16, BF16 and F64 are read`);
  }
}
