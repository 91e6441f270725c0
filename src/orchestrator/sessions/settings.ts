// What a client asks for, turned into a session's settings: what is usual filled in, every value checked by the table of
// settings (network/settings/setting-fields.ts) and against network and data, so that nothing odd reaches a PNode.

import { bits } from "../../core/bits.ts";
import { fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import { samplesOfSplit } from "../../data/datasets.ts";
import type { Manifest } from "../../data/manifest.ts";
import { ruleOf } from "../../data/order.ts";
import { paddedElements, whyNoLanes } from "../../network/lanes.ts";
import type { Plan } from "../../network/plan.ts";
import {
  type Assurance,
  roundRules,
  type SessionIdentity,
  type SessionPolicy,
  type SessionRequirements,
  samplesOf,
} from "../../network/settings/session.ts";
import { askedChoice, askedNumber, settingFields as fields } from "../../network/settings/setting-fields.ts";
import type { SessionSettings as AskedSettings } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { moveBoundOf } from "../trust/cap/movement.ts";

/** Unless it does not divide the batch. */
const microbatchesUsual = 4;
/** Enough samples for two digits of an accuracy; more would only make validations slow. */
const validationSamplesMost = 1_024;
/** A forward pass is a third of a training step, so a validation costs a sixth of the training before it at most. */
const validationShare = 1 / 2;

export function identityOf(
  asked: AskedSettings,
  plan: Plan,
  dataset: { readonly hash: Sha256; readonly manifest: Manifest },
  usual: "native" | "portable" = "native",
): SessionIdentity {
  const batch = askedNumber(fields.batch, asked.batch);
  const lanes = askedNumber(fields.lanes, asked.lanes);
  const microbatches = askedNumber(fields.microbatches, asked.microbatches || usualMicrobatches(batch, lanes));
  const split = checkSplit(dataset.manifest, asked.split || fields.split.usual);
  const steps = stepsOf(asked, batch, () => samplesIn(dataset.manifest, split, plan));
  const sync = roundsOf(asked, steps);
  const why = whyNoLanes({ batch, microbatches, steps, lanes, ...sync, validationMicrobatches: 0 });
  if (why !== undefined) fail("invalid_argument", why);
  if (batch % microbatches !== 0)
    fail(
      "invalid_argument",
      `a batch of ${batch} cannot be cut into ${microbatches} equal microbatches: choose a divisor`,
    );
  if (plan.costs.length === 0)
    fail("failed_precondition", `network ${plan.name} has no cost: add one to \`costs\` to train it`);
  const identity: SessionIdentity = {
    definition: plan.definition,
    dataset: dataset.hash,
    split,
    steps,
    batch,
    microbatches,
    ...(lanes > 1 && { lanes }),
    ...sync,
    seed: askedNumber(fields.seed, asked.seed),
    numerics: askedChoice(fields.numerics, asked.numerics) || usual,
    bits,
    learningRate: learningRateOf(asked),
    clipNorm: askedNumber(fields.clipNorm, asked.clipNorm),
    ...validationOf(asked, plan, dataset.manifest, { batch, microbatches, lanes }),
    initialState: "",
  };
  const whyNot = whyNoLanes(identity);
  return whyNot === undefined ? identity : fail("invalid_argument", whyNot);
}

/** Rounds from the first step on were worse than one lane alone: the fast first phase is learned together. */
const togetherStepsLeast = 200;
const togetherShare = 0.01;

function roundsOf({ syncEvery, syncAfter }: AskedSettings, steps: number): Pick<SessionIdentity, "sync"> {
  if (syncEvery === 0 && syncAfter > 0n)
    fail("invalid_argument", "sync_after says when rounds begin, and sync_every is not there: say how long a round is");
  if (syncEvery === 0) return {};
  const every = askedNumber(fields.syncEvery, syncEvery);
  const usual = Math.max(togetherStepsLeast, Math.ceil(steps * togetherShare));
  return { sync: { every, after: askedNumber(fields.syncAfter, syncAfter || usual), rules: roundRules } };
}

function validationOf(
  asked: AskedSettings,
  plan: Plan,
  manifest: Manifest,
  { batch, microbatches, lanes }: Required<Pick<SessionIdentity, "batch" | "microbatches" | "lanes">>,
): Pick<SessionIdentity, "validateEvery" | "validationSplit" | "validationMicrobatches"> {
  const validateEvery = askedNumber(fields.validateEvery, asked.validateEvery);
  if (validateEvery === 0) return { validateEvery, validationSplit: "", validationMicrobatches: 0 };
  const validationSplit = checkSplit(manifest, asked.validationSplit || fields.validationSplit.usual);
  const lengths = { samples: samplesOf({ batch, microbatches }), trained: validateEvery * batch };
  const usual = usualValidation(samplesIn(manifest, validationSplit, plan), lengths);
  const count = asked.validationMicrobatches || Math.max(1, Math.floor(usual / lanes)) * lanes;
  return { validateEvery, validationSplit, validationMicrobatches: askedNumber(fields.validationMicrobatches, count) };
}

/** As many as usual for each lane, or the most below that cut its share of the batch evenly. */
function usualMicrobatches(batch: number, lanes: number): number {
  if (batch % lanes !== 0) return lanes;
  for (let count = microbatchesUsual; count > 1; count -= 1) if ((batch / lanes) % count === 0) return count * lanes;
  return lanes;
}

function learningRateOf({ learningRate: asked }: AskedSettings): SessionIdentity["learningRate"] {
  return {
    schedule: askedChoice(fields.schedule, asked?.schedule) || fields.schedule.usual,
    base: askedNumber(fields.rate, asked?.base),
    warmupSteps: askedNumber(fields.warmup, asked?.warmupSteps),
    finalShare: askedNumber(fields.finalShare, asked?.finalShare),
  };
}

function stepsOf({ steps, epochs }: AskedSettings, batch: number, samples: () => number): number {
  if (steps > 0n) return askedNumber(fields.steps, steps);
  if (!(epochs > 0)) fail("invalid_argument", "the session needs `steps` or `epochs`: give one of them");
  const share = (askedNumber(fields.epochs, epochs) * samples()) / batch;
  return askedNumber(fields.steps, Math.max(1, Math.ceil(share)));
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
  return Math.min(fields.validationMicrobatches.most, Math.max(1, Math.floor(wanted / samples)));
}

/** A dataset without a training split is used whole, unless someone asked for another part. */
function checkSplit(manifest: Manifest, split: string): string {
  if (split === "train" && !Object.hasOwn(manifest.splits, split)) return "all";
  ruleOf(manifest, split);
  return split;
}

const checkpointEveryUsual = 20;

/**
 * What lanes add up in each step is kept by each of them until the next checkpoint, once as large as the weights: so many steps of it
 * are to fit into memory.
 */
const reducedBytesMost = 256 << 20;

/** How often states are stored. Within rounds nothing of that size is kept, and a state of each lane is more than its steps apart save. */
function checkpointsOf(asked: AskedSettings, plan: Plan): Pick<SessionPolicy, "checkpointEvery" | "roundCheckpoints"> {
  if (asked.checkpointEvery > 0) return { checkpointEvery: askedNumber(fields.checkpointEvery, asked.checkpointEvery) };
  if (askedNumber(fields.lanes, asked.lanes) === 1) return { checkpointEvery: checkpointEveryUsual };
  const bytesPerStep = 4 * plan.vnodes.reduce((sum, vnode) => sum + paddedElements(vnode), 0);
  const affordable = Math.floor(reducedBytesMost / Math.max(1, bytesPerStep));
  return {
    checkpointEvery: Math.max(1, Math.min(checkpointEveryUsual, affordable)),
    ...(asked.syncEvery > 0 && { roundCheckpoints: "ends" as const }),
  };
}

/** `usual`: how far results are checked unless somebody says. */
export function policyOf(asked: AskedSettings, plan: Plan, usual: Assurance = "none"): SessionPolicy {
  const spread = askedNumber(fields.spread, asked.spread);
  const budget = budgetAsked(asked.budget);
  const isAutonomous = askedChoice(fields.autonomy, asked.autonomy) === "on";
  const assurance = askedChoice(fields.assurance, asked.assurance) || (isAutonomous ? "none" : usual);
  // Crews keep and record states by themselves: nobody draws or checks while no orchestrator is there.
  if (isAutonomous && assurance !== "none")
    fail("invalid_argument", "a session with autonomy cannot be checked yet: choose assurance none, or autonomy off");
  const strangers = askedNumber(fields.strangers, asked.strangers);
  if (strangers > 1 && assurance !== "checked")
    fail("invalid_argument", `strangers is ${strangers}: only with assurance checked do so many repeat each interval`);
  const isCapped = askedChoice(fields.cap, asked.cap) === "on";
  if (isCapped) checkCap(asked, plan, assurance);
  return {
    ...checkpointsOf(asked, plan),
    replicas: askedNumber(fields.replicas, asked.replicas || asked.requirements?.replicas),
    ...(spread > 1 ? { spread } : {}),
    ...(budget > 0 ? { budget } : {}),
    ...(isAutonomous ? { autonomy: "on" as const } : {}),
    ...(askedChoice(fields.eras, asked.eras) === "on" ? { eras: "on" as const } : {}),
    ...(elasticAsked(asked, isAutonomous, assurance) ? { elastic: "on" as const } : {}),
    ...(assurance === "none" ? {} : { assurance }),
    ...(strangers > 1 ? { strangers } : {}),
    ...(isCapped ? { cap: "on" as const } : {}),
  };
}

/** A cap that could stop an honest run would be none: it is refused where what an optimizer does has no bound. */
function checkCap({ clipNorm, syncEvery }: AskedSettings, { vnodes }: Plan, assurance: string): void {
  const refuse = (sentence: string) => fail("invalid_argument", `cap on: ${sentence}`);
  if (assurance === "none") refuse("what is not checked is not capped: choose an assurance, or cap off");
  if (syncEvery) refuse("what lanes come to at the end of a round has no bound: choose cap off, or no rounds");
  const rate = { schedule: "constant", base: 1, warmupSteps: 0, finalShare: 1 } as const;
  for (const { id, optimizer } of vnodes)
    if (moveBoundOf(optimizer, { learningRate: rate, steps: 1, clipNorm }, 0, 1) === undefined)
      refuse(
        `the ${optimizer.kind} of VNode ${id} may move weights by any amount: Adam, AdamW, and SGD with --clip and without decay have a bound`,
      );
}

/** Lanes that come and go are decided by orchestrators, round by round, and leave nothing that a stranger could repeat. */
function elasticAsked(asked: AskedSettings, isAutonomous: boolean, assurance: string): boolean {
  const refuse = (sentence: string) => fail("invalid_argument", sentence);
  if (askedChoice(fields.elastic, asked.elastic) !== "on")
    return asked.numerics === "mixed"
      ? refuse("which lane computes in which class is recorded round by round: mixed numerics need elastic on")
      : false;
  if (!asked.syncEvery) refuse("lanes come and go between rounds: an elastic session needs rounds, too (sync_every)");
  if (isAutonomous)
    refuse("rounds of an elastic session are closed by orchestrators: choose elastic off, or autonomy off");
  if (assurance !== "none") refuse("an elastic session cannot be checked yet: choose assurance none, or elastic off");
  if (asked.eras === "on")
    refuse("an elastic session has a class for each lane and no eras: choose elastic off, or eras off");
  return true;
}

/** 0 for no bound. */
export function budgetAsked(given: bigint): number {
  return askedNumber(fields.budget, given);
}

/** Records are listed by the hundred: what people write into one stays short. */
const placeLengthMax = 100;

function placeName(text: string, what: string): string {
  return text.length <= placeLengthMax
    ? text
    : fail("invalid_argument", `the ${what} has ${text.length} letters: at most ${placeLengthMax} are taken`);
}

export function requirementsOf({
  requirements: asked,
  maxRuntimeSeconds,
}: Pick<AskedSettings, "requirements" | "maxRuntimeSeconds">): SessionRequirements {
  return {
    gpus: askedNumber(fields.gpus, asked?.gpus),
    gpuMemoryBytes: askedNumber(fields.gpuMemoryBytes, asked?.gpuMemoryBytes),
    memoryBytes: askedNumber(fields.memoryBytes, asked?.memoryBytes),
    cpus: askedNumber(fields.cpus, asked?.cpus),
    region: placeName(asked?.region ?? "", "region"),
    ...(asked?.provider ? { provider: placeName(asked.provider, "provider") } : {}),
    trust: askedChoice(fields.trust, asked?.trust),
    maxPricePerHour: askedNumber(fields.maxPricePerHour, asked?.maxPricePerHour),
    maxRuntimeSeconds: askedNumber(fields.maxRuntimeSeconds, maxRuntimeSeconds || asked?.maxRuntimeSeconds),
    priority: askedNumber(fields.priority, asked?.priority),
  };
}
