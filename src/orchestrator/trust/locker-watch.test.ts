import { strict as assert } from "node:assert";
import { it } from "node:test";
import { asideHere } from "../../core/aside.ts";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { writeInputs } from "../../trust/lists.ts";
import type { Context } from "../context.ts";
import type { AuditTask, Stated } from "../records/checking.ts";
import { LockerWatch } from "./locker-watch.ts";

const interval = { session: "s", vnode: "a", from: 0, to: 1 };
const hashes = Array.from({ length: 200 }, (_, at) => sha256(`message ${at}`));
const messages = hashes.map((hash, at) => ({
  ...{ key: `0/${String(at).padStart(3, "0")}/f/x`, hash, sender: "p", life: "", signature: "" },
}));
const list = writeInputs({ ...interval, messages, keys: {} });

/** That these messages went in, as a life of that name signed it in that turn. */
function statedBy(life: string, turn: number): Stated {
  const statement = { ...interval, life, before: "", inputs: list.hash, signature: `of ${life}` };
  return { pnode: "p", turn, statement } as unknown as Stated;
}

/** A locker whose messages are stored when the test says so, and what is asked of it. */
function watched() {
  const stored = new Set<string>();
  const asked: string[] = [];
  let nowMs = 0;
  const states = {
    get: async (hash: string) =>
      hash === list.hash ? list.content : stored.has(hash) ? new Uint8Array(1) : fail("not_found", "it is gone"),
    size: async (hash: string) => {
      asked.push(hash);
      return stored.has(hash) ? 1 : undefined;
    },
  };
  const world = { clock: { monotonicMs: () => nowMs } };
  const open: Stated[][] = [];
  const mirror = { under: () => open.map((stated) => ({ audits: { a: { stated } } })) };
  const watch = new LockerWatch({ aside: asideHere, blobs: { states }, world, mirror } as unknown as Context);
  const stated = [statedBy("one", 0)];
  return { watch, stated, stored, asked, open, pass: (ms: number) => (nowMs += ms) };
}

it("a locker that fills is asked for few of its hundreds of messages at each look, and for each that is there once", async () => {
  const { watch, stated, stored, asked, pass } = watched();
  for (let look = 0; look < 50; look++) {
    assert.equal(await watch.isWhole(stated), false);
    pass(500);
  }
  assert.ok(asked.length <= 50 * 8, `${asked.length} questions while nothing is stored`);
  for (const hash of hashes) {
    stored.add(hash);
    assert.equal(await watch.isWhole(stated), stored.size === hashes.length);
    pass(500);
  }
  assert.ok(asked.length <= (50 + 2 * hashes.length) * 8, `${asked.length} questions`);
  const before = asked.length;
  assert.equal(await watch.isWhole(stated), true);
  assert.equal(asked.length, before, "what is there is not asked for again");
});

it("a locker in which something is missing is looked into twice a second, however often somebody wants to know", async () => {
  const { watch, stated, stored, asked, pass } = watched();
  for (const hash of hashes.slice(1)) stored.add(hash);
  for (let change = 0; change < 100; change++) {
    assert.equal(await watch.isWhole(stated), false);
    pass(20);
  }
  assert.ok(asked.length <= 5 * hashes.length, `${asked.length} questions in two seconds`);
  assert.equal(asked.filter((hash) => hash === hashes[0]).length, 4);
  stored.add(hashes[0] as string);
  pass(500);
  assert.equal(await watch.isWhole(stated), true);
});

it("what is stored behind a gap counts for its sender as soon as somebody is to be blamed", async () => {
  const { watch, stated, stored, pass } = watched();
  for (const hash of hashes.slice(100)) stored.add(hash);
  assert.equal(await watch.isWhole(stated), false);
  assert.equal(watch.quietMs(stated), 0);
  pass(1_000);
  assert.equal(watch.quietMs(stated), 1_000);
  assert.equal(await watch.isWholeAfterAll(stated), false);
  assert.equal(watch.quietMs(stated), 0, "something has come");
  assert.equal(watch.lacking(stated).present.size, 100);
  for (const hash of hashes) stored.add(hash);
  assert.equal(await watch.isWholeAfterAll(stated), true);
});

it("whoever computes the same once more has been silent for no longer than it has been asked", async () => {
  const { watch, stated, stored, pass } = watched();
  assert.equal(await watch.isWhole(stated), false);
  assert.equal(watch.quietMs(stated), 0);
  for (let second = 1; second <= 60; second++) {
    pass(1_000);
    assert.equal(watch.quietMs(stated), 1_000 * second);
  }
  // The session went back, and what the same machine was sent in its next life is listed alike, to the bit.
  for (const again of [[statedBy("two", 1)], [statedBy("two", 2)], [statedBy("three", 2)]]) {
    assert.equal(await watch.isWhole(again), false);
    assert.equal(watch.quietMs(again), 0);
    pass(1_000);
    assert.equal(watch.quietMs(again), 1_000);
  }
  for (const hash of hashes) stored.add(hash);
  assert.equal(await watch.isWhole(stated), true);
});

it("what was stored for an earlier turn, and may be gone by now, is asked for again", async () => {
  const { watch, stated, stored } = watched();
  for (const hash of hashes) stored.add(hash);
  assert.equal(await watch.isWhole(stated), true);
  stored.clear();
  assert.equal(await watch.isWhole([statedBy("two", 1)]), false);
});

it("remembers nothing of intervals that ended elsewhere, and everything of those that are open", () => {
  const { watch, stated, open, pass } = watched();
  open.push(stated);
  watch.quietMs(stated);
  const ended = [statedBy("two", 1)];
  watch.quietMs(ended);
  pass(1_000);
  for (let turn = 2; turn < 100; turn++) watch.quietMs([statedBy("many", turn)]);
  assert.equal(watch.quietMs(stated), 1_000);
  assert.equal(watch.quietMs(ended), 0);
});

it("finds that a message was lost, also where another orchestrator had seen that all were there", async () => {
  const { watch, stated, stored } = watched();
  const failedAt = (sinceWallMs: number) => [{ wasUnable: true, sinceWallMs }] as unknown as AuditTask[];
  for (const hash of hashes) stored.add(hash);
  assert.equal(await watch.isSpoiled({ stated, tasks: failedAt(1) }), false);
  stored.delete(hashes[7] as string);
  assert.equal(await watch.isSpoiled({ stated, tasks: failedAt(2) }), true);
});

it("a state that somebody could not measure by is looked at once for each such failure", async () => {
  const { watch, stored } = watched();
  const measuring = (sinceWallMs: number, more: Partial<AuditTask> = { gaveUp: "could not", wasUnable: true }) => {
    const task = { pnode: "m", role: "measure", trusted: false, against: "b".repeat(64), sinceWallMs, ...more };
    return { tasks: [task as AuditTask] };
  };
  assert.deepEqual([...(await watch.unreadable(measuring(1, {})))], [], "nobody says so");
  assert.deepEqual([...(await watch.unreadable(measuring(1)))], ["b".repeat(64)]);
  stored.add("b".repeat(64));
  assert.equal((await watch.unreadable(measuring(1))).size, 1);
  assert.equal((await watch.unreadable(measuring(2))).size, 1, "what is there is no state");
});
