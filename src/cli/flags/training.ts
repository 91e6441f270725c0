// The flags of a training session, and the settings they come to. Names, bounds and what is usual stand in the table of
// settings; what they mean for a network and its data is checked by the orchestrator.

import type { SessionSettingsInit } from "../../client/calls/sessions.ts";
import { fail } from "../../core/errors.ts";
import {
  type ChoiceField,
  checkedNumber,
  settingFields as fields,
  type NumberField,
  refuseRequest,
  type TextField,
} from "../../network/settings/setting-fields.ts";
import type { CommandContext, Flags, OptionSpec } from "../command.ts";
import { builtinNames } from "../content/builtin.ts";
import { parseBytes, parseSeconds } from "./quantities.ts";

type Said<T> = T & { readonly flag: string; readonly summary: string };

/** A setting as a flag; without its usual value where another session's counts instead. */
export function numberFlag(field: Said<NumberField>, more: Partial<OptionSpec> = {}): Record<string, OptionSpec> {
  const { flag, summary, least, most, fraction, usual } = field;
  const bounds = { least, most, ...(fraction ? { fraction } : {}) };
  return {
    [flag]: { type: "number", summary, ...bounds, ...(usual === undefined ? {} : { default: usual }), ...more },
  };
}

export function textFlag(
  field: Said<TextField | ChoiceField<string>>,
  more: Partial<OptionSpec> = {},
): Record<string, OptionSpec> {
  const { flag, summary, usual } = field;
  const choices = "choices" in field ? { choices: field.choices } : {};
  const byDefault = usual === undefined ? {} : { default: usual };
  return { [flag]: { type: "string", value: "NAME", summary, ...choices, ...byDefault, ...more } };
}

const requirementOptions: Readonly<Record<string, OptionSpec>> = {
  ...numberFlag(fields.cpus, { least: 1 }),
  [fields.memoryBytes.flag]: {
    type: "string",
    value: "SIZE",
    summary: "memory that a PNode must lend at least, such as 4GB",
  },
  ...numberFlag(fields.gpus, { least: 1 }),
  [fields.gpuMemoryBytes.flag]: {
    type: "string",
    value: "SIZE",
    summary: "memory that each of those GPUs must have at least, such as 8GB",
  },
  ...textFlag(fields.region),
  ...textFlag(fields.provider),
  ...textFlag(fields.trust, { value: "LEVEL" }),
  ...numberFlag(fields.priority),
};

export const trainingOptions: Readonly<Record<string, OptionSpec>> = {
  dataset: { type: "string", value: "NAME", summary: `dataset to train on (a clone has ${builtinNames.join(", ")})` },
  ...textFlag(fields.split),
  ...textFlag(fields.validationSplit),
  ...numberFlag(fields.steps),
  ...numberFlag(fields.epochs),
  [fields.maxRuntimeSeconds.flag]: {
    type: "string",
    value: "DURATION",
    summary: "end after this long even if steps are left, such as 90s or 2h",
  },
  ...numberFlag(fields.batch),
  ...numberFlag(fields.microbatches),
  ...numberFlag(fields.lanes),
  ...numberFlag(fields.syncEvery),
  ...numberFlag(fields.syncAfter),
  ...numberFlag(fields.rate),
  ...textFlag(fields.schedule),
  ...numberFlag(fields.warmup),
  ...numberFlag(fields.seed),
  ...textFlag(fields.numerics),
  ...numberFlag(fields.checkpointEvery),
  ...numberFlag(fields.validateEvery),
  ...numberFlag(fields.clipNorm),
  ...numberFlag(fields.replicas),
  ...textFlag(fields.assurance, { value: "LEVEL" }),
  ...numberFlag(fields.strangers),
  ...textFlag(fields.cap, { value: "CHOICE" }),
  from: {
    type: "string",
    value: "SOURCE",
    summary: "start from the weights of this session or model, not from the seed",
  },
  ...numberFlag(fields.spread),
  ...numberFlag(fields.budget),
  ...textFlag(fields.autonomy, { value: "CHOICE" }),
  ...textFlag(fields.elastic, { value: "CHOICE" }),
  ...textFlag(fields.eras, { value: "CHOICE" }),
  ...requirementOptions,
};

const stepsDefault = 200;
/** Where time alone is to end a session. */
const stepsUnlimited = 1_000_000;

/** Where a cosine ends, of its base. */
const finalShare = 0.1;

/** 0 would be taken for nothing said. */
function roundsFrom(flags: Flags): Pick<SessionSettingsInit, "syncEvery" | "syncAfter"> {
  const said = (field: Said<NumberField>) => {
    const value = flags.optionalNumber(field.flag);
    return value === undefined ? 0 : checkedNumber(field, value, refuseRequest);
  };
  return { syncEvery: said(fields.syncEvery), syncAfter: BigInt(said(fields.syncAfter)) };
}

export function settingsFrom({ flags }: Pick<CommandContext, "flags">, network: string): SessionSettingsInit {
  const number = ({ flag }: Said<NumberField>) => flags.optionalNumber(flag) ?? 0;
  const text = ({ flag }: Said<TextField>) => flags.optionalText(flag) ?? "";
  return {
    network,
    dataset: flags.text("dataset"),
    split: text(fields.split),
    validationSplit: text(fields.validationSplit),
    ...lengthFrom(flags),
    batch: number(fields.batch),
    microbatches: number(fields.microbatches),
    lanes: number(fields.lanes),
    ...roundsFrom(flags),
    seed: BigInt(number(fields.seed)),
    numerics: text(fields.numerics),
    checkpointEvery: number(fields.checkpointEvery),
    validateEvery: number(fields.validateEvery),
    clipNorm: number(fields.clipNorm),
    replicas: number(fields.replicas),
    assurance: text(fields.assurance),
    strangers: number(fields.strangers),
    cap: text(fields.cap),
    initialState: flags.optionalText("from") ?? "",
    spread: number(fields.spread),
    budget: BigInt(number(fields.budget)),
    autonomy: text(fields.autonomy),
    elastic: text(fields.elastic),
    eras: text(fields.eras),
    learningRate: {
      schedule: text(fields.schedule),
      base: number(fields.rate),
      warmupSteps: BigInt(number(fields.warmup)),
      finalShare,
    },
    requirements: {
      cpus: number(fields.cpus),
      gpus: number(fields.gpus),
      gpuMemoryBytes: BigInt(sizeFrom(flags, fields.gpuMemoryBytes)),
      memoryBytes: BigInt(sizeFrom(flags, fields.memoryBytes)),
      region: text(fields.region),
      provider: text(fields.provider),
      trust: text(fields.trust),
      priority: number(fields.priority),
    },
  };
}

function sizeFrom(flags: Flags, { flag }: { readonly flag: string }): number {
  const size = flags.optionalText(flag);
  return size === undefined ? 0 : parseBytes(size, `--${flag}`);
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
