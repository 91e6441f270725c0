// Availability on production orchestrators in virtual time: what is observed is in the report, survives the orchestrator that observed it, and
// tells what a loss cost; and what more machines would give.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { ReportService } from "../../src/protocol/gen/dcnr/v1/report_pb.ts";
import { Stage } from "./stage.ts";

const report = (stage: Stage, by = "machine", name?: string) =>
  stage.call(ReportService.method.getReport, { lastSeconds: 6 * 3_600, by, objective: 0.99 }, name);

describe("the report on availability", () => {
  it("counts what was there, what was missing and what was not lent, across orchestrators", async () => {
    const stage = new Stage();
    for (const name of ["o1", "o2"]) await stage.orchestrator(name);
    stage.pnode("steady");
    const flaky = stage.pnode("flaky");
    const shy = stage.pnode("shy");
    shy.accepting = false;
    await stage.pass(6 * 60_000);
    flaky.kill();
    await stage.pass(3 * 60_000);
    const lease = await stage.record<{ holder: string }>("lease/report:availability");
    const gone = stage.orchestrators.get(lease?.holder ?? "");
    await stage.settled(gone?.stop() ?? Promise.resolve());
    stage.orchestrators.delete(lease?.holder ?? "");
    await stage.pass(6 * 60_000);
    const { rows, whole } = await report(stage);
    const row = (name: string) => rows.find((one) => one.name.startsWith(name));
    assert.ok((row("steady")?.onlineSeconds ?? 0) > 12 * 60 && row("steady")?.uptime === 1);
    assert.equal(row("flaky")?.failures, 1);
    assert.ok((row("flaky")?.lostSeconds ?? 0) > 6 * 60 && (row("flaky")?.uptime ?? 1) < 0.55);
    assert.ok((row("shy")?.closedSeconds ?? 0) > 12 * 60 && row("shy")?.lostSeconds === 0);
    assert.equal(whole?.machines, 3);
    assert.ok((whole?.budgetLeftSeconds ?? 0) < 0, "more was lost than one part in a hundred");
    await stage.stop();
  });

  it("tells how long a training took to go on after a loss, and refuses stretches that make no sense", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const nodes = ["p0", "p1", "p2"].map((name) => stage.pnode(name, { stepMs: 500 }));
    const session = await stage.session({ spread: 3 });
    await stage.untilRecord<SessionRecord>("it trains", `session/${session}`, ({ line }) => line >= 4);
    nodes.find(({ hosted }) => hosted.size > 0)?.kill();
    await stage.untilRecord<SessionRecord>(
      "it is done",
      `session/${session}`,
      ({ status }) => status === "done",
      300_000,
    );
    await stage.pass(2_000);
    const { recoveries } = await report(stage);
    assert.equal(recoveries?.count, 1);
    assert.ok((recoveries?.meanSeconds ?? 0) > 0 && recoveries?.meanSeconds === recoveries?.longestSeconds);
    assert.equal(recoveries?.steps, 20n);
    await assert.rejects(stage.call(ReportService.method.getReport, { lastSeconds: -1 }), /the stretch is -1 s/);
    const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => report(stage)));
    const refused = outcomes.filter((one) => one.status === "rejected");
    assert.ok(refused.length > 20 && refused.length < 40, "strangers may ask, and are made to wait for each other");
    assert.match(String(refused[0]?.reason), /reports are being made already/);
    await assert.rejects(stage.call(ReportService.method.getReport, { objective: 1 }), /the objective is 1/);
    await stage.stop();
  });

  it("says what one more machine would give", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await stage.session({ seed: 999n }, "o1", false);
    const plan = (memoryBytes: number, machines = 1) =>
      stage.call(ReportService.method.planCapacity, { machines, cores: 4, memoryBytes: BigInt(memoryBytes) });
    assert.match((await plan(2 ** 30)).sentence, /nothing waits/);
    const spec = {
      network: "chain",
      dataset: "data",
      split: "all",
      steps: 20,
      batch: 4,
      microbatches: 2,
      numerics: "reference",
    };
    const jobs = [1, 2].map((seed) => ({ kind: "train", spec: JSON.stringify({ ...spec, seed }) }));
    await stage.call(JobService.method.submitJobs, { jobs });
    await stage.pass(2_000);
    const small = await plan(2 ** 20);
    assert.deepEqual([small.starts.length, small.waiting], [0, 2]);
    const large = await plan(2 ** 30);
    assert.equal(large.starts.length, 2);
    assert.match(large.sentence, /2 of 2 waiting job\(s\) would start at once/);
    await stage.stop();
  });
});
