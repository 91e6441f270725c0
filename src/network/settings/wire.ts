// A session's settings as messages: as clients see them, and as PNodes are told them. The shapes are those of the
// messages in proto/dcnr/v1, so that both ends use the generated types as they are; what a PNode reads is checked here,
// before anything is built on it.

import { parseSha256 } from "../../core/ids.ts";
import { whyNoLanes } from "../lanes.ts";
import {
  type Assurance,
  type LearningRate,
  roundRules,
  type SessionIdentity,
  type SessionPolicy,
  type SessionSettings,
} from "./session.ts";
import {
  checkedChoice,
  checkedNumber,
  settingFields as fields,
  type NumberField,
  type Refuse,
  refuseTold,
} from "./setting-fields.ts";

/** The message LearningRate. */
interface WireRate extends Omit<LearningRate, "schedule" | "warmupSteps"> {
  readonly schedule: string;
  readonly warmupSteps: bigint;
}

/** The message SessionIdentity: the same fields, with whole numbers that may be large as bigint. */
export interface WireIdentity
  extends Omit<
    SessionIdentity,
    "definition" | "dataset" | "steps" | "seed" | "numerics" | "learningRate" | "lanes" | "sync"
  > {
  readonly definition: string;
  readonly dataset: string;
  readonly steps: bigint;
  readonly seed: bigint;
  readonly numerics: string;
  readonly learningRate?: WireRate | undefined;
  /** 0: one. */
  readonly lanes: number;
  /** 0: no rounds. */
  readonly syncEvery: number;
  readonly syncAfter: bigint;
}

/** The message TrainingWork. */
export interface WireTraining {
  readonly identity?: WireIdentity | undefined;
  readonly checkpointEvery: number;
  readonly roundCheckpoints?: string;
  readonly assurance: string;
  readonly restAfter?: number;
  readonly elastic?: string;
}

/** What a PNode is told of a training. */
export interface ToldTraining
  extends Pick<SessionPolicy, "checkpointEvery" | "roundCheckpoints" | "restAfter" | "elastic"> {
  readonly identity: SessionIdentity;
  readonly assurance: Assurance;
}

/** The message SessionSettings, as a client could ask for the same session again. */
export function settingsToWire({ identity, policy, requirements }: SessionSettings) {
  const { definition, bits, dataset, ...asked } = identityToWire(identity);
  const { gpuMemoryBytes, memoryBytes, ...rest } = requirements;
  const { roundCheckpoints, checkpointEvery, ...wanted } = policy;
  return {
    ...asked,
    ...wanted,
    // Both follow from the network where nobody said how often.
    checkpointEvery: roundCheckpoints === undefined ? checkpointEvery : 0,
    budget: BigInt(policy.budget ?? 0),
    maxRuntimeSeconds: requirements.maxRuntimeSeconds,
    requirements: { ...rest, gpuMemoryBytes: BigInt(gpuMemoryBytes), memoryBytes: BigInt(memoryBytes) },
  };
}

export function identityToWire(identity: SessionIdentity): WireIdentity & { readonly learningRate: WireRate } {
  const { steps, seed, learningRate, lanes = 0, sync, ...same } = identity;
  return {
    ...same,
    lanes,
    syncEvery: sync?.every ?? 0,
    syncAfter: BigInt(sync?.after ?? 0),
    steps: BigInt(steps),
    seed: BigInt(seed),
    learningRate: { ...learningRate, warmupSteps: BigInt(learningRate.warmupSteps) },
  };
}

export function trainingToWire({ identity, policy }: Pick<SessionSettings, "identity" | "policy">) {
  const { checkpointEvery, roundCheckpoints = "", assurance = "none", restAfter = 0, elastic = "off" } = policy;
  return { identity: identityToWire(identity), checkpointEvery, roundCheckpoints, assurance, restAfter, elastic };
}

/** Fails with `data_loss` for what no orchestrator that is right would say. */
export function trainingFromWire(
  { identity, checkpointEvery, roundCheckpoints = "", assurance, restAfter = 0, elastic = "" }: WireTraining,
  session: string,
): ToldTraining {
  const refuse = refuseTold(session);
  if (roundCheckpoints !== "" && roundCheckpoints !== "ends")
    refuse(`states of rounds are to be stored at "${roundCheckpoints}"`);
  return {
    identity: identityFromWire(identity ?? refuse("there are none"), refuse),
    checkpointEvery: checkedNumber(fields.checkpointEvery, checkpointEvery, refuse),
    ...(roundCheckpoints === "ends" && { roundCheckpoints: "ends" as const }),
    assurance: assurance === "" ? "none" : checkedChoice(fields.assurance, assurance, refuse),
    ...(restAfter > 0 && { restAfter: checkedNumber(fields.steps, restAfter, refuse) }),
    ...(elastic !== "" && checkedChoice(fields.elastic, elastic, refuse) === "on" && { elastic: "on" as const }),
  };
}

function identityFromWire(wire: WireIdentity, refuse: Refuse): SessionIdentity {
  const number = (field: NumberField, given: number | bigint) => checkedNumber(field, given, refuse);
  const { batch, microbatches, validateEvery, validationMicrobatches } = wire;
  const rate = wire.learningRate ?? refuse("there is no learning rate");
  if (batch % microbatches !== 0) refuse(`a batch of ${batch} has no ${microbatches} equal microbatches`);
  const identity: SessionIdentity = {
    definition: parseSha256(wire.definition, "the definition"),
    dataset: parseSha256(wire.dataset, "the dataset"),
    split: wire.split,
    validationSplit: wire.validationSplit,
    steps: number(fields.steps, wire.steps),
    batch: number(fields.batch, batch),
    microbatches: number(fields.microbatches, microbatches),
    ...(wire.lanes > 1 && { lanes: number(fields.lanes, wire.lanes) }),
    ...(wire.syncEvery > 0 && {
      sync: {
        ...{ every: number(fields.syncEvery, wire.syncEvery), after: number(fields.syncAfter, wire.syncAfter) },
        rules: roundRules,
      },
    }),
    seed: number(fields.seed, wire.seed),
    numerics: checkedChoice(fields.numerics, wire.numerics, refuse),
    bits: wire.bits,
    learningRate: {
      schedule: checkedChoice(fields.schedule, rate.schedule, refuse),
      base: number(fields.rate, rate.base),
      warmupSteps: number(fields.warmup, rate.warmupSteps),
      finalShare: number(fields.finalShare, rate.finalShare),
    },
    clipNorm: number(fields.clipNorm, wire.clipNorm),
    validateEvery: number(fields.validateEvery, validateEvery),
    validationMicrobatches:
      validateEvery > 0 ? number(fields.validationMicrobatches, validationMicrobatches) : validationMicrobatches,
    initialState: wire.initialState,
  };
  const why = whyNoLanes(identity);
  return why === undefined ? identity : refuse(why);
}

/** The numerics that the VNodes of a served model are told. */
export function numericsFromWire(name: string, session: string): Exclude<SessionIdentity["numerics"], "mixed"> {
  const numerics = checkedChoice(fields.numerics, name, refuseTold(session));
  return numerics === "mixed" ? refuseTold(session)("only lanes that learn have mixed numerics") : numerics;
}
