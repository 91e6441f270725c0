// How two members find what one of them does not know: digests of everything, heads of the buckets that differ, then the
// news themselves. Whoever answers keeps nothing between the turns.

import { bucketsFor, differing, digestOf, folded } from "./digests.ts";
import type { Known, Member, MemberId, News, Standing } from "./member.ts";
import type { Roster } from "./roster.ts";

export interface Head {
  readonly id: MemberId;
  readonly sequence: number;
  readonly standing: Standing;
}

export interface SyncAsk {
  /** In the first turn. */
  readonly digests?: Uint32Array;
  readonly bucketCount: number;
  readonly buckets: readonly number[];
  readonly heads: readonly Head[];
  readonly news: readonly News[];
}

export interface SyncAnswer {
  readonly digests?: Uint32Array;
  readonly news: readonly News[];
  readonly wanted: readonly MemberId[];
  readonly members: number;
}

/** Members a turn; some 250 KB. A fleet of 10,000 takes a newcomer some 13 turns. */
const membersPerTurn = 800;
/** Whoever answers with ever new differences is left. */
const turnsMax = 64;

/** One comparison as the caller leads it. */
export class Comparison {
  readonly #roster: Roster;
  readonly #self: () => Member;
  #bucketCount: number;
  #left: number[] = [];
  #turns = 0;

  constructor(roster: Roster, self: () => Member) {
    this.#roster = roster;
    this.#self = self;
    this.#bucketCount = bucketsFor(roster.size);
  }

  first(): SyncAsk {
    const digests = digestsWith(this.#roster, this.#self(), this.#bucketCount);
    return { digests, bucketCount: this.#bucketCount, buckets: [], heads: [], news: [] };
  }

  /** After the answer's news were heard. Undefined when all is compared. */
  next(ask: SyncAsk, answer: SyncAnswer): SyncAsk | undefined {
    if (++this.#turns > turnsMax) return undefined;
    if (ask.digests && answer.digests) this.#left = differing(ask.digests, answer.digests);
    const news = answer.wanted.flatMap((id) => this.#newsOf(id));
    const perBucket = Math.max(1, Math.max(answer.members, this.#roster.size) / this.#bucketCount);
    const buckets = this.#left.splice(0, Math.max(1, Math.floor(membersPerTurn / perBucket)));
    if (buckets.length === 0 && news.length === 0) return undefined;
    const heads = buckets.flatMap((bucket) => headsIn(this.#roster, this.#self(), bucket, this.#bucketCount));
    return { bucketCount: this.#bucketCount, buckets, heads, news };
  }

  #newsOf(id: MemberId): News[] {
    if (id === this.#self().id) return [{ kind: "record", member: this.#self() }];
    const known = this.#roster.get(id);
    return known ? newsOf(known, 0) : [];
  }
}

/** What whoever is asked answers, after it has heard the news of the question. */
export function answerSync(roster: Roster, self: Member, ask: SyncAsk): SyncAnswer {
  const digests = ask.digests ? digestsWith(roster, self, ask.bucketCount) : undefined;
  const theirs = new Map(ask.heads.map((head) => [head.id, head]));
  const news: News[] = [];
  const wanted: MemberId[] = [];
  const compare = ({ member, standing, sinceMs }: Known) => {
    const head = theirs.get(member.id);
    theirs.delete(member.id);
    const order = head === undefined ? 1 : compareHeads({ id: member.id, sequence: member.sequence, standing }, head);
    if (order > 0) news.push(...newsOf({ member, standing, sinceMs }, head?.sequence));
    if (order < 0) wanted.push(member.id);
  };
  for (const bucket of ask.buckets) {
    for (const known of roster.inBucket(bucket, ask.bucketCount)) compare(known);
    if (bucketOf(self, ask.bucketCount) === bucket) compare({ member: self, standing: "alive", sinceMs: 0 });
  }
  for (const { id, standing } of theirs.values()) if (standing === "alive" || standing === "suspect") wanted.push(id);
  return { ...(digests && { digests }), news, wanted, members: roster.size + 1 };
}

/** Positive if the first is newer. The dead are newer than the living of the same sequence. */
function compareHeads(one: Head, other: Head): number {
  return one.sequence - other.sequence || Number(isGone(one.standing)) - Number(isGone(other.standing));
}

function isGone(standing: Standing): boolean {
  return standing === "dead" || standing === "left";
}

/** `known`: the sequence that the other one has already. */
function newsOf({ member, standing }: Known, known?: number): News[] {
  // Whoever never knew the living need not hear of the dead.
  if (isGone(standing) && known === undefined) return [];
  const record: News[] = known === member.sequence ? [] : [{ kind: "record", member }];
  if (standing !== "dead") return record;
  return [...record, { kind: "dead", id: member.id, sequence: member.sequence, by: member.place }];
}

function headsIn(roster: Roster, self: Member, bucket: number, count: number): Head[] {
  const heads: Head[] = [];
  for (const { member, standing } of roster.inBucket(bucket, count))
    heads.push({ id: member.id, sequence: member.sequence, standing });
  if (bucketOf(self, count) === bucket) heads.push({ id: self.id, sequence: self.sequence, standing: "alive" });
  return heads;
}

function bucketOf({ place }: Member, count: number): number {
  return place >>> (32 - Math.log2(count));
}

/** A member knows itself too, though its roster does not. */
function digestsWith(roster: Roster, self: Member, count: number): Uint32Array {
  const digests = folded(roster.digests, count);
  const bucket = bucketOf(self, count);
  digests[bucket] = (digests[bucket] as number) ^ digestOf(self.place, self.sequence);
  return digests;
}
