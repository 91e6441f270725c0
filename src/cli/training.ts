// The flags of a training session, and the settings they come to. What they mean for a network and its data is
// checked by the orchestrator; here only that they are numbers of the right kind.

import type { SessionSettingsInit } from "../client/client.ts";
import { fail } from "../core/errors.ts";
import { builtinNames } from "./builtin.ts";
import type { CommandContext, Flags, OptionSpec } from "./command.ts";
import { parseBytes, parseSeconds } from "./quantities.ts";

/** Named apart from what `dcnr join` lends, which may stand in the same settings file. */
const requirementOptions: Readonly<Record<string, OptionSpec>> = {
  "needs-cpus": { type: "number", least: 1, summary: "cores that a PNode must lend at least" },
  "needs-memory": { type: "string", value: "SIZE", summary: "memory that a PNode must lend at least, such as 4GB" },
  "needs-gpus": { type: "number", least: 1, summary: "GPUs that a PNode must have" },
  "needs-region": { type: "string", value: "NAME", summary: "only PNodes of this region" },
  "needs-trust": { type: "string", value: "LEVEL", summary: "untrusted, known or trusted PNodes" },
  priority: { type: "number", least: -1_000, most: 1_000, summary: "higher goes first where PNodes are scarce" },
};

export const trainingOptions: Readonly<Record<string, OptionSpec>> = {
  dataset: { type: "string", value: "NAME", summary: `dataset to train on (a clone has ${builtinNames.join(", ")})` },
  split: { type: "string", value: "NAME", summary: "split of the dataset", default: "train" },
  "validation-split": { type: "string", value: "NAME", summary: "split to validate on", default: "validation" },
  steps: { type: "number", least: 1, summary: "steps to train (default 200, or as many as --time allows)" },
  epochs: { type: "number", fraction: true, summary: "train this many epochs instead of --steps" },
  time: { type: "string", value: "DURATION", summary: "end after this long even if steps are left, such as 90s or 2h" },
  batch: { type: "number", least: 1, summary: "samples in a step", default: 32 },
  microbatches: {
    type: "number",
    least: 1,
    summary: "pieces of a batch that travel on their own (default: 4, or what divides it)",
  },
  rate: { type: "number", fraction: true, summary: "learning rate", default: 0.001 },
  schedule: {
    type: "string",
    value: "NAME",
    summary: "learning rate over time: constant or cosine",
    default: "constant",
  },
  warmup: { type: "number", summary: "steps until the rate is reached", default: 0 },
  seed: {
    type: "number",
    most: Number.MAX_SAFE_INTEGER,
    summary: "decides initial weights, order of samples and dropout",
    default: 1,
  },
  numerics: {
    type: "string",
    value: "NAME",
    summary: "native (fast) or portable (the same bits on every machine) (default: native if a PNode has it)",
  },
  "checkpoint-every": { type: "number", least: 1, summary: "steps between checkpoints", default: 20 },
  "validate-every": { type: "number", summary: "steps between validations; 0: never", default: 0 },
  "clip-norm": {
    type: "number",
    fraction: true,
    summary: "largest gradient norm of a VNode; 0: no clipping",
    default: 0,
  },
  replicas: { type: "number", least: 1, summary: "PNodes that execute each VNode", default: 1 },
  from: {
    type: "string",
    value: "SOURCE",
    summary: "start from the weights of this session or model, not from the seed",
  },
  spread: { type: "number", least: 1, summary: "PNodes to use at least; 1: as many as make it fast", default: 1 },
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
    batch: flags.number("batch"),
    microbatches: flags.optionalNumber("microbatches") ?? 0,
    seed: BigInt(flags.number("seed")),
    numerics: flags.optionalText("numerics") ?? "",
    checkpointEvery: flags.number("checkpoint-every"),
    validateEvery: flags.number("validate-every"),
    clipNorm: flags.number("clip-norm"),
    replicas: flags.number("replicas"),
    initialState: flags.optionalText("from") ?? "",
    spread: flags.number("spread"),
    learningRate: {
      schedule: flags.text("schedule"),
      base: flags.number("rate"),
      warmupSteps: BigInt(flags.number("warmup")),
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
  const steps = flags.has("steps") ? flags.number("steps") : usual;
  return {
    steps: BigInt(epochs === undefined ? steps : 0),
    epochs: epochs ?? 0,
    maxRuntimeSeconds: time === undefined ? 0 : parseSeconds(time, "--time"),
  };
}

function requirementsFrom(flags: Flags): SessionSettingsInit["requirements"] {
  const memory = flags.optionalText("needs-memory");
  return {
    cpus: flags.has("needs-cpus") ? flags.number("needs-cpus") : 0,
    gpus: flags.has("needs-gpus") ? flags.number("needs-gpus") : 0,
    memoryBytes: memory === undefined ? 0n : BigInt(parseBytes(memory, "--needs-memory")),
    region: flags.optionalText("needs-region") ?? "",
    trust: flags.optionalText("needs-trust") ?? "",
    priority: flags.optionalNumber("priority") ?? 0,
  };
}
