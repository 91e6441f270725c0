// Mixes the records of several steps by weights: for each place a draw says whose turn it is, and that one gives its next record.
// The draw depends on the seed and the place alone.

import { fail } from "../../core/errors.ts";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import type { Shard } from "../../data/manifest.ts";
import { type Kit, putShard } from "../kit.ts";
import { type Operator, sameFormat } from "../operator.ts";
import { type Output, type Part, RecordWriter, recordsMax, recordsOf } from "../records.ts";
import { choice, fieldsOf, seedMax, whole } from "../settings.ts";

const endings = ["stop", "repeat", "go-on"] as const;
type Ending = (typeof endings)[number];

/** Where an input stands. */
interface Stand {
  readonly shard: number;
  readonly record: number;
  /** How often it began again. */
  readonly rounds: number;
  readonly ended?: true;
}

interface Mixed {
  readonly shards: readonly Shard[];
  readonly places: number;
  readonly stands: readonly Stand[];
  readonly done?: true;
}

export const mix: Operator = {
  name: "mix",
  version: 1,
  reads: "named",
  read(given, where) {
    const fields = fieldsOf(given, ["weights", "seed", "when-one-ends", "records"], where);
    const weights = fields["weights"];
    if (weights === null || typeof weights !== "object" || Array.isArray(weights))
      fail(
        "invalid_argument",
        `${where}: \`weights\` are names of steps with their weights, such as {books: 3, pages: 1}`,
      );
    const named = Object.entries(weights).map(([name, weight]) => {
      if (typeof weight !== "number" || !Number.isFinite(weight) || weight <= 0)
        fail(
          "invalid_argument",
          `${where}: the weight of ${name} is ${JSON.stringify(weight)}, expected a number above 0`,
        );
      return { name, weight };
    });
    if (named.length < 2) fail("invalid_argument", `${where} needs at least two steps to mix`);
    return {
      weights: named,
      seed: whole(fields, "seed", where, 0, seedMax, 0),
      ending: choice(fields, "when-one-ends", where, endings, "stop"),
      ...(fields["records"] === undefined ? {} : { records: whole(fields, "records", where, 1, recordsMax) }),
    };
  },
  namesOf: (settings) => (settings["weights"] as readonly { name: string }[]).map(({ name }) => name),
  gives: (formats, _settings, _facts, where) => sameFormat(formats, where),
  async run({ settings, inputs, kit, where }) {
    const [first] = inputs as [Output];
    const names = first.parts.map(({ name }) => name);
    for (const input of inputs) {
      if (input.parts.map(({ name }) => name).join() !== names.join())
        fail("failed_precondition", `${where}: its inputs are split in different ways: split what comes out instead`);
      if (input.tokens?.tokenizer !== first.tokens?.tokenizer || input.tokens?.vocabulary !== first.tokens?.vocabulary)
        fail("failed_precondition", `${where}: its inputs were tokenised with different vocabularies`);
    }
    const parts: Part[] = [];
    for (const [index, name] of names.entries()) {
      const parted = inputs.map((input) => (input.parts[index] as Part).shards);
      parts.push({ name, shards: await mixPart(name, parted, settings, kit) });
    }
    const { running: _ended, ...rest } = first;
    return { ...rest, parts };
  },
};

async function mixPart(
  name: string,
  inputs: readonly (readonly Shard[])[],
  settings: Readonly<Record<string, unknown>>,
  kit: Kit,
): Promise<Shard[]> {
  const weights = (settings["weights"] as readonly { weight: number }[]).map(({ weight }) => weight);
  const ending = settings["ending"] as Ending;
  const most = (settings["records"] as number | undefined) ?? Number.POSITIVE_INFINITY;
  const key = randomKey("pipeline mix", settings["seed"] as number, name);
  const total = inputs.flat().reduce((sum, { bytes }) => sum + bytes, 0);
  const mixed = await kit.chain<Mixed>(
    `mix ${name}`,
    async function* (recorded) {
      const last = recorded.at(-1);
      if (last?.done) return;
      const readers = inputs.map(
        (shards, i) => new Reader(shards, last?.stands[i] ?? { shard: 0, record: 0, rounds: 0 }, ending, kit),
      );
      let places = last?.places ?? 0;
      for (let done = false; !done; ) {
        const writer = new RecordWriter();
        while (writer.bytes < kit.pieceBytes) {
          const whose = turn(weights, readers, uniformAt(key, places));
          const record = whose === undefined || places >= most ? undefined : await (readers[whose] as Reader).next();
          if (record === undefined) {
            // With "go-on" the others still have theirs; the draw is made anew among them.
            if (whose !== undefined && places < most && ending === "go-on") continue;
            done = true;
            break;
          }
          writer.add(record);
          places++;
          if (ending === "repeat" && readers.every(({ stand }) => stand.rounds > 0)) {
            done = true;
            break;
          }
        }
        const { content, count } = writer.take();
        const shards = await putShard(kit.blobs, content, count);
        const stands = readers.map(({ stand }) => stand);
        yield { result: { shards, places, stands, ...(done && { done: true as const }) }, bytes: content.byteLength };
      }
    },
    total,
  );
  return mixed.flatMap(({ shards }) => shards);
}

/** Whose turn it is among those that have something left. */
function turn(weights: readonly number[], readers: readonly Reader[], draw: number): number | undefined {
  const open = weights.map((weight, i) => (readers[i]?.stand.ended ? 0 : weight));
  const sum = open.reduce((total, weight) => total + weight, 0);
  if (sum === 0) return undefined;
  let left = draw * sum;
  for (const [i, weight] of open.entries()) {
    if (weight > 0 && left < weight) return i;
    left -= weight;
  }
  return open.findLastIndex((weight) => weight > 0);
}

/** The records of one input, one shard in memory. */
class Reader {
  stand: Stand;
  readonly #shards: readonly Shard[];
  readonly #ending: Ending;
  readonly #kit: Kit;
  #records: Uint8Array[] | undefined;

  constructor(shards: readonly Shard[], stand: Stand, ending: Ending, kit: Kit) {
    this.#shards = shards;
    this.stand = stand;
    this.#ending = ending;
    this.#kit = kit;
  }

  async next(): Promise<Uint8Array | undefined> {
    const { shard, record, rounds } = this.stand;
    const at = this.#shards[shard];
    if (at === undefined) return this.#end();
    this.#records ??= [...recordsOf(await this.#kit.blobs.get(at.hash))];
    const found = this.#records[record] as Uint8Array;
    if (record + 1 < this.#records.length) this.stand = { shard, record: record + 1, rounds };
    else {
      this.#records = undefined;
      const again = this.#ending === "repeat" && shard + 1 === this.#shards.length;
      this.stand = again ? { shard: 0, record: 0, rounds: rounds + 1 } : { shard: shard + 1, record: 0, rounds };
    }
    return found;
  }

  #end(): undefined {
    this.stand = { ...this.stand, ended: true };
    return undefined;
  }
}
