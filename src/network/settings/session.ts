// The settings of a training session and its identity: the hash of everything that decides its bits.

import { canonicalJson, sha256 } from "../../core/hash.ts";
import type { SessionId, Sha256 } from "../../core/ids.ts";
import { cos } from "../../core/numbers/math.ts";

export interface LearningRate {
  readonly schedule: "constant" | "cosine";
  readonly base: number;
  readonly warmupSteps: number;
  /** Where the cosine ends, as a share of `base`. */
  readonly finalShare: number;
}

export interface RoundSettings {
  /** Steps of a round: so many each lane takes by itself before what they learned is put together. */
  readonly every: number;
  /** Steps before the first round, in which lanes add every gradient up. */
  readonly after: number;
  /** Version of what a round is: sessions of another one are other sessions. */
  readonly rules?: number;
}

/** Since 2 the common step at a round's end is a step of its own. */
export const roundRules = 2;

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
  /** Copies of the pipeline, each with its share of every batch; absent: one. */
  readonly lanes?: number;
  /** Lanes learn apart for some steps at a time; absent: they add every gradient up. */
  readonly sync?: RoundSettings;
  readonly seed: number;
  /** `mixed`: each lane computes each round in a class of its own, which the round's plan names. */
  readonly numerics: "native" | "portable" | "reference" | "webgpu" | "cuda" | "exact" | "mixed";
  /** Version of the bits (`core/bits.ts`) that everybody who works for the session computes. */
  readonly bits: number;
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
  /**
   * In rounds states are stored at their ends alone: in between each lane has weights of its own, and storing these would send what rounds
   * are there to save; absent: every `checkpointEvery` steps there, too.
   */
  readonly roundCheckpoints?: "ends";
  readonly replicas: number;
  /** PNodes to use at least; absent: as many as make it fast. */
  readonly spread?: number;
  /** Credits that it may spend; absent: no bound. */
  readonly budget?: number;
  /** PNodes hold each other's states and go on while no orchestrator is there; absent: they wait for one. */
  readonly autonomy?: "on";
  /** Lanes take as many steps of a round as they are fast, and rounds close without late ones; absent: all take the same. */
  readonly elastic?: "on";
  /** It may go on in another numerics class when no machine of its own is left; absent: it waits for one. */
  readonly eras?: "on";
  /** How far results are checked; absent: not at all. */
  readonly assurance?: Assurance;
  /** No state is recorded that its optimizer could not have come to from the one before; absent: nobody looks. */
  readonly cap?: "on";
  /** With `checked`: how many strangers repeat each interval; absent: one. */
  readonly strangers?: number;
  /** No step after this one is begun until whoever runs it has looked at it; absent: it runs to its end. */
  readonly restAfter?: number;
}

/**
 * `none`: nothing is signed or repeated. `sampled`: some intervals are repeated by strangers, which finds liars. `checked`:
 * every one by strangers. `proven`: every one by a trusted machine.
 */
export type Assurance = "none" | "sampled" | "checked" | "proven";

/** What the PNodes of a session must have, and when it ends or gives way. */
export interface SessionRequirements {
  readonly gpus: number;
  readonly gpuMemoryBytes: number;
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly region: string;
  /** Where its PNodes come from; absent: from anywhere. */
  readonly provider?: string;
  readonly trust: string;
  readonly maxPricePerHour: number;
  readonly maxRuntimeSeconds: number;
  readonly priority: number;
}

/** The settings of a session, whole: its record holds them so, and messages are made of them (wire.ts). */
export interface SessionSettings {
  readonly identity: SessionIdentity;
  readonly policy: SessionPolicy;
  readonly requirements: SessionRequirements;
}

/** What a VNode computes by. */
export type LearningSettings = Pick<
  SessionIdentity,
  "seed" | "steps" | "batch" | "microbatches" | "learningRate" | "clipNorm" | "validationMicrobatches" | "sync"
>;

/** Samples of one microbatch. */
export function samplesOf({ batch, microbatches }: Pick<SessionIdentity, "batch" | "microbatches">): number {
  return batch / microbatches;
}

export function sessionIdOf(identity: SessionIdentity, name: string): SessionId {
  return `${name}-${shortHash(identity)}` as SessionId;
}

/** Whoever works for a session checks this: settings that were changed on the way belong to another id. */
export function isIdentityOf(session: SessionId, identity: SessionIdentity): boolean {
  return session.endsWith(`-${shortHash(identity)}`);
}

function shortHash(identity: SessionIdentity): string {
  return sha256(canonicalJson(identity)).slice(0, 12);
}

/** The rate of update `step`, counted from 0: a linear warm-up, then constant or half a cosine to its end. */
export function learningRateAt(
  { learningRate, steps }: Pick<SessionIdentity, "learningRate" | "steps">,
  step: number,
): number {
  const { schedule, base, warmupSteps, finalShare } = learningRate;
  if (step < warmupSteps) return (base * (step + 1)) / warmupSteps;
  if (schedule === "constant") return base;
  const progress = Math.min(1, (step - warmupSteps) / Math.max(1, steps - warmupSteps));
  return base * (finalShare + (1 - finalShare) * 0.5 * (1 + cos(Math.PI * progress)));
}

/** What differs between two identities, one sentence each: why a session cannot be resumed as another. */
export function differences(before: SessionIdentity, now: SessionIdentity): string[] {
  const sentences: string[] = [];
  const compare = (path: string, a: unknown, b: unknown) => {
    if (canonicalJson(a ?? null) === canonicalJson(b ?? null)) return;
    if (isRecord(a) && isRecord(b)) {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)]))
        compare(path === "" ? key : `${path}.${key}`, a[key], b[key]);
    } else sentences.push(`${path} was ${shown(a)}, now ${shown(b)}`);
  };
  compare("", before, now);
  return sentences;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? "absent";
  return json.length > 20 ? `${json.slice(0, 13)}..."` : json;
}
