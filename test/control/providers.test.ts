// Machines on demand on production orchestrators in virtual time: fetched for work that waits, given back when idle and never
// with work on them, found again after crashes, blocked where they are not what was offered.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../src/core/errors.ts";
import type { JobRecord } from "../../src/orchestrator/records/jobs.ts";
import type { InstanceRecord, ProviderRecord } from "../../src/orchestrator/records/providers.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { type Provider, ProviderService } from "../../src/protocol/gen/dcnr/v1/provider_pb.ts";
import { ProvidedMachines, type ProvidedOptions } from "./provided.ts";
import { Stage } from "./stage.ts";

const gigabyte = 2 ** 30;
const small = { name: "small", cores: 2, memoryBytes: BigInt(gigabyte), pricePerHour: 1, most: 4, bootSeconds: 5 };
const limits = { least: 0, most: 2, idleSeconds: 20, coolDownSeconds: 10 };

async function staged(options: ProvidedOptions = {}, names = ["o1"]) {
  const stage = new Stage(1);
  const machines = new ProvidedMachines(stage, options);
  const providers = { kinds: ["slurm"], tools: machines.tools };
  for (const name of names) await stage.orchestrator(name, { providerIntervalMs: 1_000 }, {}, { providers });
  await stage.session({ seed: 999n }, names[0], false);
  return { stage, machines };
}

const add = (stage: Stage, more: object = {}) =>
  stage.call(ProviderService.method.addProvider, { name: "lab", kind: "slurm", offers: [small], limits, ...more });

const view = async (stage: Stage, name?: string): Promise<Provider> =>
  (await stage.call(ProviderService.method.listProviders, {}, name)).providers[0] as Provider;

const spec = {
  network: "chain",
  dataset: "data",
  split: "all",
  steps: 20,
  batch: 4,
  microbatches: 2,
  numerics: "reference",
  checkpoint_every: 2,
};

async function submit(stage: Stage, seed: number, more: object = {}, name?: string): Promise<string> {
  const jobs = [{ kind: "train", spec: JSON.stringify({ ...spec, seed, ...more }) }];
  return (await stage.call(JobService.method.submitJobs, { jobs }, name)).jobs[0]?.id as string;
}

const until = (stage: Stage, id: string, status: string, limitMs = 600_000) =>
  stage.untilRecord<JobRecord>(`${id} is ${status}`, `job/${id}`, (job) => job.status === status, limitMs);

async function instances(stage: Stage): Promise<InstanceRecord[]> {
  const { items } = await stage.store.inner.list("instance/");
  return items.map(({ value }) => JSON.parse(value) as InstanceRecord);
}

const nobodyRuns = (stage: Stage, machines: ProvidedMachines) =>
  stage.until("all machines are gone", () => machines.running().length === 0, 300_000);

