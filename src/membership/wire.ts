// Messages of membership between this software's own values and the wire. What comes in is bounded before it is looked at,
// and records are judged a few at a time, so that a long list of them holds nobody up.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { sameBytes, textOf } from "../core/bytes.ts";
import { fail } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import { sleep, type Timers } from "../core/world.ts";
import {
  MemberStanding,
  type NewsSchema,
  type SignedRecord,
  type SyncRequest,
  type SyncResponse,
  type Head as WireHead,
  type News as WireNews,
} from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import { digestsMax, isBucketCount } from "./digests.ts";
import type { Member, MemberId, News, Standing } from "./member.ts";
import { type Judge, judge, recordLimits } from "./records.ts";
import type { Head, SyncAnswer, SyncAsk } from "./sync.ts";

/** In one message: more than any turn of Sync holds. */
const newsMax = 4_096;
const headsMax = 16_384;

const standings: Readonly<Record<Standing, MemberStanding>> = {
  alive: MemberStanding.ALIVE,
  suspect: MemberStanding.SUSPECT,
  dead: MemberStanding.DEAD,
  left: MemberStanding.LEFT,
};
const standingNames = new Map(Object.entries(standings).map(([name, number]) => [number, name as Standing]));

export function standingToWire(standing: Standing): MemberStanding {
  return standings[standing];
}

export function newsToWire(news: readonly News[]): MessageInitShape<typeof NewsSchema>[] {
  return news.map((one) =>
    one.kind === "record"
      ? { news: { case: "record", value: one.member.signed } }
      : {
          news: {
            case: "accusation",
            value: { id: one.id, sequence: one.sequence, dead: one.kind === "dead", by: one.by },
          },
        },
  );
}

/** How many signatures are judged before others get their turn: some milliseconds. */
const judgedAtOnce = 32;

export interface ReaderHooks {
  /** By which permits end. */
  nowSeconds(): number;
  /** For a log. */
  onRefused(why: string): void;
}

/** Judges records; the same bytes, which come from many sides, once. */
export class Reader {
  readonly #judge: Judge;
  readonly #timers: Timers;
  readonly #known: (id: MemberId) => Member | undefined;
  readonly #hooks: ReaderHooks;

  constructor(judge: Judge, timers: Timers, known: (id: MemberId) => Member | undefined, hooks: ReaderHooks) {
    this.#judge = judge;
    this.#timers = timers;
    this.#known = known;
    this.#hooks = hooks;
  }

  async news(wire: readonly WireNews[]): Promise<News[]> {
    if (wire.length > newsMax) fail("invalid_argument", `${wire.length} news in one message: at most ${newsMax}`);
    const news: News[] = [];
    let judged = 0;
    for (const { news: one } of wire) {
      if (one.case === "record") {
        const before = this.#seen(one.value);
        if (before === undefined) judged += 2 + one.value.former.length;
        if (judged >= judgedAtOnce) {
          judged = 0;
          await sleep(this.#timers, 0);
        }
        const member = before ?? this.record(one.value);
        if (member !== undefined) news.push({ kind: "record", member });
      } else if (one.case === "accusation" && one.value.id.length <= recordLimits.idLengthMax) {
        const { id, sequence, dead, by } = one.value;
        news.push({ kind: dead ? "dead" : "suspect", id, sequence, by });
      }
    }
    return news;
  }

  record(signed: SignedRecord): Member | undefined {
    const judged = judge(signed, this.#judge);
    const why = typeof judged === "string" ? judged : (this.#endOf(judged) ?? this.#replaced(judged));
    if (why === undefined) return judged as Member;
    this.#hooks.onRefused(why);
    return undefined;
  }

  #endOf({ permittedUntil }: Member): string | undefined {
    return permittedUntil < this.#hooks.nowSeconds() ? "its permit has ended" : undefined;
  }

  /** Whoever has seen a newer key of a machine takes nothing from the one before. */
  #replaced({ id, keys }: Member): string | undefined {
    const known = this.#known(id);
    const isHeir =
      known === undefined || known.roles.includes("orchestrator") || keys.includes(known.keys.at(-1) as KeyId);
    return isHeir ? undefined : "the key that has signed it was replaced";
  }

  /** Two records with one signature under one key are the same. */
  #seen(signed: SignedRecord): Member | undefined {
    const id = idIn(signed.record);
    const known = id === undefined ? undefined : this.#known(id);
    if (known === undefined) return undefined;
    const isSame =
      sameBytes(known.signed.signature, signed.signature) &&
      sameBytes(known.signed.record, signed.record) &&
      sameBytes(known.signed.publicKey, signed.publicKey);
    return isSame ? known : undefined;
  }
}

