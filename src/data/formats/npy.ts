// NumPy's .npy: a short text header with dtype and shape, then the values.

import { fail } from "../../core/errors.ts";
import type { DType, Shape } from "../../core/tensor.ts";
import type { ByteReader } from "./bytes.ts";

export interface NpyHeader {
  readonly dtype: DType;
  /** Of the whole array: samples first. */
  readonly shape: Shape;
  /** Where the values begin. */
  readonly offset: number;
}

const headerBytesMax = 1 << 20;

const dtypes: Readonly<Record<string, DType>> = {
  f2: "float16",
  f4: "float32",
  f8: "float64",
  i4: "int32",
  i8: "int64",
  u1: "uint8",
  b1: "bool",
};

export async function readNpyHeader(reader: ByteReader, name: string): Promise<NpyHeader> {
  const start = await reader.take(8);
  if (start.byteLength < 8 || Buffer.from(start.subarray(0, 6)).toString("latin1") !== "\x93NUMPY")
    fail("invalid_argument", `${name} is not a .npy file`);
  const sizeBytes = start[6] === 1 ? 2 : 4;
  const size = Buffer.from(await reader.take(sizeBytes));
  const length = size.byteLength < sizeBytes ? headerBytesMax + 1 : size.readUIntLE(0, sizeBytes);
  if (length > headerBytesMax) fail("invalid_argument", `${name} has a damaged header`);
  const text = Buffer.from(await reader.take(length)).toString("latin1");
  const kind = /'descr'\s*:\s*'([<>|=])([a-z]\d+)'/.exec(text);
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
  const sizes = /'shape'\s*:\s*\(([\d,\s]*)\)/.exec(text)?.[1];
  const dtype = kind ? dtypes[kind[2] as string] : undefined;
  if (!dtype || kind?.[1] === ">")
    fail(
      "unimplemented",
      `${name} holds values of a type that is not supported: convert it to one of ${Object.values(dtypes).join(", ")}, little-endian`,
    );
  if (order !== "False")
    fail("unimplemented", `${name} is in Fortran order: save numpy.ascontiguousarray(array) instead`);
  const shape = (sizes ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map(Number);
  if (shape.length === 0 || shape.some((one) => !Number.isSafeInteger(one)))
    fail("invalid_argument", `${name} has the shape (${sizes}): the first axis must count samples`);
  if (shape.some((one) => one === 0)) fail("invalid_argument", `${name} is empty: its shape is (${shape.join(", ")})`);
  return { dtype, shape, offset: 8 + sizeBytes + length };
}
