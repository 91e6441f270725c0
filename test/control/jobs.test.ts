// Jobs on production orchestrators in virtual time, with PNodes that act: submitted once, started whole, suspended at their
// line for urgent ones, bounded by quotas, and told why they wait in one sentence.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RoomChecker } from "../../simulation/checks/rooms.ts";
import { hasCode } from "../../src/core/errors.ts";
import { keyIdOf } from "../../src/core/keys.ts";
import type { JobRecord } from "../../src/orchestrator/records/jobs.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { type Job, JobService, type JobSpec } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { RightsService } from "../../src/protocol/gen/dcnr/v1/rights_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { RequestInit } from "../../src/protocol/network.ts";
import { Stage } from "./stage.ts";

const megabyte = 2 ** 20;
/** Three VNodes of the chain need a little over 12 MB beside what a PNode keeps for itself. */
const roomForOne = { limits: { memoryBytes: BigInt(141 * megabyte) } };

type SpecInit = Exclude<NonNullable<RequestInit<typeof JobService.method.submitJobs>["jobs"]>[number], JobSpec>;

const training = (seed: number, more: Record<string, unknown> = {}) =>
  JSON.stringify({
    network: "chain",
    dataset: "data",
    split: "all",
    steps: 20,
    batch: 4,
    microbatches: 2,
    numerics: "reference",
    checkpoint_every: 2,
    seed,
    ...more,
  });

const train = (seed: number, more: Partial<SpecInit> = {}): SpecInit => ({
  kind: "train",
  spec: training(seed),
  ...more,
});

/** Nobody is asked to give way before. */
const quantumMs = 10_000;

async function staged(names: readonly string[] = ["o1"], seed = 1): Promise<Stage> {
  const stage = new Stage(seed);
  for (const name of names) await stage.orchestrator(name, {}, { quantumMs });
  // Network and dataset come with a session that nobody starts.
  await stage.session({ seed: 999n }, names[0], false);
  return stage;
}

async function submit(stage: Stage, jobs: readonly SpecInit[], owner = "", name?: string): Promise<Job[]> {
  return (await stage.call(JobService.method.submitJobs, { jobs: [...jobs], owner }, name)).jobs;
}

const jobOf = async (stage: Stage, id: string) => (await stage.call(JobService.method.getJob, { id })).job as Job;

const until = (stage: Stage, id: string, status: string, limitMs = 600_000) =>
  stage.untilRecord<JobRecord>(`${id} is ${status}`, `job/${id}`, (job) => job.status === status, limitMs);

const refused = (code: string, sentence: RegExp) => (thrown: unknown) => {
  assert.ok(hasCode(thrown, code as never), String(thrown));
  assert.match((thrown as Error).message, sentence);
  return true;
};

