// Jobs that ask a model, driven by orchestrators that are lost in the middle or work at the same time, with a model that says
// something else each time it is asked the same: what was recorded first stands, and nothing is asked that was answered.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fail } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import { silentLog, type World } from "../../core/world.ts";
import { buildText } from "../../data/build.ts";
import { openDatasets } from "../../data/datasets.ts";
import { readDocuments, textOfDocument } from "../../data/documents.ts";
import type { TextManifest } from "../../data/manifest.ts";
import { openMemoryBlobs, openMemoryStore } from "../../store/memory.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { JobRecord } from "../records/jobs.ts";
import { Mirror } from "../records/mirror.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { TextGenerator } from "../serving/text.ts";
import { Tasks } from "../tasks.ts";
import { MapKind } from "./map.ts";

const documents = 200;
const id = "job-1" as JobId;
const spec = { dataset: "notes", model: "gpt", save: "said", prompt: "say {text}" };
const job = { id, kind: "map", owner: "local", status: "running", epoch: 1, spec } as unknown as JobRecord;

/** Timers run at once: nothing here waits for time to pass. */
const world: World = {
  clock: { wallMs: () => 0, monotonicMs: () => 0 },
  timers: {
    after: (_delayMs, callback) => {
      setImmediate(callback);
      return () => {};
    },
  },
  chance: { bytes: (count) => Uint8Array.from({ length: count }, () => Math.random() * 256), uniform: () => 0.5 },
  log: silentLog,
};

async function open() {
  const store = openMemoryStore();
  const blobs = openMemoryBlobs();
  const datasets = openDatasets({ store, blobs: blobs.datasets, world });
  const builder = buildText(false, { blobs: blobs.datasets });
  for (let i = 0; i < documents; i++) await builder.add(new TextEncoder().encode(`note ${i}`));
  await datasets.add("notes", await builder.finish());
  const asked: string[] = [];
  const orchestrator = async (name: string, fails: (count: number) => boolean = () => false) => {
    const mirror = new Mirror(store, world);
    const tasks = new Tasks(world);
    const model = { name: "gpt", context: 64, replicas: ["a", "b"], network: "n" } as unknown as ModelRecord;
    await mirror.update(key.model("gpt"), (current) => current ?? model);
    await mirror.update(key.job(id), (current) => current ?? job);
    await mirror.read(key.job(id));
    const kind = new MapKind({ mirror, world, blobs, tasks } as unknown as Context);
    kind.generator = {
      models: async () => [],
      embed: async () => fail("internal", "nobody asks for vectors here"),
      async *generate({ prompt }) {
        await new Promise((resolve) => setImmediate(resolve));
        if (fails(asked.push(String(prompt)))) throw new Error("the PNode is gone");
        yield {
          text: `${prompt} by ${name} as ${asked.length}`,
          tokens: [],
          finish: "stop",
          promptTokens: 1,
          generatedTokens: 1,
        };
      },
    } satisfies TextGenerator;
    const end = async () => {
      for (;;) {
        const seen = await kind.observe(job);
        if (seen.state !== "running") return seen;
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    return { kind, tasks, end };
  };
  const saved = async () => {
    const { record, manifest } = await datasets.get("said");
    const texts: string[] = [];
    for await (const one of readDocuments(manifest as TextManifest, (hash) => blobs.datasets.get(hash)))
      texts.push(textOfDocument(one));
    return { hash: record.hash, texts };
  };
  return { store, asked, orchestrator, saved };
}

describe("a job that asks a model", () => {
  test("answers each document once, in its place, whatever fails on the way", async () => {
    const { asked, orchestrator, saved, store } = await open();
    const { kind, end } = await orchestrator("one", (count) => count < 40 && count % 9 === 3);
    assert.equal((await end()).state, "done");
    const { texts } = await saved();
    assert.equal(texts.length, documents);
    for (const [i, text] of texts.entries()) assert.ok(text.startsWith(`say note ${i} by one`), text);
    assert.ok(asked.length > documents, "some were asked again");
    await kind.ended(job);
    assert.deepEqual(await Array.fromAsync(listItems(store, prefix.answersOf(id))), [], "nothing is left behind");
  });

  test("goes on elsewhere with what is not answered, and two at once make one dataset", async () => {
    const { orchestrator, saved, asked, store } = await open();
    const first = await orchestrator("first");
    await first.kind.start(job);
    while (asked.length < 60) await new Promise((resolve) => setImmediate(resolve));
    await first.tasks.stop();
    const before = await Array.fromAsync(listItems<{ answers: string[] }>(store, prefix.answersOf(id)));
    assert.ok(before.length > 0 && before.length < documents / 8);
    const [second, third] = [await orchestrator("second"), await orchestrator("third")];
    const [one, other] = await Promise.all([second.end(), third.end()]);
    assert.deepEqual(one, other);
    const { texts } = await saved();
    assert.equal(texts.length, documents);
    for (const { record } of before) for (const answer of record.answers) assert.ok(texts.includes(answer), answer);
  });

  test("gives way when it is asked to, and goes on with what is not answered", async () => {
    const { orchestrator, saved, asked } = await open();
    const { kind, end } = await orchestrator("one");
    await kind.start(job);
    while (asked.length < 60) await new Promise((resolve) => setImmediate(resolve));
    const yielding = { ...job, yielding: { for: "another", sinceWallMs: 0, line: 0 } } as unknown as JobRecord;
    let turns = 0;
    for (; !(await kind.suspend(yielding)); turns++) {
      assert.ok(turns < 100, "it was asked a hundred times, and asks questions still");
      await new Promise((resolve) => setImmediate(resolve));
      await kind.observe(yielding);
    }
    assert.ok(asked.length < documents, "there is something left to ask");
    assert.equal((await end()).state, "done");
    assert.equal((await saved()).texts.length, documents);
  });

  test("asks a model that has no replica while nobody asks, and none that is not served", async () => {
    const { orchestrator, store } = await open();
    const { kind } = await orchestrator("one");
    const mirror = new Mirror(store, world);
    const without = (more: object) =>
      mirror.update(key.model("gpt"), (current) => ({ ...(current as ModelRecord), replicas: [], ...more }));
    await without({});
    await assert.rejects(kind.prepare(job), /the model gpt is not served: dcnr serve gpt/);
    await without({ scaling: { least: 0, most: 2 } });
    assert.deepEqual(await kind.prepare(job), { network: "n" });
  });

  test("that waits for what cannot come says so", async () => {
    const { orchestrator } = await open();
    const { kind } = await orchestrator("one");
    const prepared = (change: object) => kind.prepare({ ...job, spec: { ...spec, ...change } } as unknown as JobRecord);
    await assert.rejects(prepared({ dataset: "gone" }), /there is no dataset gone/);
    await assert.rejects(prepared({ model: "gone" }), /there is no model "gone"/);
    await assert.rejects(prepared({ split: "gone" }), /has no split "gone"/);
    assert.throws(() => kind.validate({ ...spec, save: "" }), /needs `save`/);
    assert.throws(() => kind.validate({ ...spec, into: "x" }), /has no fields/);
    assert.throws(() => kind.validate({ ...spec, "max-tokens": 5_000 }), /at most 1024 tokens/);
  });
});
