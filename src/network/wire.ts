// A session's settings as PNodes are told them. The shapes are those of the messages in proto/dcnr/v1/pnode.proto, so
// that both ends use the generated types as they are; what a PNode reads is checked here, before anything is built on it.

import { fail } from "../core/errors.ts";
import { parseSha256 } from "../core/ids.ts";
import type { LearningRate, SessionIdentity } from "./session.ts";

/** The message SessionIdentity: the same fields, with whole numbers that may be large as bigint. */
export interface WireIdentity
  extends Omit<SessionIdentity, "definition" | "dataset" | "steps" | "seed" | "numerics" | "learningRate"> {
  readonly definition: string;
  readonly dataset: string;
  readonly steps: bigint;
  readonly seed: bigint;
  readonly numerics: string;
  readonly learningRate?:
    | (Omit<LearningRate, "schedule" | "warmupSteps"> & { readonly schedule: string; readonly warmupSteps: bigint })
    | undefined;
}

export function identityToWire(identity: SessionIdentity): WireIdentity {
  const { steps, seed, learningRate, ...same } = identity;
  return {
    ...same,
    steps: BigInt(steps),
    seed: BigInt(seed),
    learningRate: { ...learningRate, warmupSteps: BigInt(learningRate.warmupSteps) },
  };
}

/** Fails with `data_loss` for what no orchestrator that is right would say. */
export function identityFromWire(wire: WireIdentity | undefined, session: string): SessionIdentity {
  const rate = wire?.learningRate;
  if (wire === undefined || rate === undefined)
    fail("data_loss", `the settings of session ${session} hold no identity`);
  const { steps, batch, microbatches, seed } = wire;
  if (
    steps < 1n ||
    steps > BigInt(Number.MAX_SAFE_INTEGER) ||
    batch < 1 ||
    microbatches < 1 ||
    batch % microbatches > 0
  )
    fail("data_loss", `the settings of session ${session} lack steps, batch or microbatches`);
  return {
    definition: parseSha256(wire.definition, "the definition"),
    dataset: parseSha256(wire.dataset, "the dataset"),
    split: wire.split,
    validationSplit: wire.validationSplit,
    steps: Number(steps),
    batch,
    microbatches,
    seed: Number(seed),
    numerics: numericsFrom(wire.numerics, session),
    bits: wire.bits,
    learningRate: {
      schedule: scheduleFrom(rate.schedule, session),
      base: rate.base,
      warmupSteps: Number(rate.warmupSteps),
      finalShare: rate.finalShare,
    },
    clipNorm: wire.clipNorm,
    validateEvery: wire.validateEvery,
    validationMicrobatches: wire.validationMicrobatches,
    initialState: wire.initialState,
  };
}

export function numericsFrom(name: string, session: string): SessionIdentity["numerics"] {
  if (name === "native" || name === "portable" || name === "reference") return name;
  fail("data_loss", `session ${session} asks for the numerics "${name}", which nobody knows`);
}

function scheduleFrom(name: string, session: string): LearningRate["schedule"] {
  if (name === "constant" || name === "cosine") return name;
  fail("data_loss", `session ${session} asks for the schedule "${name}", which nobody knows`);
}
