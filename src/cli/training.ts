// The flags of a training session, and the settings they come to. What they mean for a network and its data is
// checked by the orchestrator; here only that they are numbers of the right kind.

import type { SessionSettingsInit } from "../client/client.ts";
import { fail } from "../core/errors.ts";
import { builtinNames } from "./builtin.ts";
import type { CommandContext, Flags, OptionSpec } from "./command.ts";
import { parseBytes, parseSeconds } from "./quantities.ts";

/** Named apart from what `dcnr join` lends, which may stand in the same settings file. */
const requirementOptions: Readonly<Record<string, OptionSpec>> = {
  "needs-cpus": { type: "number", summary: "cores that a PNode must lend at least" },
  "needs-memory": { type: "string", value: "SIZE", summary: "memory that a PNode must lend at least, such as 4GB" },
  "needs-gpus": { type: "number", summary: "GPUs that a PNode must have" },
  "needs-region": { type: "string", value: "NAME", summary: "only PNodes of this region" },
  "needs-trust": { type: "string", value: "LEVEL", summary: "untrusted, known or trusted PNodes" },
  priority: { type: "number", summary: "higher goes first where PNodes are scarce" },
};

export const trainingOptions: Readonly<Record<string, OptionSpec>> = {
  dataset: { type: "string", value: "NAME", summary: `dataset to train on (built in: ${builtinNames.join(", ")})` },
  split: { type: "string", value: "NAME", summary: "split of the dataset", default: "train" },
  "validation-split": { type: "string", value: "NAME", summary: "split to validate on", default: "validation" },
  steps: { type: "number", summary: "steps to train (default 200, or as many as --time allows)" },
  epochs: { type: "number", summary: "train this many epochs instead of --steps" },
  time: { type: "string", value: "DURATION", summary: "end after this long even if steps are left, such as 90s or 2h" },
  batch: { type: "number", summary: "samples in a step", default: 32 },
  microbatches: { type: "number", summary: "pieces of a batch that travel on their own", default: 4 },
  rate: { type: "number", summary: "learning rate", default: 0.001 },
  schedule: {
    type: "string",
    value: "NAME",
    summary: "learning rate over time: constant or cosine",
    default: "constant",
  },
  warmup: { type: "number", summary: "steps until the rate is reached", default: 0 },
  seed: { type: "number", summary: "decides initial weights, order of samples and dropout", default: 1 },
  numerics: {
    type: "string",
    value: "NAME",
    summary: "native (fast) or portable (the same bits on every machine) (default: native if a PNode has it)",
  },
  "checkpoint-every": { type: "number", summary: "steps between checkpoints", default: 20 },
  "validate-every": { type: "number", summary: "steps between validations; 0: never", default: 0 },
  "clip-norm": { type: "number", summary: "largest gradient norm of a VNode; 0: no clipping", default: 0 },
  replicas: { type: "number", summary: "PNodes that execute each VNode", default: 1 },
  from: {
    type: "string",
    value: "SOURCE",
    summary: "start from the weights of this session or model, not from the seed",
  },
  spread: { type: "number", summary: "PNodes to use at least; 1: as many as make it fast", default: 1 },
  ...requirementOptions,
};

const stepsDefault = 200;
/** Where time alone is to end a session. */
const stepsUnlimited = 1_000_000;

export function settingsFrom({ flags }: Pick<CommandContext, "flags">, network: string): SessionSettingsInit {
  return {
    network,
    dataset: flags.text("dataset"),
    split: flags.text("split"),
    validationSplit: flags.text("validation-split"),
    ...lengthFrom(flags),
    batch: wholeNumber(flags, "batch"),
    microbatches: wholeNumber(flags, "microbatches"),
    seed: BigInt(wholeNumber(flags, "seed")),
    numerics: flags.optionalText("numerics") ?? "",
    checkpointEvery: wholeNumber(flags, "checkpoint-every"),
    validateEvery: wholeNumber(flags, "validate-every"),
    clipNorm: flags.number("clip-norm"),
    replicas: wholeNumber(flags, "replicas"),
    initialState: flags.optionalText("from") ?? "",
    spread: wholeNumber(flags, "spread"),
    learningRate: {
      schedule: flags.text("schedule"),
      base: flags.number("rate"),
      warmupSteps: BigInt(wholeNumber(flags, "warmup")),
      finalShare: 0.1,
    },
    requirements: requirementsFrom(flags),
  };
}

function lengthFrom(flags: Flags): Pick<SessionSettingsInit, "steps" | "epochs" | "maxRuntimeSeconds"> {
  const epochs = flags.optionalNumber("epochs");
  const time = flags.optionalText("time");
  if (flags.has("steps") && epochs !== undefined) fail("invalid_argument", "give --steps or --epochs, not both");
  const usual = time === undefined ? stepsDefault : stepsUnlimited;
  const steps = flags.has("steps") ? wholeNumber(flags, "steps") : usual;
  return {
    steps: BigInt(epochs === undefined ? steps : 0),
    epochs: epochs ?? 0,
    maxRuntimeSeconds: time === undefined ? 0 : parseSeconds(time, "--time"),
  };
}

function requirementsFrom(flags: Flags): SessionSettingsInit["requirements"] {
  const memory = flags.optionalText("needs-memory");
  return {
    cpus: flags.has("needs-cpus") ? wholeNumber(flags, "needs-cpus") : 0,
    gpus: flags.has("needs-gpus") ? wholeNumber(flags, "needs-gpus") : 0,
    memoryBytes: memory === undefined ? 0n : BigInt(parseBytes(memory, "--needs-memory")),
    region: flags.optionalText("needs-region") ?? "",
    trust: flags.optionalText("needs-trust") ?? "",
    priority: flags.optionalNumber("priority") ?? 0,
  };
}

/** What the wire cannot carry is refused here: everything that is no whole number from 0 on. */
export function wholeNumber(flags: Flags, name: string): number {
  const value = flags.number(name);
  if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff)
    fail("invalid_argument", `--${name} is a whole number from 0 on, not ${value}`);
  return value;
}
