// The recovery line and the step roots, as pure functions of the VNode records.

import { sha256 } from "../../core/hash.ts";
import type { Sha256, VNodeId } from "../../core/ids.ts";
import { laneOf } from "../../network/lanes.ts";
import { isCommon, lanesAt, lineFrom, type ToldRound } from "../../network/rounds.ts";
import type { SessionIdentity } from "../../network/settings/session.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { StepRecord } from "../records/vnodes.ts";
import type { VNodeRecords } from "../records/workloads.ts";

/** True where records say what lanes do in rounds. */
export function isElastic(session: SessionRecord): session is ElasticSession {
  return session.policy.elastic === "on" && session.identity.sync !== undefined;
}

export type ElasticSession = SessionRecord & {
  readonly identity: SessionIdentity & Required<Pick<SessionIdentity, "sync">>;
};

/** What its machines are told of rounds, by round. */
export function roundsOf({ rounds = [] }: SessionRecord): ReadonlyMap<number, ToldRound> {
  return new Map(rounds.map((one) => [one.round, one]));
}

/** The VNodes whose own states make up the session after a step. */
export function vnodesAt(session: SessionRecord, step: number): readonly VNodeId[] {
  if (!isElastic(session)) return session.vnodes;
  const lanes = lanesAt(session.identity, roundsOf(session), step) ?? [];
  return session.vnodes.filter((id) => lanes.includes(laneOf(id)));
}

/** The same for lanes of which some may have no part in a round. It goes on from what was the line, if that is still whole. */
function elasticLine(session: SessionRecord, records: VNodeRecords): number {
  const rounds = roundsOf(session);
  const isStored = (lane: number, step: number) =>
    session.vnodes.every((id) => laneOf(id) !== lane || records.get(id)?.durable[String(step)] !== undefined);
  const isWhole = (step: number) =>
    step === 0 || lanesAt(session.identity, rounds, step)?.every((lane) => isStored(lane, step)) === true;
  const from = [session.line, session.lineBefore].find(isWhole) ?? 0;
  const stored = new Set([...records.values()].flatMap(({ durable }) => Object.keys(durable).map(Number)));
  return lineFrom(session.identity, rounds, from, [...stored], isStored);
}

/** Newest step that is durable at every VNode: not the least of the newest ones, which may be durable nowhere else. */
export function recoveryLine(session: SessionRecord, records: VNodeRecords): number {
  if (isElastic(session)) return elasticLine(session, records);
  const [first, ...others] = session.vnodes.map((id) => records.get(id));
  if (!first || others.includes(undefined)) return 0;
  const steps = Object.keys(first.durable)
    .map(Number)
    .sort((a, b) => b - a);
  const line = steps.find((step) => others.every((record) => record?.durable[String(step)] !== undefined));
  return line ?? 0;
}

/** Roots of those steps in (after, upTo] for which every VNode that makes it up has told its hash. */
export function stepRoots(
  session: SessionRecord,
  records: VNodeRecords,
  after: number,
  upTo: number,
): StepRecord["roots"] {
  const roots: { step: number; root: Sha256 }[] = [];
  for (let step = after + 1; step <= upTo; step++) {
    // Of lanes that are apart it may not be known yet whose work counts.
    if (isElastic(session) && !isCommon(session.identity, step)) continue;
    const hashes = vnodesAt(session, step).map((id) => records.get(id)?.stepHashes[String(step)]);
    if (hashes.length === 0 || hashes.includes(undefined)) continue;
    roots.push({ step, root: stepRoot(hashes as string[]) });
  }
  return roots;
}

/** Of all VNodes' step hashes, in id order. */
export function stepRoot(hashesInIdOrder: readonly string[]): Sha256 {
  return sha256(...hashesInIdOrder);
}
