// A study as a job asks for it: what is searched stands beside the settings that all trials share. Names of what is searched
// are those of the command line or of the API; here they are put in their place in a trial's settings. Pure.

import { fail } from "../../core/errors.ts";
import { written } from "../../core/words/written.ts";
import {
  type ChoiceField,
  checkedChoice,
  checkedNumber,
  settingFields as fields,
  type NumberField,
  refuseRequest,
  type TextField,
} from "../../network/settings/setting-fields.ts";
import type { Dimension, Settings, Value } from "../../tuning/space.ts";
import { parseStudy, type Study } from "../../tuning/study.ts";
import type { JsonObject } from "../jobs/kinds.ts";
import { settingsOf, settingsToSpec } from "../jobs/train.ts";
import type { StudyRecord } from "../records/studies.ts";

type Searched = NumberField | ChoiceField<string> | TextField;

/** What makes sense to search: it decides what is learned, and not how long or where. */
const searched: readonly Searched[] = [
  { field: "network" },
  { field: "dataset" },
  { field: "initial_state" },
  fields.split,
  fields.batch,
  fields.microbatches,
  fields.lanes,
  fields.seed,
  fields.schedule,
  fields.rate,
  fields.warmup,
  fields.finalShare,
  fields.clipNorm,
];

/** Larger states between two looks at a trial would be too much to repeat after a loss. */
const checkpointEveryMost = 50;

export type StudyAsked = Omit<StudyRecord, "id">;

/** Fails with a sentence. */
export function parseStudySpec(spec: JsonObject): StudyAsked {
  const { train = {}, keep = "best", ...rest } = spec;
  if (train === null || typeof train !== "object" || Array.isArray(train))
    fail("invalid_argument", "`train` of a study has the settings that all trials share");
  if (keep !== "best" && keep !== "all") fail("invalid_argument", `keep is "${written(keep)}": choose best or all`);
  const study = parseStudy(rest);
  for (const dimension of study.space) checkDimension(dimension);
  const shared = sharedBy(study, train as JsonObject);
  for (const name of ["network", "dataset"])
    if (!shared[name] && !study.space.some((one) => one.name === name))
      fail("invalid_argument", `a study needs \`${name}\` in its \`train\`, or in its \`space\``);
  return { study, train: shared, keep };
}

/** What the study itself decides is refused, so that nobody wonders what counts. */
function sharedBy(study: Study, train: JsonObject): JsonObject {
  const settings = settingsOf(train);
  const decided = {
    steps: settings.steps > 0n,
    epochs: settings.epochs > 0,
    validate_every: settings.validateEvery > 0,
  };
  for (const [name, given] of Object.entries(decided))
    if (given)
      fail("invalid_argument", `\`${name}\` is not for \`train\`: \`steps\` and \`every\` of the study decide it`);
  if (settings.checkpointEvery > 0 && study.least % settings.checkpointEvery !== 0)
    fail(
      "invalid_argument",
      `checkpoint_every is ${settings.checkpointEvery}, and trials are looked at every ${study.least} steps: it must divide that`,
    );
  const isPopulation = study.schedule === "population";
  if (isPopulation && study.least < 2) fail("invalid_argument", "a population is looked at every 2 steps at most");
  if (isPopulation && settings.checkpointEvery === 1)
    fail("invalid_argument", "checkpoint_every is 1: a population needs 2 or more");
  if (isPopulation && !["", "none"].includes(settings.assurance))
    fail("invalid_argument", "a population copies states before they are checked: choose assurance none");
  return settingsToSpec({
    ...settings,
    // All trials are compared with each other, so all of them compute the same bits wherever they run.
    numerics: settings.numerics || "portable",
    assurance: isPopulation ? "none" : settings.assurance,
    validateEvery: study.least,
    checkpointEvery: settings.checkpointEvery || checkpointEveryUsual(study.least),
  });
}

function checkpointEveryUsual(least: number): number {
  for (let every = Math.min(least, checkpointEveryMost); every > 1; every--) if (least % every === 0) return every;
  return least > checkpointEveryMost ? 1 : least;
}

function fieldOf(name: string): Searched | undefined {
  return searched.find(({ field, flag }) => field === name || flag === name);
}

function checkDimension(dimension: Dimension): void {
  const { name } = dimension;
  const field = fieldOf(name);
  if (!field) {
    const names = searched.map((one) => one.flag ?? one.field);
    fail("invalid_argument", `space.${name}: no setting that can be searched: there are ${names.join(", ")}`);
  }
  const values: readonly Value[] = dimension.kind === "choice" ? dimension.values : [dimension.low, dimension.high];
  for (const value of values) checkValue(field, value);
  if ("least" in field && !field.fraction && dimension.kind === "number")
    fail("invalid_argument", `space.${name}: it takes whole numbers: use integer or log-integer`);
}

function checkValue(field: Searched, value: Value): void {
  if ("least" in field) {
    if (typeof value !== "number")
      fail("invalid_argument", `space.${field.flag ?? field.field}: "${value}" is no number`);
    checkedNumber(field, value, refuseRequest);
  } else if ("choices" in field) checkedChoice(field, String(value), refuseRequest);
  else if (typeof value !== "string")
    fail("invalid_argument", `space.${field.flag ?? field.field}: ${String(value)} is no text`);
}

/** Networks that trials may use. */
export function networksOf({ study, train }: StudyAsked): readonly string[] {
  const dimension = study.space.find(({ name }) => name === "network");
  if (dimension?.kind === "choice") return dimension.values.map(String);
  return typeof train["network"] === "string" ? [train["network"]] : [];
}

/** What a trial trains by. One that copies another's state has fewer steps left, and sees other samples first. */
export function trialSpec(
  { study, train }: Pick<StudyRecord, "study" | "train">,
  trial: { readonly number: number; readonly settings: Settings; readonly parent?: { readonly step: number } },
  copied: string | undefined,
): JsonObject {
  const spec: Record<string, unknown> = { ...train, steps: String(study.most - (trial.parent?.step ?? 0)) };
  for (const [name, value] of Object.entries(trial.settings)) place(spec, pathOf(name), value);
  if (copied !== undefined) {
    spec["initialState"] = copied;
    spec["seed"] = String(Number(spec["seed"] ?? 1) + trial.number);
  }
  return spec;
}

/** As JSON spells it. */
function pathOf(name: string): readonly string[] {
  const { field } = fieldOf(name) as Searched;
  return field.split(".").map((part) => part.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()));
}

function place(spec: Record<string, unknown>, [first, ...rest]: readonly string[], value: Value): void {
  if (first === undefined) return;
  if (rest.length === 0) {
    spec[first] = value;
    return;
  }
  const inner = { ...(spec[first] as Record<string, unknown> | undefined) };
  spec[first] = inner;
  place(inner, rest, value);
}
