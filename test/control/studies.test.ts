// Studies on production orchestrators in virtual time, with PNodes that act: run to their best, stopped and resumed, given more
// trials, and refused with a sentence where they make no sense.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { measured, usualStudy } from "../../simulation/jobs/study-world.ts";
import { hasCode } from "../../src/core/errors.ts";
import type { JobRecord } from "../../src/orchestrator/records/jobs.ts";
import { JobService } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { type Study, StudyService } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";
import { Stage } from "./stage.ts";

async function staged(stepMs = 40): Promise<Stage> {
  const stage = new Stage(1);
  await stage.orchestrator("o1");
  await stage.session({ seed: 999n }, "o1", false);
  stage.pnode("p0", { stepMs, measure: measured });
  await stage.pass(1_500);
  return stage;
}

async function submit(stage: Stage, tune: object, more: object = {}): Promise<string> {
  const job = { kind: "tune", name: "study", spec: JSON.stringify(tune), ...more };
  const [made] = (await stage.call(JobService.method.submitJobs, { jobs: [job] })).jobs;
  return made?.id as string;
}

const studyOf = async (stage: Stage, id: string) =>
  (await stage.call(StudyService.method.getStudy, { id })).study as Study;

const until = (stage: Stage, id: string, status: string) =>
  stage.untilRecord<JobRecord>(`${id} is ${status}`, `job/${id}`, (job) => job.status === status, 600_000);

const small = { ...usualStudy, schedule: "none", trials: 4, steps: 8, parallel: 2 };

describe("studies", () => {
  it("train their trials as jobs, name the best with its session, and delete the others' sessions", async () => {
    const stage = await staged();
    const id = await submit(stage, small);
    const done = await until(stage, id, "done");
    const study = await studyOf(stage, "study");
    assert.equal(study.id, id);
    assert.deepEqual(
      study.trials.map(({ status, values }) => [status, values.length]),
      Array.from({ length: 4 }, () => ["done", 1]),
    );
    const values = study.trials.map((trial) => trial.values[0]?.value as number);
    assert.equal(study.best, values.indexOf(Math.min(...values)));
    assert.equal(done.result?.["trial"], String(study.best));
    assert.equal(done.result?.["session"], study.trials[study.best]?.session);
    await stage.pass(2_000);
    const { sessions } = await stage.call(SessionService.method.listSessions, {});
    const left = sessions.map((session) => session.id);
    for (const { number, session } of study.trials) assert.equal(left.includes(session), number === study.best);
    const { studies } = await stage.call(StudyService.method.listStudies, {});
    assert.deepEqual(
      studies.map((one) => [one.id, one.trialsEnded, one.trials.length]),
      [[id, 4, 0]],
    );
    await stage.stop();
  });

  it("leave what another trains by the same settings alone, also when an orchestrator starts that finds them done", async () => {
    const stage = await staged();
    await until(stage, await submit(stage, small), "done");
    await stage.pass(60_000);
    const again = await submit(stage, { ...small, keep: "all" }, { name: "again" });
    await stage.pass(1_000);
    await stage.orchestrator("o2");
    await until(stage, again, "done");
    const { trials } = await studyOf(stage, again);
    assert.deepEqual(
      trials.map(({ status, reason }) => [status, reason]),
      Array.from({ length: 4 }, () => ["done", ""]),
    );
    await stage.orchestrator("o3");
    await stage.pass(5_000);
    for (const { session } of trials) assert.equal((await stage.sessionRecord(session))?.status, "done", session);
    await stage.stop();
  });

  it("are stopped and resumed where they were, and given more trials when they are done", async () => {
    const stage = await staged(300);
    const id = await submit(stage, small);
    await stage.pass(1_500);
    await stage.call(JobService.method.cancelJob, { id });
    await stage.pass(5_000);
    const { jobs } = await stage.call(JobService.method.listJobs, {});
    assert.ok(
      jobs.every(({ status }) => status === "cancelled"),
      "its trials stop with it",
    );
    await assert.rejects(stage.call(StudyService.method.addTrials, { id, trials: 2 }), /tune resume/);
    await stage.call(JobService.method.retryJob, { id });
    await until(stage, id, "done");
    const before = await studyOf(stage, id);
    assert.deepEqual(
      before.trials.map(({ status }) => status),
      ["done", "done", "done", "done"],
    );
    await stage.call(StudyService.method.addTrials, { id, trials: 2 });
    await stage.untilRecord<JobRecord>(
      "it is done again",
      `job/${id}`,
      (job) => job.status === "done" && job.life.filter(({ kind }) => kind === "done").length === 2,
      600_000,
    );
    const after = await studyOf(stage, id);
    assert.equal(after.trials.length, 6);
    assert.deepEqual(after.trials.slice(0, 4), before.trials);
    await stage.stop();
  });

  it("take no quota of running jobs beside their trials", async () => {
    const stage = await staged();
    await stage.call(JobService.method.setQueue, { name: "narrow", nominal: { jobs: 1 } });
    const id = await submit(stage, small, { queue: "narrow" });
    await until(stage, id, "done");
    await stage.stop();
  });

  it("go on although trials cannot be trained, and fail if none can", async () => {
    const stage = await staged();
    const batches = { ...small, space: { batch: { choice: [4, 5, 8] } }, search: "grid", trials: 3 };
    const id = await submit(stage, batches);
    await until(stage, id, "done");
    const study = await studyOf(stage, id);
    assert.equal(study.trials[1]?.status, "failed");
    assert.match(study.trials[1]?.reason ?? "", /batch/);
    const none = await submit(stage, { ...batches, trials: 2, space: { batch: { choice: [5, 7] } } });
    const failed = await until(stage, none, "failed");
    assert.match(failed.reason, /none of its trials came to a result/);
    await stage.stop();
  });

  it("are refused with a sentence where they make no sense", async () => {
    const stage = await staged();
    const wrong = (tune: object, sentence: RegExp, code = "invalid_argument") =>
      assert.rejects(submit(stage, tune), (thrown) => {
        assert.ok(hasCode(thrown, code as never), String(thrown));
        assert.match((thrown as Error).message, sentence);
        return true;
      });
    await wrong({ ...small, space: { beauty: { uniform: [0, 1] } } }, /space.beauty: no setting that can be searched/);
    await wrong({ ...small, space: { batch: { uniform: [1, 8] } } }, /whole numbers: use integer/);
    await wrong({ ...small, space: { rate: { uniform: [-1, 1] } } }, /learning_rate.base \(--rate\) is -1/);
    await wrong(
      { ...small, space: { schedule: { choice: ["square"] } } },
      /"square" is unknown: choose constant or cosine/,
    );
    await wrong({ ...small, train: { ...small.train, steps: 3 } }, /`steps` is not for `train`/);
    await wrong({ ...small, train: { ...small.train, network: undefined } }, /needs `network`/);
    await wrong({ ...small, train: { ...small.train, network: "nothing" } }, /no network nothing/, "not_found");
    await wrong({ ...small, train: { ...small.train, checkpoint_every: 3 } }, /must divide that/);
    await wrong({ ...small, keep: "some" }, /choose best or all/);
    await wrong({ ...small, trials: 0 }, /trials is 0/);
    const { jobs } = await stage.call(JobService.method.listJobs, {});
    assert.equal(jobs.length, 0);
    await stage.stop();
  });
});