describe("jobs", () => {
  it("start whole when there is room, one after the other, each once however often it is submitted", async () => {
    const stage = await staged();
    const wrong: string[] = [];
    const checker = new RoomChecker((atMs, message) => wrong.push(`${atMs}: ${message}`));
    stage.store.onWrite((write) => checker.wrote(write));
    const [first] = await submit(stage, [train(1, { key: "a" })]);
    const [again] = await submit(stage, [train(1, { key: "a" })]);
    assert.equal(first?.id, again?.id);
    await assert.rejects(submit(stage, [train(2, { key: "a" })]), refused("already_exists", /another spec/));
    const [second] = await submit(stage, [train(2, { key: "b" })]);
    await stage.pass(500);
    const waiting = await jobOf(stage, second?.id as string);
    assert.equal(waiting.status, "pending");
    assert.match(waiting.reason, /no PNode is online/);
    stage.pnode("p0", { stepMs: 50, register: roomForOne });
    await until(stage, first?.id as string, "running");
    await stage.pass(300);
    const behind = await jobOf(stage, second?.id as string);
    assert.match(behind.reason, /needs 1\d MB of memory for its 3 VNodes at once; .* free of/);
    assert.equal(behind.position, 1);
    assert.ok(behind.expectedStartWallMs > 0n, "its start is known from the other's end");
    const done = await until(stage, first?.id as string, "done");
    assert.equal(done.result?.["steps"], "20");
    assert.deepEqual(
      done.life.map(({ kind }) => kind),
      ["submitted", "started", "done"],
    );
    await until(stage, second?.id as string, "done");
    await stage.pass(1_000);
    assert.deepEqual(wrong, []);
    assert.deepEqual(checker.claims(), [], "all room was given back");
    await stage.stop();
  });

  it("of one request start in its order", async () => {
    const stage = await staged();
    const jobs = await submit(
      stage,
      Array.from({ length: 6 }, (_, i) => train(i + 1)),
    );
    stage.pnode("p0", { stepMs: 20, register: roomForOne });
    for (const { id } of jobs) await until(stage, id, "done");
    const started = await Promise.all(jobs.map(async ({ id }) => (await jobOf(stage, id)).startedWallMs));
    assert.deepEqual(
      started,
      started.toSorted((a, b) => Number(a - b)),
    );
    await stage.stop();
  });

  it("wait for those they need, and fail with them", async () => {
    const stage = await staged();
    const jobs = await submit(stage, [
      train(3, { name: "third", needs: ["second"] }),
      train(2, { name: "second", needs: ["first"] }),
      train(1, { name: "first" }),
    ]);
    const [third, second, first] = jobs.map(({ id }) => id) as [string, string, string];
    await stage.pass(300);
    assert.match((await jobOf(stage, second)).reason, /waits for job first/);
    stage.pnode("p0", { stepMs: 20 });
    await until(stage, first, "done");
    await until(stage, second, "running");
    await stage.call(JobService.method.cancelJob, { id: second });
    const failed = await until(stage, third, "failed");
    assert.match(failed.reason, /job second .* which it needs, was cancelled/);
    await stage.stop();
  });

  it("are refused with a sentence where they make no sense, and nothing of the request is kept", async () => {
    const stage = await staged();
    const circle = [train(1, { name: "a", needs: ["b"] }), train(2, { name: "b", needs: ["a"] })];
    await assert.rejects(submit(stage, circle), refused("invalid_argument", /a needs b needs a/));
    await assert.rejects(
      submit(stage, [{ kind: "bake", spec: "{}" }]),
      refused("invalid_argument", /no kind of job "bake"/),
    );
    await assert.rejects(submit(stage, [train(1, { queue: "nowhere" })]), refused("not_found", /no queue nowhere/));
    await assert.rejects(submit(stage, [train(1, { priority: "vip" })]), refused("invalid_argument", /priority "vip"/));
    await assert.rejects(submit(stage, [train(1, { needs: ["job-x"] })]), refused("not_found", /needs job-x/));
    await assert.rejects(
      submit(stage, [{ kind: "train", spec: training(1, { network: "nothing" }) }]),
      refused("not_found", /no network nothing/),
    );
    await assert.rejects(
      stage.call(JobService.method.setQueue, { name: "q", nominal: { gpus: -1 } }),
      refused("invalid_argument", /GPUs of nominal is -1; a quota is 0 or more/),
    );
    await stage.call(JobService.method.setQueue, { name: "small", pendingMax: 1 });
    await submit(stage, [train(1, { queue: "small" })]);
    await assert.rejects(
      submit(stage, [train(2, { queue: "small" })]),
      refused("resource_exhausted", /1 jobs wait in queue small, which takes 1: none of the 1 was taken/),
    );
    const { jobs } = await stage.call(JobService.method.listJobs, {});
    assert.equal(jobs.length, 1);
    await stage.stop();
  });

  it("that nobody can host say so, and name the nearest that could", async () => {
    const stage = await staged();
    stage.pnode("p0", { register: { capabilities: { cores: 2 } } });
    stage.pnode("p1", { register: { capabilities: { cores: 8 } } });
    await stage.pass(1_500);
    const [job] = await submit(stage, [train(1, { requirements: { cpus: 64 } })]);
    const shown = await jobOf(stage, job?.id as string);
    assert.equal(shown.wait, "never");
    assert.match(
      shown.reason,
      /can never start .* needs 64 cores; the most that one of 2 PNodes lends is 8 \(the nearest is p1\)/,
    );
    await stage.stop();
  });

  it("with a price ceiling wait while everybody asks for more, and start where somebody asks for nothing", async () => {
    const stage = await staged();
    for (const [name, pricePerHour] of Object.entries({ p0: 0.3, p1: 0.2 }))
      stage.pnode(name, { stepMs: 50, register: { ...roomForOne, pricePerHour } });
    await stage.pass(2_000);
    const requirements = { maxPricePerHour: 0.0001 };
    const [job] = await submit(stage, [train(1, { requirements })]);
    const { id } = job as Job;
    await stage.pass(5_000);
    const { status, reason } = await jobOf(stage, id);
    assert.equal(status, "pending");
    assert.match(
      reason,
      /needs a price of at most 0.0001 an hour; the cheapest of 2 PNodes costs 0.2 \(the nearest is p1\)/,
    );
    stage.pnode("p2", { stepMs: 50, register: roomForOne });
    await until(stage, id, "done");
    await stage.stop();
  });

  it("give way to an urgent one at their recovery line, and go on later to the same end", async () => {
    const stage = await staged(["o1"]);
    const wrong: string[] = [];
    const checker = new RoomChecker((atMs, message) => wrong.push(`${atMs}: ${message}`));
    stage.store.onWrite((write) => checker.wrote(write));
    stage.pnode("p0", { stepMs: 1_000, register: roomForOne });
    await stage.pass(1_500);
    const [slow] = await submit(stage, [train(1)]);
    await until(stage, slow?.id as string, "running");
    await stage.pass(5_000);
    const [urgent] = await submit(stage, [train(2, { priority: "urgent" })]);
    await stage.pass(3_000);
    assert.equal((await jobOf(stage, slow?.id as string)).status, "running", "it has not run for its quantum yet");
    await until(stage, urgent?.id as string, "running");
    await until(stage, slow?.id as string, "suspended");
    const given = await jobOf(stage, slow?.id as string);
    assert.equal(given.status, "suspended");
    assert.equal(given.preemptions, 1);
    const { line } = (await stage.sessionRecord(given.session)) as SessionRecord;
    assert.ok(line >= 8, `it stopped at its line, ${line}`);
    await until(stage, urgent?.id as string, "done", 3_600_000);
    const done = await until(stage, slow?.id as string, "done", 3_600_000);
    assert.deepEqual(
      done.life.map(({ kind }) => kind),
      ["submitted", "started", "preempted", "suspended", "started", "done"],
    );
    assert.equal(done.result?.["steps"], "20");
    assert.deepEqual(wrong, []);
    await stage.stop();
  });

  it("keep to the quotas of queue and owner, borrow what is idle, and give it back", async () => {
    const stage = await staged();
    const set = (name: string, more: object) =>
      stage.call(JobService.method.setQueue, { name, cohort: "lab", ...more });
    await set("day", { nominal: { jobs: 2 }, ownerMax: { jobs: 1 } });
    await set("night", { nominal: { jobs: 1 } });
    stage.pnode("p0", { stepMs: 10_000 });
    await stage.pass(1_500);
    const own = await submit(stage, [train(1, { queue: "day" })], "anna");
    await stage.pass(1_000);
    own.push(...(await submit(stage, [train(2, { queue: "day" })], "anna")));
    await stage.pass(1_000);
    assert.equal((await jobOf(stage, own[0]?.id as string)).status, "running");
    assert.match(
      (await jobOf(stage, own[1]?.id as string)).reason,
      /anna uses 1 running job of at most 1 running job in queue day/,
    );
    const night = await submit(
      stage,
      [train(3, { queue: "night" }), train(4, { queue: "night" }), train(5, { queue: "night" })],
      "bert",
    );
    await stage.pass(1_000);
    const { queues } = await stage.call(JobService.method.listQueues, {});
    assert.equal(queues.find(({ name }) => name === "night")?.borrowed?.jobs, 1);
    assert.match((await jobOf(stage, night[2]?.id as string)).reason, /others leave too little idle/);
    const [carl] = await submit(stage, [train(6, { queue: "day" })], "carl");
    await stage.pass(1_000);
    assert.match(
      (await jobOf(stage, carl?.id as string)).reason,
      /queue day has 2 running jobs of its own, of which night has borrowed 1 running job/,
    );
    await stage.pass(40_000);
    await until(stage, carl?.id as string, "running");
    const back = await Promise.all(night.map(({ id }) => jobOf(stage, id)));
    assert.equal(back.filter(({ status }) => status === "running").length, 1, "what was borrowed is back");
    assert.equal(back.filter(({ preemptions }) => preemptions === 1).length, 1);
    await stage.stop();
  });

  it("are held with their session, resumed with it, cancelled and let go on", async () => {
    const stage = await staged();
    stage.pnode("p0", { stepMs: 2_000 });
    await stage.pass(1_500);
    const [job] = await submit(stage, [train(1)]);
    const id = job?.id as string;
    const session = job?.session as string;
    await until(stage, id, "running");
    await stage.call(SessionService.method.suspendSession, { id: session });
    await until(stage, id, "suspended");
    await stage.pass(10_000);
    assert.equal((await jobOf(stage, id)).wait, "held");
    await stage.call(SessionService.method.startSession, { id: session });
    await until(stage, id, "running");
    await stage.call(JobService.method.cancelJob, { id });
    await stage.pass(5_000);
    assert.equal((await stage.sessionRecord(session))?.status, "suspended");
    assert.ok((await stage.vnodes(session)).every(({ members }) => members.length === 0));
    await stage.call(JobService.method.retryJob, { id });
    await until(stage, id, "done");
    const { events } = await stage.call(JobService.method.listJobLogs, { id });
    assert.ok(events.some(({ kind }) => kind === "job.retried"));
    assert.ok(events.some(({ kind }) => kind === "session.done"));
    await stage.stop();
  });

  it("are refused with texts that would fill the lists of jobs, which everybody reads", async () => {
    const stage = await staged();
    const long = "x".repeat(100_000);
    for (const job of [train(1, { key: long }), train(1, { requirements: { region: long } }), train(1, { name: long })])
      await assert.rejects(submit(stage, [job]), (error) => hasCode(error, "invalid_argument"));
    assert.deepEqual((await stage.call(JobService.method.listJobs, {})).jobs, []);
    await stage.stop();
  });

  it("are shown whole to keys that may see them, by id and by name, and listed without what was asked", async () => {
    const stage = await staged();
    const ada = keyIdOf(new TextEncoder().encode("Ada"));
    await stage.call(RightsService.method.admitKey, { key: ada, owner: "Ada", scopes: ["train"], ownOnly: true });
    const [job] = await submit(stage, [train(1, { name: "secret" })], "Ben");
    const { getJob, listJobLogs, listJobs } = JobService.method;
    for (const id of [job?.id as string, "secret"])
      for (const method of [getJob, listJobLogs])
        await assert.rejects(stage.callAs(ada, method, { id }), /limited to what Ada made/);
    const stranger = keyIdOf(new TextEncoder().encode("nobody"));
    await assert.rejects(stage.callAs(stranger, getJob, { id: "secret" }), /no rights here/);
    const { jobs } = await stage.callAs(stranger, listJobs, {});
    assert.deepEqual(
      jobs.map(({ spec }) => spec?.spec),
      [""],
    );
    await stage.stop();
  });

  it("go on when their session is resumed before they have let it go", async () => {
    const stage = await staged();
    stage.pnode("p0", { stepMs: 2_000 });
    await stage.pass(1_500);
    const [job] = await submit(stage, [train(1)]);
    const id = job?.id as string;
    const session = job?.session as string;
    await until(stage, id, "running");
    for (let times = 0; times < 3; times++) {
      await stage.call(SessionService.method.suspendSession, { id: session });
      await stage.call(SessionService.method.startSession, { id: session });
    }
    await until(stage, id, "done");
    await stage.stop();
  });

  it("are started by another orchestrator when the one that committed dies before it started them", async () => {
    const stage = await staged(["o1", "o2"]);
    stage.pnode("p0", { stepMs: 50, orchestrators: ["o2.test:7400"] });
    await stage.pass(1_500);
    let died = false;
    stage.store.onWrite(({ key, after, host }) => {
      if (died || host !== "o1" || !key.startsWith("job/") || !after?.includes('"status":"running"')) return;
      died = true;
      stage.world.host("o1")?.crash(false);
    });
    const parts = stage.orchestrators.get("o1")?.parts;
    assert.ok(await stage.settled(parts?.leases.holdCohort("default") as Promise<boolean>));
    const submitted = stage.call(JobService.method.submitJobs, { jobs: [train(1)] }, "o1");
    const [job] = (await submitted).jobs;
    await stage.until("o1 dies", () => died);
    stage.orchestrators.delete("o1");
    await until(stage, job?.id as string, "done");
    await stage.stop();
  });
});
