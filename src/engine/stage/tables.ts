// Tables of which a pass reads a few rows, such as the vectors of tokens, need not lie in memory: a file gives a row as fast as it is
// needed. A model whose head is the same matrix as its table would otherwise hold it twice, once packed for products and once by rows.

import { ownPages } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";
import { bytesOf, type Tensor } from "../../core/tensor.ts";
import type { GraphNode, ValueInfo } from "../../graph/model.ts";
import { anyRows } from "../../graph/rows.ts";
import type { UnitGraph } from "../../graph/unit.ts";
import type { Tensors } from "../engine.ts";

/** Bytes outside of memory, written once. */
export interface TableFile {
  read(from: number, into: Uint8Array): void;
  close(): void;
}

/** Undefined where there is no room. A chunk of the content holds until the next is asked for. */
export type OpenTable = (bytes: number, content: Iterable<Uint8Array>) => TableFile | undefined;

/** Smaller ones take no memory worth a file. */
const tableBytesMin = 1 << 20;
/** Written at a time. */
const chunkBytes = 1 << 20;

/** Rows of a table, by the numbers in another value. */
export interface Lookup {
  readonly ids: string;
  readonly result: ValueInfo;
  readonly table: Table;
}

export interface Table {
  /** Fails with `out_of_range` for a row that there is not. */
  row(number: number, into: Float32Array): void;
  close(): void;
}

/** A graph without the tables that were put into files. */
export interface WithoutTables {
  readonly step: UnitGraph;
  readonly lookups: readonly Lookup[];
}

export function withoutTables(step: UnitGraph, weights: Tensors, open: OpenTable | undefined): WithoutTables {
  if (open === undefined) return { step, lookups: [] };
  const lookups = new Map<GraphNode, Lookup>();
  for (const node of step.graph.nodes) {
    const lookup = lookupOf(step, node, weights, open);
    if (lookup !== undefined) lookups.set(node, lookup);
  }
  if (lookups.size === 0) return { step, lookups: [] };
  const nodes = step.graph.nodes.filter((node) => !lookups.has(node));
  const used = new Set(nodes.flatMap((node) => node.inputs));
  const found = [...lookups.values()];
  const inputs = [...step.graph.inputs, ...found.map(({ result }) => result)].filter(({ name }) => used.has(name));
  const made = new Set(found.map(({ result }) => result.name));
  const outputs = step.graph.outputs.filter(({ name }) => !made.has(name));
  const graph = { ...step.graph, nodes, inputs, outputs };
  return { step: { ...step, graph, weights: step.weights.filter((name) => used.has(name)) }, lookups: found };
}

/** Of a node that picks rows of a matrix which nothing else reads, by numbers that come with the pass. */
function lookupOf(step: UnitGraph, node: GraphNode, weights: Tensors, open: OpenTable): Lookup | undefined {
  const isQuantised = node.op === "GatherBlockQuantized";
  if (step.rows !== "all" || (!isQuantised && node.op !== "Gather") || (node.attributes["axis"] ?? 0) !== 0)
    return undefined;
  const [tableName, ids, scalesName] = node.inputs as [string, string, string | undefined];
  const [table, scales] = [weights[tableName], scalesName === undefined ? undefined : weights[scalesName]];
  const { graph } = step;
  const numbers = graph.inputs.find(({ name }) => name === ids);
  const isShared = graph.nodes.some((other) => other !== node && other.inputs.includes(tableName));
  if (table?.shape.length !== 2 || isShared || !isColumn(numbers) || bytesOf(table).length < tableBytesMin)
    return undefined;
  const bits = isQuantised ? (node.attributes["bits"] as number) : 32;
  const file = isQuantised ? quantisedTable(table, scales as Tensor, bits, open) : plainTable(table, open);
  if (file === undefined) return undefined;
  const width = isQuantised ? ((table.shape[1] as number) * 8) / bits : (table.shape[1] as number);
  const result = { name: node.outputs[0] as string, dtype: "float32" as const, shape: [anyRows, 1, width] };
  return { ids, result, table: file };
}

function isColumn(info: ValueInfo | undefined): boolean {
  return info?.dtype === "int32" && info.shape.length === 2 && info.shape[0] === anyRows && info.shape[1] === 1;
}

function plainTable(table: Tensor, open: OpenTable): Table | undefined {
  if (table.dtype !== "float32") return undefined;
  const bytes = bytesOf(table);
  const [rows, width] = table.shape as [number, number];
  const file = open(bytes.length, chunksOf(bytes));
  return (
    file && { row: (number, into) => file.read(placeOf(number, rows, 4 * width), bytesIn(into)), close: file.close }
  );
}

/** A row's whole numbers lie before its scales, so that one read brings both. */
function quantisedTable(table: Tensor, scales: Tensor, bits: number, open: OpenTable): Table | undefined {
  const [whole, factors] = [bytesOf(table), bytesOf(scales)];
  const [rows, wholeBytes] = table.shape as [number, number];
  const blocks = scales.shape[1] as number;
  const rowBytes = wholeBytes + 4 * blocks;
  const file = open(rows * rowBytes, joinedRows(whole, wholeBytes, factors, 4 * blocks, rows));
  if (file === undefined) return undefined;
  const room = new Uint8Array(rowBytes);
  const packed = room.subarray(0, wholeBytes);
  const scalesOfRow = new Float32Array(blocks);
  return {
    row(number, into) {
      file.read(placeOf(number, rows, rowBytes), room);
      bytesIn(scalesOfRow).set(room.subarray(wholeBytes));
      const block = into.length / blocks;
      for (let i = 0; i < into.length; i++)
        into[i] = wholeAt(packed, i, bits) * (scalesOfRow[Math.floor(i / block)] as number);
    },
    close: file.close,
  };
}

/** As quantise.ts has packed them. */
function wholeAt(packed: Uint8Array, index: number, bits: number): number {
  if (bits === 8) return (packed[index] as number) - 128;
  const pair = packed[index >> 1] as number;
  return ((index & 1) === 0 ? pair & 15 : pair >> 4) - 8;
}

function placeOf(number: number, rows: number, rowBytes: number): number {
  if (number < 0 || number >= rows) fail("out_of_range", `there is no row ${number} in a table of ${rows}`);
  return number * rowBytes;
}

function bytesIn({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function* chunksOf(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

/** Each chunk lies where the one before it lay, outside of the C library's heap: the runtime's weights come to lie beside whatever is there. */
function* joinedRows(a: Uint8Array, aBytes: number, b: Uint8Array, bBytes: number, rows: number): Iterable<Uint8Array> {
  const perChunk = Math.max(1, Math.floor(chunkBytes / (aBytes + bBytes)));
  const room = ownPages(Math.min(perChunk, rows) * (aBytes + bBytes));
  try {
    for (let first = 0; first < rows; first += perChunk) {
      const count = Math.min(perChunk, rows - first);
      const chunk = new Uint8Array(room, 0, count * (aBytes + bBytes));
      for (let i = 0; i < count; i++) {
        const at = i * (aBytes + bBytes);
        chunk.set(a.subarray((first + i) * aBytes, (first + i + 1) * aBytes), at);
        chunk.set(b.subarray((first + i) * bBytes, (first + i + 1) * bBytes), at + aBytes);
      }
      yield chunk;
    }
  } finally {
    room.resize(0);
  }
}
