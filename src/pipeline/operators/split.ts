// Deals records out into parts, such as one that trains and one that validates. Each shard is dealt out by itself; the parts of
// a dataset that is made of them are its splits.

import { createHash } from "node:crypto";
import { freeBytes } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import { type Shard, splitName } from "../../data/manifest.ts";
import { putShard } from "../kit.ts";
import type { Operator } from "../operator.ts";
import { allPart, countOf, type Output, type Part, RecordWriter, recordsOf, rowOf } from "../records.ts";
import { choice, fieldsOf, seedMax, whole } from "../settings.ts";
import { placesOf } from "./each-shard.ts";

interface Share {
  readonly name: string;
  readonly share: number;
}

/** Shares that people round to two places still make one. */
const slack = 1e-6;

export const split: Operator = {
  name: "split",
  version: 1,
  reads: "one",
  read(given, where) {
    const fields = fieldsOf(given, ["parts", "by", "seed"], where);
    const parts = fields["parts"];
    if (parts === null || typeof parts !== "object" || Array.isArray(parts))
      fail(
        "invalid_argument",
        `${where}: \`parts\` are names with their shares, such as {train: 0.9, validation: 0.1}`,
      );
    const shares = Object.entries(parts).map(([name, share]): Share => {
      if (typeof share !== "number" || !(share > 0 && share < 1))
        fail(
          "invalid_argument",
          `${where}: the share of ${name} is ${JSON.stringify(share)}, expected one between 0 and 1`,
        );
      return { name: splitName(name), share };
    });
    const sum = shares.reduce((total, { share }) => total + share, 0);
    if (Math.abs(sum - 1) > slack)
      fail("invalid_argument", `${where}: the shares make ${Number(sum.toPrecision(6))}, expected 1`);
    return {
      shares,
      by: choice(fields, "by", where, ["content", "chance", "order"], "content"),
      seed: whole(fields, "seed", where, 0, seedMax, 0),
    };
  },
  gives: ([format], _settings, _facts, _where) => format ?? "rows",
  async run({ settings, inputs, kit, where }) {
    const [input] = inputs as [Output];
    if (input.parts.some(({ name }) => name !== allPart))
      fail("failed_precondition", `${where}: what it is given is split already`);
    const shares = settings["shares"] as readonly Share[];
    const deal = dealer(shares, settings["by"] as string, settings["seed"] as number, input);
    const places = placesOf(input);
    const dealt = await kit.each(
      "shards",
      places.length,
      async (task) => {
        const { shard, first } = places[task] as (typeof places)[number];
        const writers = shares.map(() => new RecordWriter());
        let index = first;
        const read = await kit.blobs.get(shard.hash);
        for (const record of recordsOf(read)) writers[deal(record, index++)]?.add(record);
        freeBytes(read);
        const made: Shard[][] = [];
        for (const writer of writers) {
          const { content, count } = writer.take();
          made.push(await putShard(kit.blobs, content, count));
        }
        return made;
      },
      { bytesOf: (task) => places[task]?.shard.bytes ?? 0 },
    );
    const parts = shares.map(({ name }, part): Part => ({ name, shards: dealt.flatMap((made) => made[part] ?? []) }));
    for (const { name, shards } of parts)
      if (shards.length === 0)
        fail("failed_precondition", `${where}: the part ${name} would be empty: choose other shares`);
    return { ...input, parts };
  },
};

/** Which part a record belongs to. */
function dealer(
  shares: readonly Share[],
  by: string,
  seed: number,
  input: Output,
): (record: Uint8Array, index: number) => number {
  const ends: number[] = [];
  for (const { share } of shares) ends.push((ends.at(-1) ?? 0) + share);
  const partAt = (place: number) => {
    const found = ends.findIndex((end) => place < end);
    return found < 0 ? shares.length - 1 : found;
  };
  if (by === "order") {
    const total = countOf(input);
    return (_record, index) => partAt((index + 0.5) / total);
  }
  if (by === "chance") {
    const key = randomKey("pipeline split", seed);
    return (_record, index) => partAt(uniformAt(key, index));
  }
  // Equal texts fall on the same side, and none changes sides when others are added.
  return (record) => {
    const known = input.format === "rows" ? (rowOf(record)["text"] ?? record) : record;
    const digest = createHash("sha256")
      .update(String(seed))
      .update(typeof known === "string" ? known : record)
      .digest();
    return partAt(digest.readUInt32BE(0) / 2 ** 32);
  };
}
