// Puts runs of tokens into sequences of one length, so that a network's context is full of text. Either one run after another,
// cut where a sequence ends, or each run whole within a sequence, with the rest of it filled up.

import { fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { Shard } from "../../data/manifest.ts";
import { type Kit, putShard } from "../kit.ts";
import type { Operator } from "../operator.ts";
import {
  type Output,
  type Part,
  RecordWriter,
  recordOfTokens,
  recordsOf,
  type TokenFacts,
  tokensOf,
  tokenWidth,
} from "../records.ts";
import { fieldsOf, whole } from "../settings.ts";

/** Sequences that wait for a run that fits. */
const openMax = 64;

/** After a shard of the input: what it gave, and where the sequences that are not full yet lie. */
interface Packed {
  readonly shards: readonly Shard[];
  readonly open: Sha256;
}

export const pack: Operator = {
  name: "pack",
  version: 1,
  reads: "one",
  read(given, where) {
    const fields = fieldsOf(typeof given === "number" ? { context: given } : given, ["context", "whole"], where);
    const keepsWhole = fields["whole"] ?? false;
    if (typeof keepsWhole !== "boolean") fail("invalid_argument", `${where}: \`whole\` is true or false`);
    return { context: whole(fields, "context", where, 2, 1 << 20), whole: keepsWhole };
  },
  gives([format], _settings, _facts, where) {
    if (format !== "tokens")
      fail("invalid_argument", `${where} works on tokens, and is given rows: tokenise them first`);
    return "tokens";
  },
  async run({ settings, inputs, kit, where }) {
    const { running: _ended, ...input } = inputs[0] as Output;
    const facts = input.tokens as TokenFacts;
    const context = settings["context"] as number;
    if (settings["whole"] && facts.end === undefined)
      fail(
        "failed_precondition",
        `${where}: the vocabulary has no token that ends documents to fill sequences with: say \`end-token\` where it is tokenised`,
      );
    const parts: Part[] = [];
    for (const part of input.parts) {
      const packer = settings["whole"]
        ? new WholePacker(context, facts.end as number, facts)
        : new CuttingPacker(context, facts);
      parts.push({ name: part.name, shards: await packPart(part, packer, kit) });
    }
    return { ...input, parts };
  },
};

interface Packer {
  /** What waits, as records. */
  open(): Iterable<Uint8Array>;
  restore(record: Uint8Array): void;
  add(record: Uint8Array, into: RecordWriter): void;
  finish(into: RecordWriter): void;
}

async function packPart({ name, shards }: Part, packer: Packer, kit: Kit): Promise<Shard[]> {
  const packed = await kit.chain<Packed>(
    `pack ${name}`,
    async function* (recorded) {
      const last = recorded.at(-1);
      if (last) for (const record of recordsOf(await kit.spill.get(last.open))) packer.restore(record);
      for (let at = recorded.length; at < shards.length; at++) {
        const shard = shards[at] as Shard;
        const writer = new RecordWriter();
        for (const record of recordsOf(await kit.blobs.get(shard.hash))) packer.add(record, writer);
        const open = new RecordWriter();
        for (const record of packer.open()) open.add(record);
        const { hash } = await kit.spill.put(open.take().content);
        if (at + 1 === shards.length) packer.finish(writer);
        const { content, count } = writer.take();
        yield { result: { shards: await putShard(kit.blobs, content, count), open: hash }, bytes: shard.bytes };
      }
    },
    shards.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  return packed.flatMap((one) => one.shards);
}

/** What is left at the end is too short for a sequence, and left out. */
class CuttingPacker implements Packer {
  readonly #sequenceBytes: number;
  #left: Uint8Array = new Uint8Array(0);

  constructor(context: number, facts: TokenFacts) {
    this.#sequenceBytes = context * tokenWidth(facts);
  }

  *open(): Generator<Uint8Array> {
    yield this.#left;
  }

  restore(record: Uint8Array): void {
    this.#left = record.slice();
  }

  add(record: Uint8Array, into: RecordWriter): void {
    const all = Buffer.concat([this.#left, record]);
    let at = 0;
    for (; at + this.#sequenceBytes <= all.byteLength; at += this.#sequenceBytes)
      into.add(all.subarray(at, at + this.#sequenceBytes));
    this.#left = all.subarray(at);
  }

  finish(): void {}
}

/** First fit among the sequences that are open; the oldest closes when there are too many. A run that is too long is cut. */
class WholePacker implements Packer {
  readonly #context: number;
  readonly #width: 2 | 4;
  readonly #fill: number;
  #open: number[][] = [];

  constructor(context: number, fill: number, facts: TokenFacts) {
    this.#context = context;
    this.#fill = fill;
    this.#width = tokenWidth(facts);
  }

  *open(): Generator<Uint8Array> {
    for (const sequence of this.#open) yield recordOfTokens(sequence, this.#width);
  }

  restore(record: Uint8Array): void {
    this.#open.push([...tokensOf(record, this.#width)]);
  }

  add(record: Uint8Array, into: RecordWriter): void {
    const tokens = tokensOf(record, this.#width);
    for (let start = 0; start < tokens.length; start += this.#context)
      this.#place(tokens.subarray(start, start + this.#context), into);
  }

  #place(run: Uint16Array | Int32Array, into: RecordWriter): void {
    const fits = this.#open.findIndex((sequence) => sequence.length + run.length <= this.#context);
    if (fits >= 0) {
      const sequence = this.#open[fits] as number[];
      for (const token of run) sequence.push(token);
      if (sequence.length === this.#context) this.#close(fits, into);
      return;
    }
    this.#open.push([...run]);
    if (run.length === this.#context) this.#close(this.#open.length - 1, into);
    else if (this.#open.length > openMax) this.#close(0, into);
  }

  #close(index: number, into: RecordWriter): void {
    const [sequence = []] = this.#open.splice(index, 1);
    while (sequence.length < this.#context) sequence.push(this.#fill);
    into.add(recordOfTokens(sequence, this.#width));
  }

  finish(into: RecordWriter): void {
    while (this.#open.length > 0) this.#close(0, into);
  }
}
