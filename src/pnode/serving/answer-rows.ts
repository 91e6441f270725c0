// What passed through the VNodes here, row by row and as hashes, remembered for a while after an answer: if the answer turns
// out to be wrong, both ends of each edge say what passed there, and the machine that made it wrong is named.

import { sha256 } from "../../core/hash.ts";
import { bytesOf, type Tensor } from "../../core/tensor.ts";

/** New rows of one request, as passes have them. */
export interface RecordedRow {
  readonly request: string;
  readonly position: number;
  readonly tokens: number;
  readonly shared?: { readonly request: string; readonly positions: number };
}

export type Passage = `sent ${string}` | `got ${string}`;

/** Hashes of rows that are kept for one replica: some megabytes. */
const rowsKeptMax = 65_536;
/** Of 128 bits: nobody finds two rows of the same. */
const hashLength = 32;

/** By passage, a hash for each position. */
type Remembered = Map<Passage, string[]>;

export class AnswerRows {
  /** In the order of use, by the head's epoch and the request. */
  readonly #requests = new Map<string, Remembered>();
  readonly #rowsMax: number;
  #rows = 0;

  constructor(rowsMax = rowsKeptMax) {
    this.#rowsMax = rowsMax;
  }

  /** `tensor` has the rows of all entries one after the other. */
  record(epoch: number, entries: readonly RecordedRow[], passage: Passage, tensor: Tensor): void {
    const rows = entries.reduce((sum, { tokens }) => sum + tokens, 0);
    const bytes = bytesOf(tensor);
    const width = bytes.byteLength / Math.max(1, rows);
    let row = 0;
    for (const { request, position, tokens, shared } of entries) {
      const name = answerName(epoch, request);
      const known = this.#touched(name);
      const hashes = known.get(passage) ?? [];
      const before = hashes.length;
      const start = shared && this.#requests.get(answerName(epoch, shared.request))?.get(passage);
      if (start) hashes.splice(0, hashes.length, ...start.slice(0, position));
      // What the request had from there on is gone.
      hashes.length = position;
      for (let i = 0; i < tokens; i++, row++)
        hashes.push(sha256(bytes.subarray(row * width, (row + 1) * width)).slice(0, hashLength));
      known.set(passage, hashes);
      this.#rows += hashes.length - before;
    }
    this.#shrink();
  }

  #touched(name: string): Remembered {
    const known = this.#requests.get(name) ?? new Map();
    this.#requests.delete(name);
    this.#requests.set(name, known);
    return known;
  }

  #shrink(): void {
    for (const [name, passages] of this.#requests) {
      if (this.#rows <= this.#rowsMax || this.#requests.size === 1) return;
      this.#requests.delete(name);
      for (const hashes of passages.values()) this.#rows -= hashes.length;
    }
  }

  /** What is still known of rows `first` to before `end`, by passage; nothing of what is known in part. */
  roots(name: string, first: (passage: Passage) => number, end: number): Map<Passage, string> {
    const roots = new Map<Passage, string>();
    for (const [passage, hashes] of this.#requests.get(name) ?? []) {
      const root = rootOf(hashes, first(passage), end);
      if (root !== undefined) roots.set(passage, root);
    }
    return roots;
  }
}

/** What machines call an answer: requests are counted anew by each owner of the head. */
export function answerName(epoch: number, request: string): string {
  return `${epoch}/${request}`;
}

/** Undefined if one of the rows is missing. */
export function rootOf(hashes: readonly string[], first: number, end: number): string | undefined {
  const wanted = hashes.slice(first, end);
  if (wanted.length < end - first || wanted.includes(undefined as never)) return undefined;
  return sha256(wanted.join(""));
}

/** Of a tensor whose rows belong to one request. */
export function hashesOfRows(tensor: Tensor, rows: number): string[] {
  const bytes = bytesOf(tensor);
  const width = bytes.byteLength / Math.max(1, rows);
  return Array.from({ length: rows }, (_, row) =>
    sha256(bytes.subarray(row * width, (row + 1) * width)).slice(0, hashLength),
  );
}
