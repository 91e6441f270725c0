// Every setting of a session, once: what it is called on the command line and in the API, which values it may have, and
// what it is unless somebody says. Flags, orchestrators and PNodes all check by this table, each in its own words.

import { fail } from "../../core/errors.ts";

interface Field {
  /** In the API's messages, and so in errors. */
  readonly field: string;
  /** On the command line; absent where it cannot be said there. */
  readonly flag?: string;
  /** What for, in the words of the command line. */
  readonly summary?: string;
}

export interface NumberField extends Field {
  readonly least: number;
  readonly most: number;
  readonly fraction?: true;
  /** What 0 in a message stands for: nobody said anything. */
  readonly usual?: number;
}

export interface ChoiceField<T extends string> extends Field {
  readonly choices: readonly T[];
  /** What "" in a message stands for. */
  readonly usual?: T;
}

export interface TextField extends Field {
  readonly usual?: string;
}

const stepsMost = 100_000_000;
/** All tie and activation messages of a step carry a microbatch index of 15 bits on the wire at most. */
const microbatchesMost = 1_024;
const bytesMost = Number.MAX_SAFE_INTEGER;

const number = <T extends NumberField>(field: T): T => field;
const choice = <T extends string, F extends ChoiceField<T>>(field: F & ChoiceField<T>): F => field;
const text = <T extends TextField>(field: T): T => field;

export const settingFields = {
  split: text({ field: "split", flag: "split", summary: "split of the dataset", usual: "train" }),
  validationSplit: text({
    field: "validation_split",
    flag: "validation-split",
    summary: "split to validate on",
    usual: "validation",
  }),
  steps: number({
    field: "steps",
    flag: "steps",
    least: 1,
    most: stepsMost,
    summary: "steps to train (default 200, or as many as --time allows)",
  }),
  epochs: number({
    field: "epochs",
    flag: "epochs",
    least: 1e-6,
    most: stepsMost,
    fraction: true,
    summary: "train this many epochs instead of --steps",
  }),
  batch: number({ field: "batch", flag: "batch", least: 1, most: 65_536, usual: 32, summary: "samples in a step" }),
  microbatches: number({
    field: "microbatches",
    flag: "microbatches",
    least: 1,
    most: microbatchesMost,
    summary: "pieces of a batch that travel on their own (default: 4, or what divides it)",
  }),
  lanes: number({
    field: "lanes",
    flag: "lanes",
    least: 1,
    most: 64,
    usual: 1,
    summary: "copies of the whole network, each with its share of every batch",
  }),
  /** No usual value: 0 stands for no rounds. */
  syncEvery: number({
    field: "sync_every",
    flag: "sync-every",
    least: 1,
    most: 100_000,
    summary: "steps that lanes learn apart before what they learned is put together (default: none)",
  }),
  syncAfter: number({
    field: "sync_after",
    flag: "sync-after",
    least: 1,
    most: stepsMost,
    summary: "steps before lanes learn apart (default: 200, or a hundredth of all)",
  }),
  seed: number({
    field: "seed",
    flag: "seed",
    least: 0,
    most: Number.MAX_SAFE_INTEGER,
    usual: 1,
    summary: "decides initial weights, order of samples and dropout",
  }),
  numerics: choice({
    field: "numerics",
    flag: "numerics",
    choices: ["native", "portable", "reference", "webgpu", "cuda", "exact", "mixed"],
    summary:
      "native (fast), portable (the same bits on every processor), webgpu (GPUs of one kind), cuda (NVIDIA's, where its libraries were added), exact (the same bits on processors, tabs and GPUs, slower) or mixed (with --elastic on: machines of all kinds, a lane on one kind) (default: native if a PNode has it)",
  }),
  schedule: choice({
    field: "learning_rate.schedule",
    flag: "schedule",
    choices: ["constant", "cosine"],
    usual: "constant",
    summary: "learning rate over time: constant or cosine",
  }),
  /** Not 0, which stands for the usual one. */
  rate: number({
    field: "learning_rate.base",
    flag: "rate",
    least: 1e-30,
    most: 1_000,
    fraction: true,
    usual: 0.001,
    summary: "learning rate",
  }),
  warmup: number({
    field: "learning_rate.warmup_steps",
    flag: "warmup",
    least: 0,
    most: stepsMost,
    usual: 0,
    summary: "steps until the rate is reached",
  }),
  finalShare: number({ field: "learning_rate.final_share", least: 0, most: 1, fraction: true }),
  clipNorm: number({
    field: "clip_norm",
    flag: "clip-norm",
    least: 0,
    most: 1e9,
    fraction: true,
    usual: 0,
    summary: "largest gradient norm of a VNode; 0: no clipping",
  }),
  validateEvery: number({
    field: "validate_every",
    flag: "validate-every",
    least: 0,
    most: stepsMost,
    usual: 0,
    summary: "steps between validations; 0: never",
  }),
  validationMicrobatches: number({ field: "validation_microbatches", least: 1, most: microbatchesMost }),
  /** Step hashes between two checkpoints must fit into a record of the store. */
  checkpointEvery: number({
    field: "checkpoint_every",
    flag: "checkpoint-every",
    least: 1,
    most: 1_000,
    summary:
      "steps between checkpoints (default: 20, fewer for lanes of a large network, and in rounds their ends alone)",
  }),
  replicas: number({
    field: "replicas",
    flag: "replicas",
    least: 1,
    most: 5,
    usual: 1,
    summary: "PNodes that execute each VNode",
  }),
  spread: number({
    field: "spread",
    flag: "spread",
    least: 1,
    most: 100_000,
    usual: 1,
    summary: "PNodes to use at least; 1: as many as make it fast",
  }),
  budget: number({
    field: "budget",
    flag: "budget",
    least: 0,
    most: Number.MAX_SAFE_INTEGER,
    usual: 0,
    summary: "credits to spend at most; 0: no bound",
  }),
  autonomy: choice({
    field: "autonomy",
    flag: "autonomy",
    choices: ["off", "on"],
    usual: "off",
    summary: "on: goes on while no orchestrator is there; each state travels to two more PNodes",
  }),
  elastic: choice({
    field: "elastic",
    flag: "elastic",
    choices: ["off", "on"],
    usual: "off",
    summary:
      "on: in rounds, fast lanes take more steps than slow ones, lanes come and go, and rounds close without late ones; its bits then depend on that",
  }),
  eras: choice({
    field: "eras",
    flag: "eras",
    choices: ["off", "on"],
    usual: "off",
    summary:
      "on: goes on in another numerics class from the recovery line when the last machine of its own is gone; its bits then depend on that",
  }),
  assurance: choice({
    field: "assurance",
    flag: "assurance",
    choices: ["none", "sampled", "checked", "proven"],
    summary: "none, sampled, checked or proven results (default: sampled in a network open to strangers, else none)",
  }),
  cap: choice({
    field: "cap",
    flag: "cap",
    choices: ["off", "on"],
    usual: "off",
    summary:
      "on: where results are checked, refuse states that moved further than the optimizer can between two checkpoints; the orchestrator reads each state for that",
  }),
  strangers: number({
    field: "strangers",
    flag: "strangers",
    least: 1,
    most: 5,
    usual: 1,
    summary: "machines of other owners and networks that repeat each interval of a checked session",
  }),
  /** Flags named apart from what `dcnr join` lends, which may stand in the same settings file. */
  cpus: number({
    field: "requirements.cpus",
    flag: "needs-cpus",
    least: 0,
    most: 4_096,
    summary: "cores that a PNode must lend at least",
  }),
  memoryBytes: number({ field: "requirements.memory_bytes", flag: "needs-memory", least: 0, most: bytesMost }),
  gpus: number({
    field: "requirements.gpus",
    flag: "needs-gpus",
    least: 0,
    most: 1_024,
    summary: "GPUs that a PNode must have",
  }),
  gpuMemoryBytes: number({
    field: "requirements.gpu_memory_bytes",
    flag: "needs-gpu-memory",
    least: 0,
    most: bytesMost,
  }),
  region: text({ field: "requirements.region", flag: "needs-region", summary: "only PNodes of this region" }),
  provider: text({
    field: "requirements.provider",
    flag: "needs-provider",
    summary: "only PNodes that come from this provider",
  }),
  trust: choice({
    field: "requirements.trust",
    flag: "needs-trust",
    choices: ["untrusted", "known", "trusted"],
    summary: "untrusted, known or trusted PNodes",
  }),
  priority: number({
    field: "requirements.priority",
    flag: "priority",
    least: -1_000,
    most: 1_000,
    summary: "higher goes first where PNodes are scarce",
  }),
  maxPricePerHour: number({ field: "requirements.max_price_per_hour", least: 0, most: 1e9, fraction: true }),
  maxRuntimeSeconds: number({ field: "max_runtime_seconds", flag: "time", least: 0, most: 1e10, fraction: true }),
} as const;

