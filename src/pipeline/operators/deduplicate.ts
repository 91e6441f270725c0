// Leaves out records that were there before: exact copies, or texts that are nearly the same. Keys of all records go to disk, one
// table after another says which of them came later than another one, and each shard leaves those out. The first one stays.

import { createHash } from "node:crypto";
import { freeBytes } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";
import type { Shard } from "../../data/manifest.ts";
import { type Kit, putShard, type StoredBlob } from "../kit.ts";
import type { Operator, StepWork } from "../operator.ts";
import { countOf, type Output, RecordWriter, recordsMax, recordsOf, rowOf } from "../records.ts";
import { choice, fieldsOf, number, text } from "../settings.ts";
import { eachShard, placesOf } from "./each-shard.ts";
import { FirstSeen, passesOver } from "./first-seen.ts";
import { bandKeyBytes, bands, hashes, likeness, signatureBytes, signing } from "./minhash.ts";

const digestBytes = 16;
/** Texts that share a band and are not alike: more of them are not compared with one that comes later. */
const comparedMax = 16;

export const deduplicate: Operator = {
  name: "deduplicate",
  version: 1,
  reads: "one",
  read(given, where) {
    const fields = fieldsOf(typeof given === "string" ? { by: given } : given, ["by", "field", "similarity"], where);
    const by = choice(fields, "by", where, ["exact", "minhash"], "exact");
    if (by === "exact" && fields["similarity"] !== undefined)
      fail("invalid_argument", `${where}: \`similarity\` is for copies by minhash: exact copies are alike in all`);
    const similarity = number(fields, "similarity", where, 0.5, 1, 0.8);
    return { by, field: text(fields, "field", where, "text"), ...(by === "minhash" && { similarity }) };
  },
  gives([format], settings, _facts, where) {
    if (format === "tokens" && settings["by"] === "minhash")
      fail("invalid_argument", `${where} compares texts, and is given tokens: put it before the step that tokenises`);
    return format ?? "rows";
  },
  async run(work) {
    const input = work.inputs[0] as Output;
    if (countOf(input) > recordsMax)
      fail(
        "resource_exhausted",
        `${work.where} is given ${countOf(input)} records, at most ${recordsMax} are compared`,
      );
    const dropped = work.settings["by"] === "exact" ? await exactCopies(work) : await nearCopies(work);
    const { kit } = work;
    return eachShard(input, kit, (shard, first) => withoutDropped(shard, first, dropped, kit), "leave out");
  },
};

async function withoutDropped(shard: Shard, first: number, dropped: Uint8Array, kit: Kit): Promise<Shard[]> {
  const writer = new RecordWriter();
  let index = first;
  const read = await kit.blobs.get(shard.hash);
  for (const record of recordsOf(read)) {
    if (!isMarked(dropped, index)) writer.add(record);
    index++;
  }
  freeBytes(read);
  const { content, count } = writer.take();
  return putShard(kit.blobs, content, count);
}

function isMarked(marks: Uint8Array, index: number): boolean {
  return (((marks[index >>> 3] as number) >>> (index & 7)) & 1) === 1;
}

/** One bit for each record. */
async function marked(records: number, lists: readonly StoredBlob[], kit: Kit): Promise<Uint8Array> {
  const marks = new Uint8Array(Math.ceil(records / 8));
  for (const { hash, bytes } of lists) {
    if (bytes === 0) continue;
    const list = (await kit.spill.get(hash)).slice();
    for (const index of new Uint32Array(list.buffer))
      marks[index >>> 3] = (marks[index >>> 3] as number) | (1 << (index & 7));
  }
  return marks;
}

function storeList(list: readonly number[], kit: Kit): Promise<StoredBlob> {
  return kit.spill.put(new Uint8Array(Uint32Array.from(list).buffer));
}