/** The id is the first field of a record as this software writes it. */
function idIn(record: Uint8Array): string | undefined {
  const length = record[1] ?? 0;
  if (record[0] !== 0x0a || length > recordLimits.idLengthMax || record.length < 2 + length) return undefined;
  return textOf(record.subarray(2, 2 + length));
}

export function syncToWire({ digests, bucketCount, buckets, heads, news }: SyncAsk) {
  return {
    digests: digests ? digestBytes(digests) : new Uint8Array(),
    bucketCount,
    buckets: [...buckets],
    heads: heads.map(({ id, sequence, standing }) => ({ id, sequence, standing: standings[standing] })),
    news: newsToWire(news),
  };
}

/** All but the news, which are judged for themselves. */
export function syncFromWire({ digests, bucketCount, buckets, heads }: SyncRequest): Omit<SyncAsk, "news"> {
  if (!isBucketCount(bucketCount))
    fail("invalid_argument", `${bucketCount} buckets: a power of two up to ${digestsMax}`);
  if (buckets.length > bucketCount || buckets.some((bucket) => bucket >= bucketCount))
    fail("invalid_argument", "the question names buckets that do not exist");
  if (heads.length > headsMax) fail("invalid_argument", `${heads.length} heads in one message: at most ${headsMax}`);
  if (digests.length !== 0 && digests.length !== 4 * bucketCount) fail("invalid_argument", "digests of another length");
  return {
    ...(digests.length > 0 && { digests: digestsOf(digests) }),
    bucketCount,
    buckets: [...new Set(buckets)],
    heads: heads.flatMap(headOf),
  };
}

export function answerToWire({ digests, news, wanted, members }: SyncAnswer) {
  return {
    digests: digests ? digestBytes(digests) : new Uint8Array(),
    news: newsToWire(news),
    wanted: [...wanted],
    members,
  };
}

/** All but the news. `ask` is what was asked: an answer in another measure is refused. */
export function answerFromWire({ digests, wanted, members }: SyncResponse, ask: SyncAsk): Omit<SyncAnswer, "news"> {
  if (digests.length !== 0 && digests.length !== 4 * ask.bucketCount)
    fail("data_loss", "digests of another length than asked for");
  if (wanted.length > headsMax) fail("data_loss", `${wanted.length} members are wanted: at most ${headsMax}`);
  return { ...(digests.length > 0 && { digests: digestsOf(digests) }), wanted, members };
}

function headOf({ id, sequence, standing }: WireHead): Head[] {
  const name = standingNames.get(standing);
  return name === undefined || id.length > recordLimits.idLengthMax ? [] : [{ id, sequence, standing: name }];
}

function digestBytes(digests: Uint32Array): Uint8Array {
  const bytes = new Uint8Array(4 * digests.length);
  const view = new DataView(bytes.buffer);
  for (const [index, digest] of digests.entries()) view.setUint32(4 * index, digest, true);
  return bytes;
}

function digestsOf(bytes: Uint8Array): Uint32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Uint32Array.from({ length: bytes.byteLength / 4 }, (_, index) => view.getUint32(4 * index, true));
}
