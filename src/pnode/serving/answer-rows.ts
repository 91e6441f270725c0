// What passed through the VNodes here, row by row and as hashes, remembered for a while after an answer: if the answer turns
// out to be wrong, both ends of each edge say what passed there, and the machine that made it wrong is named.

import { sha256 } from "../../core/hash.ts";
import { bytesOf, type Tensor } from "../../core/tensor.ts";

/** New rows of one request, as passes have them. */
export interface RecordedRow {
  readonly request: string;
  readonly position: number;
  readonly tokens: number;
  /** Of how many of the last tokens logits are wanted: those behind the first of them are guesses. Absent: none is. */
  readonly logits?: number;
  readonly shared?: { readonly request: string; readonly positions: number };
}

export type Passage = `sent ${string}` | `got ${string}`;

/** Hashes of rows that are kept for one replica: some megabytes. */
const rowsKeptMax = 65_536;
/** Of 128 bits: nobody finds two rows of the same. */
const hashLength = 32;
/** Of a row of which nobody can tell any more what it was. */
const unknown = "";
/** Begins what is kept of a row that was said otherwise. */
const otherwise = "not ";

/** What went by in one passage. */
interface Said {
  /** By position. */
  readonly hashes: Map<number, string>;
  /** Rows below are no guesses: what was said of them stands. */
  firm: number;
}

interface Remembered {
  readonly passages: Map<Passage, Said>;
  /** At the head: rows below were chosen from, or before what was. */
  taken: number;
}

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
    const hashes = hashesOfRows(
      tensor,
      entries.reduce((sum, { tokens }) => sum + tokens, 0),
    );
    let row = 0;
    for (const { request, position, tokens, logits = 0, shared } of entries) {
      const known = this.#touched(answerName(epoch, request));
      const said = known.passages.get(passage) ?? { hashes: new Map(), firm: 0 };
      known.passages.set(passage, said);
      const before = said.hashes.size;
      if (shared) begin(said, known.taken, position, this.#saidOf(epoch, shared.request, passage));
      said.firm = Math.max(said.firm, position);
      for (let at = position; at < position + tokens; at++) say(said, known.taken, at, hashes[row++] as string);
      said.firm = Math.max(said.firm, position + tokens - Math.max(0, logits - 1));
      this.#rows += said.hashes.size - before;
    }
    this.#shrink();
  }

  /** At the head: what it chose from. Guesses on the way there were right. */
  chose(epoch: number, entry: RecordedRow, logits: Tensor): void {
    this.record(epoch, [entry], "sent logits", logits);
    const known = this.#touched(answerName(epoch, entry.request));
    known.taken = Math.max(known.taken, entry.position + entry.tokens);
  }

  #saidOf(epoch: number, request: string, passage: Passage): Said["hashes"] | undefined {
    return this.#requests.get(answerName(epoch, request))?.passages.get(passage)?.hashes;
  }

  #touched(name: string): Remembered {
    const known = this.#requests.get(name) ?? { passages: new Map(), taken: 0 };
    this.#requests.delete(name);
    this.#requests.set(name, known);
    return known;
  }

  #shrink(): void {
    for (const [name, { passages }] of this.#requests) {
      if (this.#rows <= this.#rowsMax || this.#requests.size === 1) return;
      this.#requests.delete(name);
      for (const { hashes } of passages.values()) this.#rows -= hashes.size;
    }
  }

  /** What is still known of rows `first` to before `end`, by passage; nothing of what is known in part, but that a row was said otherwise. */
  roots(name: string, first: (passage: Passage) => number, end: number): Map<Passage, string> {
    const roots = new Map<Passage, string>();
    for (const [passage, { hashes }] of this.#requests.get(name)?.passages ?? []) {
      const from = first(passage);
      if (end - from > this.#rowsMax) continue;
      const rows = Array.from({ length: Math.max(0, end - from) }, (_, index) => hashes.get(from + index) ?? unknown);
      if (!rows.includes(unknown) || rows.some((row) => row.startsWith(otherwise)))
        roots.set(passage, sha256(rows.join("")));
    }
    return roots;
  }
}

/** The first rows are another request's; guesses that stood there and that nobody knows any more are nothing now. */
function begin(said: Said, taken: number, positions: number, other: Said["hashes"] | undefined): void {
  for (let at = 0; at < positions; at++) {
    const hash = other?.get(at);
    if (hash !== undefined) say(said, taken, at, hash);
    else if (at >= said.firm) said.hashes.delete(at);
  }
}

/**
 * The first word stands. A row has the same bits however often it is read, so whoever says it otherwise a second time lies
 * now or lied before: the row is neither from then on, and its receiver at odds with its sender, though what came later be
 * right. Guesses alone make way for what was chosen instead. Whether one was right the head alone knows, and not from whom
 * it has what does not fit a right one: then nobody is at odds.
 */
function say({ hashes, firm }: Said, taken: number, at: number, hash: string): void {
  const before = hashes.get(at);
  if (before === hash || before === unknown) return;
  if (before === undefined) hashes.set(at, hash);
  else if (at < firm) hashes.set(at, otherwise + sha256(before + hash).slice(0, hashLength));
  else hashes.set(at, at < taken ? unknown : hash);
}

/** What machines call an answer: requests are counted anew by each owner of the head. */
export function answerName(epoch: number, request: string): string {
  return `${epoch}/${request}`;
}

/** Undefined if one of the rows is missing. */
export function rootOf(hashes: readonly string[], first: number, end: number): string | undefined {
  const wanted = hashes.slice(first, end);
  return wanted.length < end - first ? undefined : sha256(wanted.join(""));
}

/** Of a tensor whose rows belong to one request. */
export function hashesOfRows(tensor: Tensor, rows: number): string[] {
  const bytes = bytesOf(tensor);
  const width = bytes.byteLength / Math.max(1, rows);
  return Array.from({ length: rows }, (_, row) =>
    sha256(bytes.subarray(row * width, (row + 1) * width)).slice(0, hashLength),
  );
}
