// Jobs on production orchestrators in virtual time: trainings, evaluations of what others trained, studies, data jobs. PNodes that
// act and processes that work on data come and go, orchestrators die, the store loses replies.
// Every write of the store is checked by hand: room and quota are claimed before a job runs, none is passed, lines never
// run ahead of what is stored, and in the end every job is done with what comes of it where nobody disturbs, and nothing is left claimed.

import type { CohortRecord, JobRecord } from "../../src/orchestrator/records/jobs.ts";
import type { RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { seeded } from "../../src/scheduler/placement.testing.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { Stage } from "../../test/control/stage.ts";
import { RoomChecker } from "../checks/rooms.ts";
import type { AcceptedWrite } from "../world/store.ts";
import { resultOfData, startDataWorker } from "./data-worker.ts";
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

/** The newest records, for checks and mutants. */
export class Seen {
  readonly records = new Map<string, object>();

  get<T extends object>(key: string): T | undefined {
    return this.records.get(key) as T | undefined;
  }
}

const megabyte = 2 ** 20;
/** A chain's three VNodes need a little over 12 MB beside what a PNode keeps for itself. */
const roomFor = (gangs: number) => ({ limits: { memoryBytes: BigInt((128 + 13 * gangs) * megabyte) } });
const quotas = { day: 3, night: 2 };
const owners = ["anna", "bert", "carl"];

export async function runJobWorld(
  seed: number,
  { jobs: count = 24, patienceMs = 1_800_000, store }: JobWorldOptions = {},
): Promise<JobWorldReport> {
  const seen = new Seen();
  const stage = new Stage(seed, store && ((view) => store(view, seen)));
  const checker = new JobChecker(seen);
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
    });
  const machines = new Map(["p0", "p1", "p2"].map((name) => [name, machine(name)]));
  startDataWorker(stage, "worker", random);
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
  if (draw < 0.35) return ["data", { steps: { pages: { files: "pages.jsonl" } }, save: { corpus: "pages" } }];
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

class JobChecker {
  readonly #seen: Seen;
  readonly #rooms: RoomChecker;
  /** Claims by session that went with a machine which began anew: nobody can commit and have no machine die in between. */
  readonly #died = new Map<string, number>();
  readonly violations: string[] = [];

  constructor(seen: Seen) {
    this.#seen = seen;
    this.#rooms = new RoomChecker((atMs, message) => this.wrong(atMs, message));
  }

  wrong(atMs: number, message: string): void {
    if (this.violations.length < 20) this.violations.push(`${Math.round(atMs)} ms: ${message}`);
  }

  wrote(write: AcceptedWrite): void {
    const { atMs, key, after } = write;
    const before = this.#seen.records.get(key);
    if (after === undefined) this.#seen.records.delete(key);
    else this.#seen.records.set(key, JSON.parse(after) as object);
    this.#rooms.wrote(write);
    const now = this.#seen.records.get(key);
    if (key.startsWith("room/")) this.#noteDeath(before as RoomRecord | undefined, now as RoomRecord | undefined);
    if (now === undefined) return;
    if (key.startsWith("cohort/")) this.#checkQuota(atMs, now as CohortRecord);
    if (key.startsWith("job/")) this.#checkStart(atMs, now as JobRecord, before as JobRecord | undefined);
    if (key.startsWith("session/")) this.#checkLine(atMs, now as SessionRecord);
  }

  #noteDeath(before: RoomRecord | undefined, now: RoomRecord | undefined): void {
    if (before === undefined || before.life === now?.life) return;
    for (const { session } of Object.values(before.claims)) this.#died.set(session, (this.#died.get(session) ?? 0) + 1);
  }

  #checkQuota(atMs: number, { queues, claims }: CohortRecord): void {
    const nominal = Object.values(queues).reduce((sum, queue) => sum + (queue.nominal.jobs ?? 0), 0);
    const used = Object.values(claims).reduce((sum, { amounts }) => sum + amounts.jobs, 0);
    if (queues["day"] && queues["night"] && used > nominal)
      this.wrong(atMs, `quota: ${used} jobs have claims of ${nominal}`);
  }

  /** The commit: by then there is quota for it, and room for all of its VNodes. */
  #checkStart(atMs: number, job: JobRecord, before: JobRecord | undefined): void {
    if (job.status !== "running" || before?.status === "running") return;
    const lab = this.#seen.get<CohortRecord>("cohort/lab");
    if (job.queue !== "default" && lab?.claims[job.id]?.epoch !== job.epoch)
      this.wrong(atMs, `quota: ${job.id} runs and has claimed none`);
    const others = Array.from(this.#seen.records.values()).filter(
      (one): one is JobRecord =>
        "submittedWallMs" in one &&
        (one as JobRecord).status === "running" &&
        (one as JobRecord).queue !== "default" &&
        // A study is what its trials are.
        !(one as JobRecord).coordinates,
    );
    if (others.length > quotas.day + quotas.night)
      this.wrong(atMs, `quota: ${others.length} jobs of the cohort run at once`);
    const claims = Array.from(this.#seen.records).flatMap(([name, one]) =>
      name.startsWith("room/") ? Object.values((one as RoomRecord).claims) : [],
    );
    const alive = claims.filter(({ session }) => session === job.session).length;
    const claimed = alive + (this.#died.get(job.session ?? "") ?? 0);
    if (claimed < (job.demand?.vnodes ?? 0)) this.wrong(atMs, `gang: ${job.id} starts with room for ${claimed} VNodes`);
  }

  #checkLine(atMs: number, { id, line, vnodes, status }: SessionRecord): void {
    if (line === 0 || status === "deleted") return;
    for (const vnode of vnodes) {
      const record = this.#seen.get<VNodeRecord>(`vnode/${id}/${vnode}`);
      if (record && !record.durable[String(line)])
        this.wrong(atMs, `line: ${id} is at ${line}, ${vnode} has not stored it`);
    }
  }

  over(ids: ReadonlySet<string>): void {
    const roots = new Set<string>();
    for (const id of ids) {
      const job = this.#seen.get<JobRecord>(`job/${id}`);
      if (job?.status !== "done") this.wrong(0, `${id} ended as ${job?.status}: ${job?.reason}`);
      else if (job.kind === "train") roots.add(job.result?.["root"] ?? "");
      else if (!isExpected(job)) this.wrong(0, `result: ${id} (${job.kind}) came to ${JSON.stringify(job.result)}`);
    }
    if (roots.size !== 1) this.wrong(0, `roots: ${roots.size} different ones`);
    const left = Object.keys(this.#seen.get<CohortRecord>("cohort/lab")?.claims ?? {});
    if (left.length > 0) this.wrong(0, `leak: quota of ${left.join(", ")} was never given back`);
    const claims = this.#rooms.claims();
    if (claims.length > 0) this.wrong(0, `leak: ${claims.length} claims of room were never given back`);
  }
}

/** What comes of a job that does not train. */
function isExpected({ kind, key, result = {} }: JobRecord): boolean {
  if (kind === "data") return result["corpus"] === resultOfData(key).corpus;
  // All of one formula, at the only step.
  if (kind === "evaluate") return Number(result["loss"]) > 0 && result["samples"] !== undefined;
  return result["trial"] !== undefined && Number(result["steps"]) === study.steps;
}