/** Refuses with a sentence about what is wrong. */
export type Refuse = (sentence: string) => never;

/** Of what a client asks for. */
export const refuseRequest: Refuse = (sentence) => fail("invalid_argument", sentence);

/** Of what an orchestrator says: no orchestrator that is right would say it. */
export function refuseTold(session: string): Refuse {
  return (sentence) => fail("data_loss", `the settings of session ${session} are not possible: ${sentence}`);
}

/** Whole numbers that may be large travel as bigint. */
export function checkedNumber(field: NumberField, given: number | bigint, refuse: Refuse): number {
  const value = Number(given);
  const { least, most, fraction } = field;
  const isRightKind = fraction ? Number.isFinite(value) : Number.isSafeInteger(value);
  if (isRightKind && value >= least && value <= most) return value;
  return refuse(
    `${named(field)} is ${given}, expected a ${fraction ? "number" : "whole number"} from ${least} to ${most}`,
  );
}

export function checkedChoice<T extends string>(field: ChoiceField<T>, given: string, refuse: Refuse): T {
  const found = field.choices.find((one) => one === given);
  return found ?? refuse(`${named(field)} "${given}" is unknown: choose ${listed(field.choices)}`);
}

/** As a client asked: 0 stands for the usual value, where there is one. */
export function askedNumber(field: NumberField, given: number | bigint = 0): number {
  if ((given === 0 || given === 0n) && field.usual !== undefined) return field.usual;
  return checkedNumber(field, given, refuseRequest);
}

/** As a client asked: "" stands for the usual choice, or for none. */
export function askedChoice<T extends string>(field: ChoiceField<T>, given: string | undefined): T | "" {
  return given ? checkedChoice(field, given, refuseRequest) : (field.usual ?? "");
}

/** Whoever typed it knows the flag, whoever wrote a program the field. */
function named({ field, flag }: Field): string {
  return flag === undefined || flag === field ? field : `${field} (--${flag})`;
}

export function listed(choices: readonly string[]): string {
  return `${choices.slice(0, -1).join(", ")} or ${choices.at(-1)}`;
}
