import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Worker } from "node:worker_threads";
import { asideHere, runAside } from "../../core/aside.ts";
import { compileText } from "../../network/compile.ts";
import { compileAside } from "../../network/works.ts";
import { counting, endless, hungry, inPieces, refusing, waiting } from "./aside.testing.ts";
import { openAside } from "./aside.ts";

const aside = openAside();
after(() => aside.close());

/** How often other work got its turn meanwhile. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  const counter = setInterval(() => turns++, 1);
  await work.catch(() => {});
  clearInterval(counter);
  return turns;
}

test("a work runs on another thread, which remembers what it did before", async () => {
  (globalThis as { mainOfTest?: boolean }).mainOfTest = true;
  const first = await runAside(aside, counting, 7);
  assert.deepEqual(first, { calls: 1, input: 7, onMainThread: false });
  assert.equal((await runAside(aside, counting, 8)).calls, 2);
  assert.equal((await runAside(asideHere, counting, 9)).onMainThread, true);
});

test("a work without end is killed at its deadline, others go on meanwhile, and the next work gets a new thread", async () => {
  const work = aside.run(endless, "");
  const next = runAside(aside, counting, 1);
  assert.ok((await turnsDuring(work)) > 20);
  await assert.rejects(work, { code: "invalid_argument", message: "reading the test took longer than 0.2 s" });
  assert.equal((await next).calls, 1);
});

test("a work that hardly gets a processor is waited for longer, and not for ever", {
  skip: typeof Worker.prototype.cpuUsage !== "function" && "this Node does not tell what a thread has used",
}, async () => {
  assert.deepEqual(await aside.run(waiting, 600), ["done"]);
  const forEver = aside.run(waiting, 600_000);
  await assert.rejects(forEver, { code: "unavailable", message: "this machine is too busy to read the test" });
});

test("a work that takes too much memory fails alone", async () => {
  await assert.rejects(aside.run(hungry, ""), { code: "invalid_argument", message: /more than 24 MiB of memory/ });
  assert.equal((await runAside(aside, counting, 1)).calls, 1);
});

test("a thread that is kept ready is there before it is asked, remembers, and is there again after a work that was killed", async () => {
  const own = openAside();
  assert.equal(await own.keepReady(counting), true);
  assert.equal((await runAside(own, counting, 1)).calls, 1);
  assert.equal(await own.keepReady(counting), true);
  assert.equal((await runAside(own, counting, 2)).calls, 2);
  await assert.rejects(own.run(endless, ""), { code: "invalid_argument" });
  assert.equal(await own.keepReady(counting), true);
  assert.equal((await runAside(own, counting, 3)).calls, 1);
  assert.equal(await own.keepReady({ ...counting, module: new URL("no-such-module.ts", import.meta.url).href }), false);
  await own.close();
});

test("a refusal keeps its code, its outlook and its sentence", async () => {
  const expected = { name: "DcnrError", code: "resource_exhausted", outlook: "elsewhere", message: "no" };
  await assert.rejects(aside.run(refusing, "no"), expected);
});

test("an answer of many pieces leaves room for others between them", async () => {
  let turns = 0;
  const counter = setImmediate(function again() {
    turns++;
    if (turns < 10_000) setImmediate(again);
  });
  const pieces = await aside.run(inPieces, 500);
  clearImmediate(counter);
  const before = turns;
  assert.equal(pieces.length, 500);
  assert.deepEqual(pieces[499], [499]);
  assert.ok(before >= 499, `${before} turns of others`);
});

test("whoever asks for too much at once is told so, and closing fails what waits", async () => {
  const own = openAside();
  const asked = Array.from({ length: 300 }, (_, i) => own.run(counting, i));
  const results = Promise.allSettled(asked);
  await own.close();
  const failed = (await results).flatMap((one) => (one.status === "rejected" ? [one.reason.code] : []));
  assert.ok(failed.includes("resource_exhausted"));
  assert.ok(failed.includes("cancelled"));
});

/** Each level names the one before ten times. */
const bomb = `a0: &a0 [x]\n${Array.from({ length: 12 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(", ")}]`).join("\n")}\n`;

const hostile: Record<string, string> = {
  "a bomb of aliases": bomb,
  "a list of fifty thousand items": `nodes: [${"a,".repeat(50_000)}]`,
  "brackets ten thousand deep": `nodes: ${"[".repeat(10_000)}`,
  "twenty thousand VNodes": `nodes:\n${Array.from({ length: 20_000 }, (_, i) => `- {id: n${i}, type: relu}`).join("\n")}\n`,
};

for (const [what, text] of Object.entries(hostile))
  test(`a definition that is ${what} is refused, and costs the thread that asks next to nothing`, async () => {
    const costs: number[] = [];
    // Garbage of other tests is collected on this thread too: it does not fall into all three.
    for (let i = 0; i < 3; i++) {
      const before = process.threadCpuUsage();
      await assert.rejects(compileAside(aside, text), { code: "invalid_argument" });
      const { user, system } = process.threadCpuUsage(before);
      costs.push((user + system) / 1_000);
    }
    assert.ok(Math.min(...costs) < 50, `${costs.join(", ")} ms of the thread that asked`);
  });

test("a definition is the same network whichever thread reads it", async () => {
  const text = "nodes: [{ id: a, type: linear, config: { in_dim: 4, out_dim: 2 } }]";
  assert.deepEqual(await compileAside(aside, text), compileText(text));
});
