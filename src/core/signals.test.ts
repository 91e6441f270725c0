import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { untilEither } from "./signals.ts";

const heard = (signal: AbortSignal) =>
  new Promise<unknown>((resolve) => signal.addEventListener("abort", () => resolve(signal.reason)));

test("whichever signal comes first is heard, with its reason", async () => {
  const one = new AbortController();
  const other = new AbortController();
  const ended = untilEither([one.signal, other.signal], heard);
  other.abort("enough");
  assert.equal(await ended, "enough");
});

test("a signal that came before the work is there from its beginning", async () => {
  const aborted = AbortSignal.abort("long ago");
  const seen = await untilEither([new AbortController().signal, aborted], async ({ aborted, reason }) => [
    aborted,
    reason,
  ]);
  assert.deepEqual(seen, [true, "long ago"]);
});

test("sources forget what has ended, well or badly", async () => {
  const { signal } = new AbortController();
  await untilEither([signal], async () => {});
  await assert.rejects(untilEither([signal], () => Promise.reject(new Error("broken"))));
  assert.equal(getEventListeners(signal, "abort").length, 0);
});
