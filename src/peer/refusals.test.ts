import assert from "node:assert/strict";
import { it } from "node:test";
import { Refusals } from "./refusals.ts";

it("a peer that floods with wrong tensors gets one line at once and one line later that counts the rest", () => {
  let nowMs = 0;
  const lines: string[] = [];
  const clock = { monotonicMs: () => nowMs, wallMs: () => 0 };
  const refusals = new Refusals({ clock, log: (_level, message) => void lines.push(message) });
  for (let i = 0; i < 1_000; i++) refusals.note("p1", "wrong shape");
  refusals.note("p2", "wrong shape");
  assert.equal(lines.length, 2, "one for each peer");
  nowMs += 10_000;
  refusals.note("p1", "wrong shape");
  assert.match(lines[2] ?? "", /p1: wrong shape \(and 999 more/);
});
