import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { Heard } from "./heard.ts";
import { Steps } from "./steps.ts";

function stage() {
  let heardStep: number | undefined = 0;
  let nowMs = 0;
  const record = { id: "s", status: "running", vnodes: ["a"], line: 0, identity: { steps: 100 } };
  const mirror = { get: () => ({ members: [{ pnode: "p" }], durable: {} }), under: () => [record] };
  const context = { mirror, world: { clock: { monotonicMs: () => nowMs } } } as unknown as Context;
  const heard = { progress: () => (heardStep === undefined ? undefined : { step: heardStep }) } as unknown as Heard;
  const steps = new Steps(context, heard);
  return {
    steps,
    session: (change: object = {}) => ({ ...record, ...change }) as unknown as SessionRecord,
    at: (ms: number, step: number | undefined) => {
      nowMs = ms;
      heardStep = step;
      steps.sample();
    },
  };
}

test("what people see does not go back when a machine is lost, unless states were", () => {
  const { steps, session, at } = stage();
  at(0, 16);
  assert.equal(steps.reached(session()), 16);
  at(1_000, undefined);
  assert.equal(steps.of(session()), 0, "whoever takes over begins at the line");
  assert.equal(steps.reached(session()), 16);
  assert.equal(steps.reached(session({ turn: 1 })), 0, "a state was lost for good");
  at(2_000, 17);
  assert.equal(steps.reached(session({ turn: 1 })), 17);
});

test("a pause does not become how long a step takes", () => {
  const { steps, at } = stage();
  at(0, 0);
  for (let second = 1; second <= 10; second++) at(second * 1_000, second * 2);
  assert.equal(Math.round(steps.usualMs("s")), 500);
  at(110_000, 21);
  assert.ok(steps.usualMs("s") < 1_500, `${steps.usualMs("s")} ms`);
});
