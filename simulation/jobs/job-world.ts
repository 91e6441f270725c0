// Jobs on production orchestrators in virtual time: trainings, evaluations of what others trained, studies, data jobs, questions to a
// served model. PNodes that act and processes that work on data come and go, orchestrators die, the store loses replies.
// Every write of the store is checked by hand (job-checker.ts).

import type { JobRecord } from "../../src/orchestrator/records/jobs.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { seeded } from "../../src/scheduler/placement.testing.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { Stage } from "../../test/control/stage.ts";
import { resultOfData, startDataWorker } from "./data-worker.ts";
import { JobChecker, Seen } from "./job-checker.ts";
import { answersHash, backwards, questions, serveSpeaker, stopSpeaker } from "./speaker.ts";
import { measured } from "./study-world.ts";

export interface JobWorldReport {
  readonly violations: readonly string[];
  readonly done: number;
  /** How many of each kind. */
  readonly kinds: Readonly<Record<string, number>>;
  readonly preemptions: number;
  readonly virtualMs: number;
}

export interface JobWorldOptions {
  readonly jobs?: number;
  /** How long the jobs may take after the last was submitted. */
  readonly patienceMs?: number;
  /** A broken store in the place of a sound one. */
  readonly store?: (view: StateStore, seen: Seen) => StateStore;
}

const megabyte = 2 ** 20;
/** A chain's three VNodes need a little over 12 MB beside what a PNode keeps for itself. */
const roomFor = (gangs: number) => ({
  limits: { memoryBytes: BigInt((128 + 13 * gangs) * megabyte) },
  capabilities: {
    numerics: [
      { engine: "reference", class: "reference" },
      { engine: "native", class: "one" },
    ],
  },
});
const quotas = { day: 3, night: 2 };
const owners = ["anna", "bert", "carl"];

