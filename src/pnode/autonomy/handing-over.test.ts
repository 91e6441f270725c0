import assert from "node:assert/strict";
import { test } from "node:test";
import { HandingOver } from "./handing-over.ts";

test("each of the crew has so many blobs at once, and others have theirs", async () => {
  const handing = new HandingOver();
  const gone = new AbortController();
  const stays = new AbortController().signal;
  const leaves = await Promise.all(Array.from({ length: 16 }, () => handing.enter("p1", stays)));
  const heard: string[] = [];
  const asked = (name: string, signal: AbortSignal) =>
    handing.enter("p1", signal).then(
      (leave) => {
        heard.push(`${name} in`);
        leaves.push(leave);
      },
      () => heard.push(`${name} left`),
    );
  const waiting = [asked("first", gone.signal), asked("second", stays), asked("third", stays)];
  (await handing.enter("p2", stays))();
  assert.deepEqual(heard, []);
  gone.abort();
  leaves.shift()?.();
  await Promise.all(waiting.slice(0, 2));
  assert.deepEqual(heard, ["first left", "second in"]);
  for (const leave of leaves.splice(0)) leave();
  await waiting[2];
  for (const leave of leaves) leave();
  assert.deepEqual(heard, ["first left", "second in", "third in"]);
  await assert.rejects(async () => {
    const all = Array.from({ length: 17 }, () => handing.enter("p1", AbortSignal.abort()));
    await Promise.all(all);
  }, /went away/);
});