describe("providers", () => {
  it("fetch a machine for work that waits and give it back when it has nothing to do, never with work on it", async () => {
    const { stage, machines } = await staged();
    await add(stage);
    await stage.pass(5_000);
    assert.equal(machines.submissions, 0, "nothing is fetched without work");
    const job = await submit(stage, 1);
    await until(stage, job, "done");
    assert.equal(machines.submissions, 1);
    const [record] = await instances(stage);
    assert.equal(record?.status, "joined");
    assert.ok(record?.pnode, "the PNode is known by its invitation");
    await nobodyRuns(stage, machines);
    await stage.pass(5_000);
    assert.deepEqual(machines.endedWithWork, []);
    const [ended] = await instances(stage);
    assert.equal(ended?.status, "ended");
    assert.match(ended?.detail ?? "", /nothing to do/);
    const { spent, problem, pricePerHour } = await view(stage);
    assert.ok(spent > 0.005 && spent < 0.05, `${spent}`);
    assert.deepEqual([problem, pricePerHour], ["", 0]);
    await stage.stop();
  });

  it("are asked again when their cluster takes a machine away, and the job goes on", async () => {
    const { stage, machines } = await staged({ stepMs: 500 });
    await add(stage);
    const job = await submit(stage, 2);
    await until(stage, job, "running");
    await stage.pass(3_000);
    machines.take(machines.running()[0] as string);
    await until(stage, job, "done");
    assert.ok(machines.submissions >= 2);
    const lost = (await instances(stage)).find(({ detail }) => /preempted/.test(detail));
    assert.equal(lost?.status, "ended");
    const record = await stage.record<ProviderRecord>("provider/lab");
    assert.equal(record?.learned["small"]?.losses, 1, "its reliability is learned");
    await stage.stop();
  });

  it("are not blamed for a machine that joined and was taken away before anybody had noted that it came", async () => {
    const { stage, machines } = await staged({ stepMs: 500 });
    await add(stage);
    const job = await submit(stage, 2);
    await stage.until("it is there", () => [...machines.pnodes.values()].some((one) => one.attachedTo !== ""), 60_000);
    assert.equal((await instances(stage))[0]?.status, "started", "that it came is not noted yet");
    machines.take(machines.running()[0] as string);
    await until(stage, job, "done", 60_000);
    const lost = (await instances(stage)).find(({ detail }) => /preempted/.test(detail));
    assert.match(lost?.detail ?? "", /^it is gone/);
    const learned = (await stage.record<ProviderRecord>("provider/lab"))?.learned["small"];
    assert.deepEqual([learned?.losses, learned?.broken], [1, 0]);
    await stage.stop();
  });

  it("lose nothing by a crash: what was started is adopted by the next orchestrator, and not started twice", async () => {
    const { stage, machines } = await staged({ bootMs: 30_000 }, ["o1", "o2"]);
    machines.failsAfter = true;
    await add(stage);
    const job = await submit(stage, 3);
    await stage.until("a machine was asked for", () => machines.submissions === 1, 60_000);
    machines.failsAfter = false;
    await stage.pass(200);
    // Whoever asked dies before it has written what came of it.
    const lease = await stage.record<{ holder: string }>("lease/provider:lab");
    stage.world.hosts.find(({ name }) => name === lease?.holder)?.crash(false);
    stage.orchestrators.delete(lease?.holder ?? "");
    await until(stage, job, "done");
    assert.equal(machines.submissions, 1, "it was found, not started again");
    await nobodyRuns(stage, machines);
    await stage.stop();
  });

  it("end what carries their label and has no record", async () => {
    const { stage, machines } = await staged();
    await add(stage);
    await stage.pass(2_000);
    const label = await labelOf(stage, machines);
    machines.slurm.jobs.set("77_0", { name: `${label}straya`, state: "RUNNING", script: "", options: [] });
    machines.slurm.jobs.set("78_0", { name: "dcnr.other.lab.straya", state: "RUNNING", script: "", options: [] });
    await stage.until("the stranger is ended", () => machines.slurm.jobs.get("77_0")?.state === "CANCELLED", 1_200_000);
    assert.equal(machines.slurm.jobs.get("78_0")?.state, "RUNNING", "another network's is not touched");
    await stage.stop();
  });

  it("leave offers alone that are not what they say, and use others", async () => {
    const liar = { ...small, name: "liar", cores: 4, pricePerHour: 0.1 };
    const { stage, machines } = await staged({
      lie: (words) => (/cpus-per-task=4/.test(words) ? { cores: 1 } : undefined),
    });
    await add(stage, { offers: [liar, small] });
    const job = await submit(stage, 4);
    await until(stage, job, "done");
    const { offers } = await view(stage);
    const [first, second] = offers;
    assert.match(first?.blocked ?? "", /offer liar is not what it says: 4 cores were offered, 1 came/);
    assert.equal(second?.blocked, "");
    await nobodyRuns(stage, machines);
    await stage.stop();
  });

  it("give up on machines that never join, longer each time", async () => {
    const { stage, machines } = await staged({ lie: () => "never" });
    await add(stage);
    await submit(stage, 5);
    await stage.until(
      "a first one was ended",
      () => machines.submissions >= 1 && machines.running().length === 0,
      400_000,
    );
    await stage.pass(5_000);
    const first = await stage.record<ProviderRecord>("provider/lab");
    assert.match(first?.learned["small"]?.why ?? "", /has not joined within 3 min/);
    assert.equal(first?.learned["small"]?.broken, 1);
    await stage.until("a second one was tried", () => machines.submissions === 2, 400_000);
    await stage.until("and ended", () => machines.running().length === 0, 400_000);
    await stage.pass(5_000);
    const second = await stage.record<ProviderRecord>("provider/lab");
    assert.equal(second?.learned["small"]?.broken, 2);
    await stage.stop();
  });

  it("keep to their bounds and say so, and hand over and go when they are removed", async () => {
    const { stage, machines } = await staged({ stepMs: 1_000 });
    await add(stage, { limits: { ...limits, most: 1, least: 1, idleSeconds: 5, coolDownSeconds: 1 } });
    await stage.until("the least is kept", () => machines.pnodes.size === 1, 60_000);
    await stage.pass(60_000);
    assert.equal(machines.running().length, 1, "idle, and still there");
    const job = await submit(stage, 6);
    await until(stage, job, "running");
    await stage.call(ProviderService.method.removeProvider, { name: "lab" });
    await nobodyRuns(stage, machines);
    assert.deepEqual(machines.endedWithWork, [], "its work stopped at the line before it was ended");
    await stage.pass(10_000);
    assert.equal(await stage.record("provider/lab"), undefined);
    assert.deepEqual(await instances(stage), []);
    await stage.stop();
  });

  it("are refused with a sentence where nobody could run them, or where they make no sense", async () => {
    const { stage } = await staged();
    const refused = (more: object, code: string, sentence: RegExp) =>
      assert.rejects(add(stage, more), (thrown) => {
        assert.ok(hasCode(thrown, code as never), String(thrown));
        assert.match((thrown as Error).message, sentence);
        return true;
      });
    await refused({ kind: "docker" }, "failed_precondition", /dcnr orchestrator --providers docker/);
    await refused({ kind: "cloud" }, "invalid_argument", /no kind of provider "cloud"/);
    await refused({ parameters: { command: "rm -rf /" } }, "invalid_argument", /not "command"/);
    await refused({ limits: { least: 3, most: 2 } }, "invalid_argument", /at least 3 machines and at most 2/);
    await refused({ limits: { budgetTotal: -1 } }, "invalid_argument", /budgetTotal is -1/);
    await add(stage);
    await refused({}, "already_exists", /there is a provider lab/);
    const { findings } = await stage.call(ProviderService.method.testProvider, { name: "lab" });
    assert.ok(findings.length >= 4 && findings.every(({ isWell }) => isWell));
    await assert.rejects(
      stage.call(ProviderService.method.testProvider, { name: "../x" }),
      /there is no provider "..\/x"/,
    );
    await stage.stop();
  });
});

/** What the provider's jobs are called, from one that it starts. */
async function labelOf(stage: Stage, machines: ProvidedMachines): Promise<string> {
  await submit(stage, 77);
  await stage.until("a machine was asked for", () => machines.submissions >= 1, 60_000);
  const name = Array.from(machines.slurm.jobs.values())[0]?.name ?? "";
  return name.slice(0, name.lastIndexOf(".") + 1);
}
