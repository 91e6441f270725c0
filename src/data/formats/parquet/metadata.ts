// What a Parquet file holds, from its footer: columns with their types, and row groups with where their columns' pages lie. Columns
// in columns and types that are no numbers and no texts are told by name where they are asked for.

import { fail } from "../../../core/errors.ts";
import { ThriftReader, type ThriftStruct, type ThriftValue } from "./thrift.ts";

export type PhysicalType = "boolean" | "int32" | "int64" | "int96" | "float" | "double" | "bytes" | "fixed bytes";

export interface Column {
  readonly name: string;
  readonly type: PhysicalType;
  /** It may be empty in some rows. */
  readonly optional: boolean;
  /** Texts are bytes that say so. */
  readonly isText: boolean;
  /** Whole numbers from 0 on, whose highest bit is no sign. */
  readonly isUnsigned: boolean;
  /** Why it cannot be read, if so. */
  readonly refused: string | undefined;
}

export interface Chunk {
  readonly column: Column;
  readonly codec: number;
  readonly values: number;
  readonly offset: number;
  readonly bytes: number;
}

export interface RowGroup {
  readonly rows: number;
  readonly chunks: readonly Chunk[];
}

export interface ParquetFile {
  readonly columns: readonly Column[];
  readonly groups: readonly RowGroup[];
}

const physical: readonly PhysicalType[] = [
  "boolean",
  "int32",
  "int64",
  "int96",
  "float",
  "double",
  "bytes",
  "fixed bytes",
];

/** Larger chunks are not held in memory. */
export const chunkBytesMax = 1 << 30;

/** A few bytes can stand for any number of equal values. */
const groupRowsMax = 1 << 24;

export function readFooter(bytes: Uint8Array, fileBytes: number, name: string): ParquetFile {
  const root = new ThriftReader(bytes, name).struct();
  const columns = columnsOf(list(root, 2), name);
  const groups = list(root, 4).map((value): RowGroup => {
    const group = asStruct(value, name);
    const rows = count(group, 3, name);
    if (rows > groupRowsMax)
      fail("resource_exhausted", `${name} has ${rows} rows in one group, at most ${groupRowsMax} are allowed`);
    const chunks = list(group, 1).flatMap((each) => {
      const chunk = chunkOf(asStruct(each, name), columns, fileBytes, name);
      return chunk ? [chunk] : [];
    });
    return { rows, chunks };
  });
  return { columns, groups };
}

/** The schema is a tree written from the root on; only the root's own leaves are columns of values. */
function columnsOf(elements: readonly ThriftValue[], name: string): Column[] {
  const columns: Column[] = [];
  const inner: number[] = [];
  for (const [i, value] of elements.entries()) {
    const element = asStruct(value, name);
    const children = optionalCount(element, 5) ?? 0;
    if (i > 0 && inner.length === 0) columns.push(columnOf(element, children));
    if (i > 0 && inner.length > 0) inner[inner.length - 1] = (inner.at(-1) as number) - 1;
    if (i > 0 && children > 0) inner.push(children);
    while (inner.at(-1) === 0) inner.pop();
  }
  return columns;
}

function columnOf(element: ThriftStruct, children: number): Column {
  const type = physical[Number(element.get(1) ?? -1)];
  const repetition = Number(element.get(3) ?? 0);
  const converted = element.get(6) === undefined ? undefined : Number(element.get(6));
  const logical = element.get(10) instanceof Map ? [...(element.get(10) as ThriftStruct).keys()][0] : undefined;
  const name = textOf(element.get(4));
  const isText = type === "bytes" && (converted === 0 || logical === 1 || converted === 4 || logical === 4);
  const optional = repetition === 1;
  const isUnsigned = (converted !== undefined && converted >= 11 && converted <= 14) || isUnsignedLogical(element);
  // Of logical types, 5 is decimal and 6 to 8 are times; of the older ones, 5, and 6 to 10: their numbers mean something else.
  const reasons: readonly [boolean, string][] = [
    [children > 0, "has columns of its own"],
    [repetition === 2, "is a list"],
    [converted === 5 || logical === 5, "holds decimal numbers"],
    [type === "int96" || isTime(logical, 8) || isTime(converted, 10), "holds times"],
    [type === "fixed bytes" || (type === "bytes" && !isText), "holds bytes that are no text"],
  ];
  const refused = reasons.find(([applies]) => applies)?.[1];
  return { name, type: type ?? "bytes", optional, isText, isUnsigned, refused };
}

/** Days, times of a day, and points in time. */
const isTime = (kind: number | undefined, last: number) => kind !== undefined && kind >= 6 && kind <= last;

/** Of logical types, 10 is a whole number, and its field 2 says whether it has a sign. */
function isUnsignedLogical(element: ThriftStruct): boolean {
  const logical = element.get(10);
  const integer = logical instanceof Map ? (logical as ThriftStruct).get(10) : undefined;
  return integer instanceof Map && (integer as ThriftStruct).get(2) === false;
}

function chunkOf(chunk: ThriftStruct, columns: readonly Column[], fileBytes: number, name: string): Chunk | undefined {
  if (chunk.get(1) !== undefined) fail("unimplemented", `${name} keeps columns in other files, which is not supported`);
  const facts = asStruct(chunk.get(3), name);
  const path = list(facts, 3).map(textOf);
  const column = columns.find((each) => each.name === path[0]);
  if (column === undefined || path.length !== 1) return undefined;
  const [values, bytes] = [count(facts, 5, name), count(facts, 7, name)];
  const starts = [optionalCount(facts, 11), optionalCount(facts, 9)].filter(
    (at) => at !== undefined && at > 0,
  ) as number[];
  const offset = Math.min(...starts);
  if (!(offset >= 4 && offset + bytes <= fileBytes))
    fail("invalid_argument", `${name} is damaged: column "${column.name}" lies outside of it`);
  if (bytes > chunkBytesMax)
    fail(
      "resource_exhausted",
      `column "${column.name}" of ${name} has ${bytes} bytes in one row group, at most ${chunkBytesMax} are allowed`,
    );
  return { column, codec: Number(facts.get(4) ?? 0), values, offset, bytes };
}

function list(struct: ThriftStruct, field: number): readonly ThriftValue[] {
  const value = struct.get(field);
  return Array.isArray(value) ? (value as readonly ThriftValue[]) : [];
}

export function asStruct(value: ThriftValue | undefined, name: string): ThriftStruct {
  return value instanceof Map
    ? (value as ThriftStruct)
    : fail("invalid_argument", `${name} is damaged: a part of its description is missing`);
}

export function optionalCount(struct: ThriftStruct, field: number): number | undefined {
  const value = struct.get(field);
  return typeof value === "number" || typeof value === "bigint" ? Number(value) : undefined;
}

export function count(struct: ThriftStruct, field: number, name: string): number {
  const value = optionalCount(struct, field);
  if (value === undefined || !Number.isSafeInteger(value) || value < 0)
    return fail("invalid_argument", `${name} is damaged: a number of its description is wrong`);
  return value;
}

function textOf(value: ThriftValue | undefined): string {
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : "";
}
