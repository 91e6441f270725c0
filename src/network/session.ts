// The settings of a training session and its identity: the hash of everything that decides its bits.

import { fail } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import { parseId, type SessionId, type Sha256 } from "../core/ids.ts";
import { cos } from "../core/math.ts";
import { didYouMean, quoted } from "./suggest.ts";

/** Engine and graph rules that decide bits. Bump it with any change to what the graphs of a plan compute. */
export const operatorSet = "dcnr-1";

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

/** What a person chooses; the names of network and dataset are still to be resolved to hashes. */
export interface SessionChoices {
  readonly network: string;
  readonly dataset: string;
  /** The settings part of the identity. */
  readonly identity: Omit<SessionIdentity, "definition" | "dataset" | "operatorSet" | "initialState">;
  readonly policy: SessionPolicy;
  /** Instead of steps, 0 when steps say it: then `identity.steps` is still 0. */
  readonly epochs: number;
  readonly maxRuntimeSeconds: number;
  /** Session or state to start from; empty for fresh weights. */
  readonly initialState: string;
}

type Plain = Readonly<Record<string, unknown>>;

const limits = {
  steps: { min: 1, max: 1e9 },
  batch: { min: 1, max: 1 << 20 },
  microbatches: { min: 1, max: 4096 },
  seed: { min: 0, max: Number.MAX_SAFE_INTEGER },
  checkpointEvery: { min: 1, max: 1e6 },
  replicas: { min: 1, max: 16 },
  validateEvery: { min: 0, max: 1e9 },
  validationMicrobatches: { min: 1, max: 1e6 },
} as const;

/**
 * Checks settings as they come from a file, a command line or the wire (camelCase keys). Absent, zero and
 * empty values mean the default, as in the wire format. An error names the setting and what was expected.
 */
export function parseSettings(settings: Plain): SessionChoices {
  checkNames(settings, settingNames, "setting");
  const whole = (name: keyof typeof limits, standard: number) =>
    wholeNumber(settings[name], name, limits[name], standard);
  const epochs = number(settings.epochs, "epochs", 0, 1e6, 0);
  const steps = epochs > 0 && isUnset(settings.steps) ? 0 : whole("steps", 100);
  if (epochs > 0 && steps > 0)
    fail("invalid_argument", `settings "steps" and "epochs" are both given: give one of them`);
  const batch = whole("batch", 32);
  const microbatches = whole("microbatches", [4, 2].find((count) => batch % count === 0) ?? 1);
  if (batch % microbatches !== 0)
    fail("invalid_argument", `setting "microbatches" must divide batch ${batch}, found ${microbatches}`);
  const learningRate = parseLearningRate(settings.learningRate);
  if (steps > 0 && learningRate.warmupSteps > steps)
    fail(
      "invalid_argument",
      `setting "learningRate.warmupSteps" is ${learningRate.warmupSteps}, more than steps ${steps}`,
    );
  const validateEvery = whole("validateEvery", 0);
  return {
    network: name(settings.network, "network"),
    dataset: name(settings.dataset, "dataset"),
    identity: {
      split: text(settings.split, "split", "train"),
      validationSplit: text(settings.validationSplit, "validationSplit", "validation"),
      steps,
      batch,
      microbatches,
      seed: whole("seed", 0),
      numerics: choice(settings.numerics, "numerics", ["native", "portable", "reference"], "native"),
      learningRate,
      clipNorm: number(settings.clipNorm, "clipNorm", 0, 1e9, 0),
      validateEvery,
      validationMicrobatches: validateEvery === 0 ? 0 : whole("validationMicrobatches", 4),
    },
    policy: { checkpointEvery: whole("checkpointEvery", 10), replicas: whole("replicas", 1) },
    epochs,
    maxRuntimeSeconds: number(settings.maxRuntimeSeconds, "maxRuntimeSeconds", 0, 1e9, 0),
    initialState: text(settings.initialState, "initialState", ""),
  };
}

const settingNames = [
  "network",
  "dataset",
  "split",
  "validationSplit",
  "steps",
  "epochs",
  "batch",
  "microbatches",
  "seed",
  "numerics",
  "checkpointEvery",
  "replicas",
  "learningRate",
  "clipNorm",
  "validateEvery",
  "validationMicrobatches",
  "requirements",
  "maxRuntimeSeconds",
  "initialState",
];

function parseLearningRate(value: unknown): LearningRate {
  const given: Plain = isUnset(value) ? {} : typeof value === "object" ? (value as Plain) : { base: value };
  checkNames(given, ["schedule", "base", "warmupSteps", "finalShare"], "setting learningRate:");
  return {
    schedule: choice(given.schedule, "learningRate.schedule", ["constant", "cosine"], "constant"),
    base: number(given.base, "learningRate.base", 1e-12, 100, 1e-3),
    warmupSteps: wholeNumber(given.warmupSteps, "learningRate.warmupSteps", { min: 0, max: 1e9 }, 0),
    finalShare: number(given.finalShare, "learningRate.finalShare", 0, 1, 0),
  };
}

/** Messages of the wire format carry their type under a key that begins with "$". */
function checkNames(given: Plain, known: readonly string[], what: string): void {
  for (const key of Object.keys(given))
    if (!known.includes(key) && !key.startsWith("$"))
      fail(
        "invalid_argument",
        `${what} ${quoted(key)} is unknown${didYouMean(key, known) || `; known are ${known.join(", ")}`}`,
      );
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === "" || value === 0 || value === 0n;
}

function wholeNumber(
  value: unknown,
  name: string,
  { min, max }: { min: number; max: number },
  standard: number,
): number {
  if (isUnset(value)) return standard;
  const found = typeof value === "bigint" || typeof value === "string" ? Number(value) : value;
  if (typeof found !== "number" || !Number.isSafeInteger(found) || found < min || found > max)
    fail(
      "invalid_argument",
      `setting "${name}" must be a whole number from ${min} to ${max}, found ${quoted(String(value))}`,
    );
  return found;
}

function number(value: unknown, name: string, min: number, max: number, standard: number): number {
  if (isUnset(value)) return standard;
  const found = typeof value === "string" ? Number(value) : value;
  if (typeof found !== "number" || !Number.isFinite(found) || found < min || found > max)
    fail(
      "invalid_argument",
      `setting "${name}" must be a number from ${min} to ${max}, found ${quoted(String(value))}`,
    );
  return found;
}

function choice<Choice extends string>(
  value: unknown,
  name: string,
  choices: readonly Choice[],
  standard: Choice,
): Choice {
  if (isUnset(value)) return standard;
  const found = choices.find((each) => each === value);
  if (found === undefined)
    fail(
      "invalid_argument",
      `setting "${name}" must be one of ${choices.join(", ")}, found ${quoted(value)}${didYouMean(String(value), choices)}`,
    );
  return found;
}

function name(value: unknown, what: string): string {
  if (isUnset(value)) fail("invalid_argument", `setting "${what}" is missing: name the ${what} to train with`);
  return parseId<string>(String(value), `setting "${what}"`);
}

function text(value: unknown, what: string, standard: string): string {
  if (isUnset(value)) return standard;
  if (typeof value !== "string" || value.length > 256)
    fail("invalid_argument", `setting "${what}" must be a name, found ${quoted(value)}`);
  return value;
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
