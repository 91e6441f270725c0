// What membership knows of somebody: the record that its subject signed, as checked once where it came in, and how it stands.
// Values here never change; whoever learns more makes new ones.

import type { KeyId } from "../core/ids.ts";
import type { SignedRecord } from "../protocol/gen/dcnr/v1/gossip_pb.ts";

/** Of a PNode its key's, of an orchestrator one of its own. */
export type MemberId = string;

export type MemberRole = "pnode" | "relay" | "orchestrator";

/** What a member tells of itself; all but `load` is told anew as soon as it changes. */
export interface Facts {
  readonly name: string;
  /** How others call it; empty if nobody can. Opaque here. */
  readonly routes: readonly string[];
  readonly roles: readonly MemberRole[];
  /** Classes of the engines that it runs. */
  readonly numerics: readonly string[];
  readonly cores: number;
  readonly memoryBytes: number;
  readonly gflops: number;
  /** 0 to 1, kept in eighths. */
  readonly load: number;
  readonly region: string;
}

/** A record whose signature and permit were found good. */
export interface Member extends Facts {
  readonly id: MemberId;
  /** By which callers are known: its own first one, or the network's. */
  readonly key: KeyId;
  /** From the first one on; whoever answers at its routes must hold the last, or an heir of it. */
  readonly keys: readonly KeyId[];
  readonly sequence: number;
  readonly incarnation: string;
  readonly protocol: { readonly major: number; readonly minor: number };
  readonly leaving: boolean;
  /** Where it stands in the ring, 32 bits of its id's hash: nobody chooses its neighbours cheaply. */
  readonly place: number;
  /** Of the permit, in seconds since 1970; never for orchestrators. */
  readonly permittedUntil: number;
  /** As it travels. */
  readonly signed: SignedRecord;
  /** How long that is. */
  readonly bytes: number;
}

export type Standing = "alive" | "suspect" | "dead" | "left";

export interface Known {
  readonly member: Member;
  readonly standing: Standing;
  /** On the monotonic clock of whoever knows it. */
  readonly sinceMs: number;
}

/** What members tell each other: a record of a subject, or that somebody did not answer. */
export type News = RecordNews | Accusation;

export interface RecordNews {
  readonly kind: "record";
  readonly member: Member;
}

export interface Accusation {
  readonly kind: "suspect" | "dead";
  readonly id: MemberId;
  /** Of the record that is accused: a greater one is the refutation. */
  readonly sequence: number;
  /** The accuser's place. */
  readonly by: number;
}

export function idOfNews(news: News): MemberId {
  return news.kind === "record" ? news.member.id : news.id;
}

/** On the wire, to within a few bytes: what budgets are counted with. */
export function bytesOfNews(news: News): number {
  return news.kind === "record" ? news.member.bytes + 6 : news.id.length + 17;
}

/** Whether it takes part: one that was accused has not answered for itself yet. */
export function isHere(standing: Standing): boolean {
  return standing === "alive" || standing === "suspect";
}
