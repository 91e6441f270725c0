// What a client asks for, turned into a session's identity, policy and requirements: defaults filled in, every
// value checked, so that nothing odd reaches a PNode.

import { bits } from "../../core/bits.ts";
import { DcnrError, fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import { samplesOfSplit } from "../../data/datasets.ts";
import type { Manifest } from "../../data/manifest.ts";
import { ruleOf } from "../../data/order.ts";
import type { Plan } from "../../network/plan.ts";
import type { SessionIdentity, SessionPolicy } from "../../network/session.ts";
import type { SessionSettings } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { SessionRequirements } from "../records/records.ts";

const defaults = { batch: 32, microbatches: 4, checkpointEvery: 20, seed: 1, rate: 0.001 };
/** Step hashes between two checkpoints must fit into a record of the store. */
const checkpointEveryMax = 1_000;
const stepsMax = 100_000_000;
const batchMax = 65_536;
const replicasMax = 5;
const spreadMax = 100_000;
/** All tie and activation messages of a step carry a microbatch index of 15 bits on the wire at most. */
const microbatchesMax = 1_024;
/** Enough samples for two digits of an accuracy; more would only make validations slow. */
const validationSamplesMost = 1_024;
/** A forward pass is a third of a training step, so a validation costs a sixth of the training before it at most. */
const validationShare = 1 / 2;
const trustLevels = ["", "untrusted", "known", "trusted"];

export function identityOf(
  settings: SessionSettings,
  plan: Plan,
  dataset: { readonly hash: Sha256; readonly manifest: Manifest },
  usual: "native" | "portable" = "native",
): SessionIdentity {
  const batch = whole(settings.batch || defaults.batch, "batch", 1, batchMax);
  const microbatches = whole(settings.microbatches || usualMicrobatches(batch), "microbatches", 1, microbatchesMax);
  if (batch % microbatches !== 0)
    fail(
      "invalid_argument",
      `a batch of ${batch} cannot be cut into ${microbatches} equal microbatches: choose a divisor`,
    );
  const numerics = settings.numerics || usual;
  if (numerics !== "native" && numerics !== "portable" && numerics !== "reference")
    fail("invalid_argument", `numerics "${numerics}" is unknown: choose native or portable`);
  if (plan.costs.length === 0)
    fail("failed_precondition", `network ${plan.name} has no cost: add one to \`costs\` to train it`);
  const validateEvery = whole(settings.validateEvery, "validate_every", 0, stepsMax);
  const split = checkSplit(dataset.manifest, settings.split, "train");
  const validationSplit = validateEvery > 0 ? checkSplit(dataset.manifest, settings.validationSplit, "validation") : "";
  return {
    definition: plan.definition,
    dataset: dataset.hash,
    split,
    validationSplit,
    steps: stepsOf(settings, batch, () => samplesIn(dataset.manifest, split, plan)),
    batch,
    microbatches,
    seed: whole(Number(settings.seed || BigInt(defaults.seed)), "seed", 0, Number.MAX_SAFE_INTEGER),
    numerics,
    bits,
    learningRate: learningRateOf(settings),
    clipNorm: number(settings.clipNorm, "clip_norm", 0, 1e9),
    validateEvery,
    validationMicrobatches:
      validateEvery > 0
        ? whole(
            settings.validationMicrobatches ||
              usualValidation(samplesIn(dataset.manifest, validationSplit, plan), {
                samples: batch / microbatches,
                trained: validateEvery * batch,
              }),
            "validation_microbatches",
            1,
            microbatchesMax,
          )
        : 0,
    initialState: "",
  };
}

/** As many as usual, or the most below that cut the batch evenly. */
function usualMicrobatches(batch: number): number {
  for (let count = defaults.microbatches; count > 1; count -= 1) if (batch % count === 0) return count;
  return 1;
}

function learningRateOf(settings: SessionSettings): SessionIdentity["learningRate"] {
  const given = settings.learningRate;
  const schedule = given?.schedule || "constant";
  if (schedule !== "constant" && schedule !== "cosine")
    fail("invalid_argument", `the learning-rate schedule "${schedule}" is unknown: choose constant or cosine`);
  return {
    schedule,
    base: number(given?.base || defaults.rate, "learning_rate.base", 0, 1e3),
    warmupSteps: whole(Number(given?.warmupSteps ?? 0n), "learning_rate.warmup_steps", 0, stepsMax),
    finalShare: number(given?.finalShare ?? 0, "learning_rate.final_share", 0, 1),
  };
}

function stepsOf(settings: SessionSettings, batch: number, samples: () => number): number {
  const steps = Number(settings.steps);
  if (steps > 0) return whole(steps, "steps", 1, stepsMax);
  if (!(settings.epochs > 0)) fail("invalid_argument", "the session needs `steps` or `epochs`: give one of them");
  return whole(Math.max(1, Math.ceil((settings.epochs * samples()) / batch)), "epochs", 1, stepsMax);
}

function samplesIn(manifest: Manifest, split: string, plan: Plan): number {
  return samplesOfSplit(manifest, split, plan.inputs?.shape[0]);
}

/** Microbatches that cover a split once, none of its samples twice, as far as that is cheap beside the training. */
export function usualValidation(
  inSplit: number,
  { samples, trained }: { readonly samples: number; readonly trained: number },
): number {
  const wanted = Math.min(inSplit, validationSamplesMost, trained * validationShare);
  return Math.min(microbatchesMax, Math.max(1, Math.floor(wanted / samples)));
}

/** A dataset without a training split is used whole, unless someone asked for another part. */
function checkSplit(manifest: Manifest, wanted: string, usual: string): string {
  const split = wanted || usual;
  if (split === "train" && !Object.hasOwn(manifest.splits, split)) return "all";
  ruleOf(manifest, split);
  return split;
}

export function policyOf(settings: SessionSettings): SessionPolicy {
  const replicas = settings.replicas || settings.requirements?.replicas || 1;
  return {
    checkpointEvery: whole(
      settings.checkpointEvery || defaults.checkpointEvery,
      "checkpoint_every",
      1,
      checkpointEveryMax,
    ),
    replicas: whole(replicas, "replicas", 1, replicasMax),
    ...(settings.spread > 1 ? { spread: whole(settings.spread, "spread", 1, spreadMax) } : {}),
  };
}

export function requirementsOf(settings: SessionSettings): SessionRequirements {
  const given = settings.requirements;
  const trust = given?.trust ?? "";
  if (!trustLevels.includes(trust))
    fail("invalid_argument", `trust "${trust}" is unknown: choose untrusted, known or trusted`);
  return {
    gpus: whole(given?.gpus ?? 0, "requirements.gpus", 0, 1_024),
    gpuMemoryBytes: Number(given?.gpuMemoryBytes ?? 0n),
    memoryBytes: Number(given?.memoryBytes ?? 0n),
    cpus: whole(given?.cpus ?? 0, "requirements.cpus", 0, 4_096),
    region: given?.region ?? "",
    trust,
    maxPricePerHour: number(given?.maxPricePerHour ?? 0, "requirements.max_price_per_hour", 0, 1e9),
    maxRuntimeSeconds: number(
      settings.maxRuntimeSeconds || (given?.maxRuntimeSeconds ?? 0),
      "max_runtime_seconds",
      0,
      1e10,
    ),
    priority: given?.priority ?? 0,
  };
}

function whole(value: number, what: string, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || value < least || value > most)
    throw new DcnrError("invalid_argument", `${what} is ${value}, expected a whole number from ${least} to ${most}`);
  return value;
}

function number(value: number, what: string, least: number, most: number): number {
  if (!(value >= least && value <= most))
    throw new DcnrError("invalid_argument", `${what} is ${value}, expected a number from ${least} to ${most}`);
  return value;
}
