// Data jobs and their workers: who gets a job, who loses it, and what orchestrators believe.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { hasCode } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import { silentLog, type World } from "../../core/world.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import type { JobRecord } from "../records/jobs.ts";
import { Mirror } from "../records/mirror.ts";
import { key } from "../records/store-keys.ts";
import { DataKind, type Told, workerSilentMsMax } from "./data.ts";

const spec = { steps: { pages: { files: "pages.jsonl" } }, save: { corpus: "pages" } };

function jobOf(id: string, more: Partial<JobRecord> = {}): JobRecord {
  const record = { id, kind: "data", owner: "ann", status: "running", epoch: 1, spec, submittedWallMs: 1, ...more };
  return record as unknown as JobRecord;
}

async function open(...jobs: JobRecord[]) {
  let nowMs = 1_000_000;
  let drawn = 0;
  const world: World = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: { after: () => () => {} },
    chance: { bytes: (count) => new Uint8Array(count).fill(++drawn), uniform: () => 0.5 },
    log: silentLog,
  };
  const mirror = new Mirror(openMemoryStore(), world);
  const put = (job: JobRecord) => mirror.update(key.job(job.id), () => job);
  for (const job of jobs) await put(job);
  const kind = new DataKind({ mirror, world } as unknown as Context);
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { kind, put, pass };
}

const going: Told = { progress: 0.5, result: {}, failure: "", givesUp: false };
const id = "job-1" as JobId;

describe("a data job", () => {
  test("is refused with a sentence if its pipeline is none", async () => {
    const { kind } = await open();
    assert.throws(() => kind.validate({ steps: {} }), /the data job has no steps/);
    assert.throws(() => kind.validate({ ...spec, stepz: 1 }), /has no field "stepz"/);
  });

  test("goes to one worker of its owner, the oldest first", async () => {
    const { kind } = await open(jobOf("job-2", { submittedWallMs: 2 }), jobOf(id), jobOf("job-3", { owner: "bob" }));
    assert.equal((await kind.take("ann", "one"))?.job.id, id);
    assert.equal((await kind.take("ann", "two"))?.job.id, "job-2");
    assert.equal(await kind.take("ann", "three"), undefined);
  });

  test("says for whom it stands still, and how far it is", async () => {
    const job = jobOf(id);
    const { kind } = await open(job);
    assert.match(kind.standsFor(job) ?? "", /dcnr data work/);
    const taken = await kind.take("ann", "one");
    assert.equal(kind.standsFor(job), undefined);
    assert.ok(await kind.tell(id, taken?.token ?? "", going));
    assert.equal(kind.progress(job), 0.5);
  });

  test("is done with what its worker says, and with nothing that another one says", async () => {
    const job = jobOf(id);
    const { kind } = await open(job);
    const token = (await kind.take("ann", "one"))?.token ?? "";
    assert.equal(await kind.tell(id, "another", { ...going, result: { corpus: "wrong" } }), false);
    assert.equal((await kind.observe(job)).state, "running");
    assert.ok(await kind.tell(id, token, { ...going, result: { corpus: "hash" } }));
    assert.deepEqual(await kind.observe(job), { state: "done", result: { corpus: "hash" } });
  });

  test("of a worker that is silent goes to the next, and the first is told so", async () => {
    const { kind, pass } = await open(jobOf(id));
    const first = (await kind.take("ann", "one"))?.token ?? "";
    pass(workerSilentMsMax);
    assert.equal(await kind.take("ann", "two"), undefined, "not yet");
    pass(1);
    const second = (await kind.take("ann", "two"))?.token ?? "";
    assert.equal(await kind.tell(id, first, going), false);
    assert.ok(await kind.tell(id, second, going));
  });

  test("that a worker gives up is the next one's at once", async () => {
    const { kind } = await open(jobOf(id));
    const token = (await kind.take("ann", "one"))?.token ?? "";
    assert.ok(await kind.tell(id, token, { ...going, givesUp: true }));
    assert.ok(await kind.take("ann", "two"));
  });

  test("of another run, or one that was stopped, is nobody's: its worker lets go", async () => {
    const { kind, put } = await open(jobOf(id));
    const token = (await kind.take("ann", "one"))?.token ?? "";
    await put(jobOf(id, { epoch: 2 }));
    assert.equal(await kind.tell(id, token, going), false);
    const again = (await kind.take("ann", "one"))?.token ?? "";
    assert.ok(await kind.suspend(jobOf(id)));
    assert.equal(await kind.tell(id, again, going), false);
  });

  test("takes no texts without end", async () => {
    const { kind } = await open(jobOf(id));
    const refused = (thrown: unknown) => hasCode(thrown, "invalid_argument");
    await assert.rejects(kind.take("ann", "x".repeat(65)), refused);
    const token = (await kind.take("ann", "one"))?.token ?? "";
    await assert.rejects(kind.tell(id, token, { ...going, result: { corpus: "x".repeat(5_000) } }), refused);
  });
});