export async function runJobWorld(
  seed: number,
  { jobs: count = 24, patienceMs = 1_800_000, store }: JobWorldOptions = {},
): Promise<JobWorldReport> {
  const seen = new Seen();
  const stage = new Stage(seed, store && ((view) => store(view, seen)));
  const answers = await answersHash();
  const checker = new JobChecker(seen, (job) => isExpected(job, answers));
  stage.store.onWrite((write) => checker.wrote(write));
  const random = seeded(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const rules = { quantumMs: 3_000, mustStartMs: 60_000, ageMs: 60_000 };
  const names = ["o1", "o2"];
  for (const name of names) await stage.orchestrator(name, {}, rules);
  await stage.session({ seed: 999n }, "o1", false);
  for (const [name, most] of Object.entries(quotas))
    await stage.call(JobService.method.setQueue, { name, cohort: "lab", nominal: { jobs: most } });
  const machine = (name: string) =>
    stage.pnode(name, {
      stepMs: 100 + Math.floor(random() * 300),
      register: roomFor(1 + Math.floor(random() * 2)),
      measure: measured,
      answer: backwards,
    });
  const machines = new Map(["p0", "p1", "p2"].map((name) => [name, machine(name)]));
  startDataWorker(stage, "worker", random);
  await stage.until("PNodes attach", () => Array.from(machines.values()).every(({ attachedTo }) => attachedTo !== ""));
  await serveSpeaker(stage);
  const ids = new Set<string>();
  const trained: string[] = [];
  for (let index = 0; index < count && checker.violations.length === 0; index++) {
    const [kind, spec] = drawn(index, random(), trained.length > 0 ? pick(trained) : undefined);
    const source = (spec as { source?: string }).source;
    const others = ids.size > 0 && random() < 0.2 ? [pick(Array.from(ids))] : [];
    const asked = {
      kind,
      key: `job ${index}`,
      queue: pick(["day", "night", "night", "default"]),
      priority: pick(["low", "normal", "normal", "urgent"]),
      needs: source === undefined ? others : [source],
      timeLimitSeconds: 600,
      spec: JSON.stringify(spec),
    };
    // Whoever works on data does so for nobody in particular.
    const owner = kind === "data" ? "" : pick(owners);
    const answer = await stage
      .call(JobService.method.submitJobs, { jobs: [asked], owner }, pick(Array.from(stage.orchestrators.keys())))
      .catch(() => undefined);
    for (const { id } of answer?.jobs ?? []) {
      ids.add(id);
      if (kind === "train") trained.push(id);
    }
    stage.store.faults = { replyLost: 0.02, requestLost: 0.02, hintDropped: 0.1, hintDelayMs: 50 };
    await stage.pass(random() * 3_000);
    await disturb(stage, machines, machine, random);
  }
  stage.store.faults = { replyLost: 0, requestLost: 0, hintDropped: 0, hintDelayMs: 5 };
  for (const name of ["p0", "p1", "p2"]) if (!machines.has(name)) machines.set(name, machine(name));
  const isOver = () =>
    Array.from(ids).every((id) => ["done", "failed"].includes(seen.get<JobRecord>(`job/${id}`)?.status ?? ""));
  try {
    await stage.until("every job has ended", () => isOver() || checker.violations.length > 0, patienceMs);
    if (checker.violations.length === 0) {
      await stopSpeaker(stage);
      await stage.pass(40_000);
      checker.over(ids);
    }
  } catch {
    checker.wrong(
      stage.nowMs,
      `jobs that never end: ${Array.from(ids)
        .filter((id) => seen.get<JobRecord>(`job/${id}`)?.status !== "done")
        .slice(0, 3)
        .join(", ")}`,
    );
  }
  const all = Array.from(ids, (id) => seen.get<JobRecord>(`job/${id}`));
  await stage.stop();
  return {
    violations: checker.violations,
    done: all.filter((job) => job?.status === "done").length,
    kinds: Object.fromEntries(
      Array.from(
        Map.groupBy(all, (job) => job?.kind ?? ""),
        ([kind, some]) => [kind, some.length],
      ),
    ),
    preemptions: all.reduce((sum, job) => sum + (job?.preemptions ?? 0), 0),
    virtualMs: stage.nowMs,
  };
}

const training = {
  ...{ network: "chain", dataset: "data", split: "all", steps: 20, batch: 4, microbatches: 2 },
  ...{ numerics: "reference", checkpoint_every: 2 },
};

const study = {
  ...{ search: "random", schedule: "halving", trials: 3, steps: 12, every: 4, parallel: 2 },
  space: { rate: { "log-uniform": [1e-4, 1] } },
  train: { ...training, validation_split: "all", steps: undefined, seed: undefined },
};

/** Most train; those that evaluate need one that does. */
function drawn(index: number, draw: number, trained: string | undefined): [kind: string, spec: object] {
  if (draw < 0.15 && trained !== undefined) return ["evaluate", { source: trained, split: "all", batch: 4 }];
  if (draw < 0.22) return ["tune", { ...study, seed: index }];
  if (draw < 0.3) return ["map", questions(`answers-${index}`)];
  if (draw < 0.42) return ["data", { steps: { pages: { files: "pages.jsonl" } }, save: { corpus: "pages" } }];
  return ["train", { ...training, seed: index + 1 }];
}

type Machines = Map<string, ReturnType<Stage["pnode"]>>;

/** One machine is lost or comes back now and then; once an orchestrator dies, and another takes its place. */
async function disturb(
  stage: Stage,
  machines: Machines,
  machine: (name: string) => ReturnType<Stage["pnode"]>,
  random: () => number,
): Promise<void> {
  const draw = random();
  if (draw < 0.12 && machines.size > 1) {
    const [name, lost] = Array.from(machines)[Math.floor(random() * machines.size)] as [
      string,
      ReturnType<Stage["pnode"]>,
    ];
    lost.kill(random() < 0.5);
    machines.delete(name);
  } else if (draw < 0.3) {
    for (const name of ["p0", "p1", "p2"])
      if (!machines.has(name)) {
        machines.set(name, machine(name));
        return;
      }
  } else if (draw > 0.96 && stage.orchestrators.size > 1) {
    stage.world.host("o1")?.crash(false);
    stage.orchestrators.delete("o1");
    await stage.pass(5_000);
  }
}

/** What comes of a job that does not train. */
function isExpected({ kind, key, result = {} }: JobRecord, answers: string): boolean {
  if (kind === "map") return result["hash"] === answers;
  if (kind === "data") return result["corpus"] === resultOfData(key).corpus;
  // All of one formula, at the only step.
  if (kind === "evaluate") return Number(result["loss"]) > 0 && result["samples"] !== undefined;
  return result["trial"] !== undefined && Number(result["steps"]) === study.steps;
}
