// The settings of a training session and its identity: the hash of everything that decides its bits.

import { canonicalJson, sha256 } from "../core/hash.ts";
import type { SessionId, Sha256 } from "../core/ids.ts";

export interface LearningRate {
  readonly schedule: "constant" | "cosine";
  readonly base: number;
  readonly warmupSteps: number;
  /** Where the cosine ends, as a share of `base`. */
  readonly finalShare: number;
}

/** What decides the bits of a session. Nothing about placement, owners or time may stand here. */
export interface SessionIdentity {
  /** SHA-256 of the network definition's text. */
  readonly definition: Sha256;
  /** SHA-256 of the dataset's manifest. */
  readonly dataset: Sha256;
  readonly split: string;
  readonly validationSplit: string;
  readonly steps: number;
  readonly batch: number;
  readonly microbatches: number;
  readonly seed: number;
  readonly numerics: "native" | "portable" | "reference";
  /** Engine and graph rules that decide bits; bumped when they change. */
  readonly operatorSet: string;
  readonly learningRate: LearningRate;
  /** 0: no clipping. */
  readonly clipNorm: number;
  /** Validation before every N-th step and after the last; 0: never. */
  readonly validateEvery: number;
  /** Microbatches of one validation. */
  readonly validationMicrobatches: number;
  /** SHA-256 of a state to start from; empty for weights from the seed. */
  readonly initialState: string;
}

/** How a session is run; changes speed and safety, never bits. */
export interface SessionPolicy {
  readonly checkpointEvery: number;
  readonly replicas: number;
}

export interface SessionDescription {
  readonly identity: SessionIdentity;
  readonly policy: SessionPolicy;
}

export function sessionIdOf(identity: SessionIdentity, name: string): SessionId {
  const hash = sha256(canonicalJson(identity));
  return `${name}-${hash.slice(0, 12)}` as SessionId;
}
