import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { Heard } from "./heard.ts";
import { Steps } from "./steps.ts";

function stage() {
  let heardStep: number | undefined = 0;
  let nowMs = 0;
  const record = {
    id: "s",
    status: "running",
    vnodes: ["a"],
    line: 0,
    identity: { steps: 100, batch: 8, microbatches: 4 },
  };
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

test("samples a second are those that are learned from: in the last step of a round nobody learns", () => {
  const { steps, session, at } = stage();
  const identity = { ...session().identity, lanes: 2, sync: { every: 3, after: 4 } };
  at(0, 0);
  at(1_000, 12);
  assert.equal(steps.perSecond("s", 12), 12);
  assert.equal(steps.samplesPerSecond(session(), 12), 12 * 8);
  assert.equal(steps.samplesPerSecond(session({ identity }), 12), (4 + 3 + 3) * 8);
});
