// An answer as it was given, whoever repeats it, and what it takes to ask them.

import type { ReplicaId } from "../../core/ids.ts";
import type { ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { Network, RequestInit } from "../../protocol/network.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Candidate } from "../trust/asking.ts";
import type { Auditors } from "../trust/auditors.ts";
import type { Standings } from "../trust/standings.ts";
import type { Repeated, Ring } from "./judging.ts";

export type Asked = RequestInit<typeof ServingService.method.generateTokens>;

/** An answer as it was given, with whoever gave it. */
export interface GivenAnswer {
  readonly model: string;
  readonly replica: ReplicaId;
  readonly asked: Asked;
  readonly answer: readonly number[];
  readonly finish: string;
  /** What its machines call it; empty where several owners of the head had part in it. */
  readonly request: string;
  /** Who made up the replica when it began. */
  readonly ring: Ring | undefined;
}

export interface AnswerNeeds {
  readonly network: Network;
  readonly compiled: Compiled;
  readonly rooms: Rooms;
  readonly auditors: Auditors;
  readonly standings: Standings;
  readonly presence: Pick<Presence, "alive">;
}

/** A slow machine reads a long answer within it. */
export const repeatMs = 300_000;

/** Somebody who repeated an answer. */
export interface Repetition extends Candidate {
  readonly found: Repeated;
}

/** An answer without a token says something only if the model ended it: somebody may have stopped reading. */
export function canBeRepeated({ answer, finish }: GivenAnswer): boolean {
  return answer.length > 0 || finish === "stop";
}