async function exactCopies({ inputs, settings, kit }: StepWork): Promise<Uint8Array> {
  const input = inputs[0] as Output;
  const places = placesOf(input);
  const bytesOf = (task: number) => places[task]?.shard.bytes ?? 0;
  const digests = await kit.each(
    "keys",
    places.length,
    async (task) => {
      const { shard } = places[task] as (typeof places)[number];
      const all = Buffer.alloc(shard.count * digestBytes);
      let at = 0;
      const read = await kit.blobs.get(shard.hash);
      for (const record of recordsOf(read)) {
        digestOf(record, input.format, settings["field"] as string).copy(all, at, 0, digestBytes);
        at += digestBytes;
      }
      freeBytes(read);
      return kit.spill.put(all);
    },
    { bytesOf },
  );
  const records = countOf(input);
  const { passes, entries } = passesOver(records);
  const table = new FirstSeen(entries);
  const lists = await kit.each(
    "find copies",
    passes,
    async (pass) => {
      table.clear();
      const later: number[] = [];
      for (const [task, { first, shard }] of places.entries()) {
        const keys = Buffer.from(await kit.spill.get((digests[task] as StoredBlob).hash));
        for (let row = 0; row < shard.count; row++) {
          if (keys.readUInt32LE(row * digestBytes) % passes !== pass) continue;
          const a = keys.readUIntLE(row * digestBytes + 4, 6);
          const b = keys.readUIntLE(row * digestBytes + 10, 6);
          if (table.with(a, b).next().done) table.add(a, b, first + row);
          else later.push(first + row);
        }
      }
      return storeList(later, kit);
    },
    { atOnce: 1 },
  );
  return marked(records, lists, kit);
}

/** Rows without the field are known by all that they have. */
function digestOf(record: Uint8Array, format: Output["format"], field: string): Buffer {
  const value = format === "rows" ? rowOf(record)[field] : undefined;
  return createHash("sha256")
    .update(typeof value === "string" ? value : record)
    .digest();
}

async function nearCopies({ inputs, settings, kit, where }: StepWork): Promise<Uint8Array> {
  const input = inputs[0] as Output;
  const places = placesOf(input);
  const signed = await kit.each(
    "sign",
    places.length,
    async (task) => {
      const { shard } = places[task] as (typeof places)[number];
      const content = await kit.blobs.get(shard.hash);
      const made = await kit.aside(signing, { content, count: shard.count, field: settings["field"] as string, where });
      const stored = await kit.spill.put(made);
      freeBytes(made);
      return stored;
    },
    { bytesOf: (task) => places[task]?.shard.bytes ?? 0 },
  );
  const records = countOf(input);
  const { passes, entries } = passesOver(records);
  const firsts = places.map(({ first }) => first);
  const signature = (index: number) => {
    const task = lastAtMost(firsts, index);
    const { shard, first } = places[task] as (typeof places)[number];
    const at = shard.count * bands * bandKeyBytes + (index - first) * signatureBytes;
    const bytes = kit.spill.range((signed[task] as StoredBlob).hash, at, signatureBytes).slice();
    return new Uint32Array(bytes.buffer, 0, hashes);
  };
  const similarity = settings["similarity"] as number;
  const table = new FirstSeen(entries);
  const lists = await kit.each(
    "compare bands",
    bands * passes,
    async (task) => {
      const band = task % bands;
      const pass = Math.floor(task / bands);
      table.clear();
      const later: number[] = [];
      for (const [place, { shard, first }] of places.entries()) {
        const { hash } = signed[place] as StoredBlob;
        const keys = kit.spill.range(hash, band * shard.count * bandKeyBytes, shard.count * bandKeyBytes).slice();
        const words = new Uint32Array(keys.buffer);
        for (let row = 0; row < shard.count; row++) {
          const a = words[row * 2] as number;
          const b = words[row * 2 + 1] as number;
          if (b % passes !== pass) continue;
          const own = first + row;
          const others = [...table.with(a, b)];
          const mine = others.length > 0 ? signature(own) : undefined;
          if (mine && others.some((other) => likeness(mine, signature(other)) >= similarity)) later.push(own);
          else if (others.length < comparedMax) table.add(a, b, own);
        }
      }
      return storeList(later, kit);
    },
    { atOnce: 1 },
  );
  return marked(records, lists, kit);
}

/** The last place whose first record is not behind `index`. */
function lastAtMost(firsts: readonly number[], index: number): number {
  let low = 0;
  let high = firsts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((firsts[middle] as number) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}
