// What a conductor is asked for, what it needs of the machine it is on, and what it tells of itself.

import type { World } from "../../core/world.ts";
import type { ChoiceWish } from "../../models/choosing.ts";
import type { RecordedRow } from "./answer-rows.ts";
import type { Drafter } from "./drafter.ts";
import type { GuessCount, GuessKind } from "./guessing.ts";
import type { Pass } from "./pass.ts";
import type { Pooling } from "./pooling.ts";

export interface TokenRequest extends ChoiceWish {
  readonly prompt: readonly number[];
  /** Tokens that an earlier conductor has sent: read, not chosen again. */
  readonly sent: readonly number[];
  readonly maxTokens: number;
  /** Which of the model's adapters answers; absent: none. */
  readonly adapter?: number;
}

export interface EmbedRequest {
  readonly prompt: readonly number[];
  readonly pooling: Pooling;
  readonly adapter?: number;
}

export interface ConductorOptions {
  readonly pnode: string;
  /** Of the head's ownership. */
  readonly epoch: number;
  /** Positions that prompt and answer must fit into. */
  readonly context: number;
  /** Positions of all requests together, as many as there is memory for. */
  readonly positionsMax: number;
  readonly world: World;
  /** Sends token ids to the VNodes that take them. */
  readonly feed: (pass: Pass, ids: Int32Array) => void;
  /** What a pass takes of the machine that the head is on; 0 while nobody knows. */
  readonly stageMs: () => number;
  /** A small model beside the head; undefined where there is none, or none yet. */
  readonly drafter?: () => Drafter | undefined;
  /** Names requests: no two under one epoch alike, also where a conductor follows another one. */
  readonly nextRequest: () => number;
  /** Hears what logits were chosen from, where answers are checked. */
  readonly onLogits?: (row: RecordedRow, logits: Float32Array) => void;
  /** Ways to be faster that change no answer; both are on unless a test compares. */
  readonly without?: readonly ("drafts" | "prefixes")[];
}

/** Of the metrics of a served model. */
export interface ConductorLoad {
  readonly active: number;
  readonly waiting: number;
  readonly inFlight: number;
  /** Since it began. */
  readonly guesses: Readonly<Record<GuessKind, GuessCount>>;
  readonly sharedPositions: number;
}
