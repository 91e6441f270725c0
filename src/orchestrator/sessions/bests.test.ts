import assert from "node:assert/strict";
import { it } from "node:test";
import type { VNodeId } from "../../core/ids.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { finalOf } from "../trust/finality.ts";
import { bestToGive, validatedIn, withBests } from "./bests.ts";
import { isKept, trimmed } from "./garbage.ts";

const session = {
  ...{ status: "running", line: 0, lineBefore: 0, final: 0, turn: 0, drawn: [], vnodes: ["v"] },
  ...{ policy: { assurance: "checked", checkpointEvery: 1 }, identity: { steps: 100 } },
} as unknown as SessionRecord;

/** As a validation at each step tells its loss, the line moves to the last of them. */
function after(losses: readonly number[], from = session): SessionRecord {
  let now = from;
  for (const loss of losses) {
    const to = now.line + 1;
    const validated = [...(now.validated ?? []), { step: to, loss, to }];
    now = withBests({ ...now, line: to, lineBefore: now.line, validated });
  }
  return now;
}

function backTo(line: number, from: SessionRecord): SessionRecord {
  return withBests({ ...from, line, lineBefore: line });
}

it("what validated best is final no sooner than the interval that says so", () => {
  const made = after([0.5, 0.9, -1000]);
  assert.deepEqual(bestToGive(made, false), undefined, "nothing is final yet");
  assert.deepEqual(bestToGive(made, true), { step: 3, loss: -1000 });
  const one = withBests({ ...after([0.5, 0.9]), final: 1 });
  const lied = after([-1000, 2], one);
  assert.deepEqual(bestToGive(lied, false), { step: 1, loss: 0.5 });
  assert.deepEqual(bestToGive(withBests({ ...lied, final: 3 }), false), { step: 3, loss: -1000 });
});

it("a session that goes back has the best from before, and its state was kept", () => {
  const lied = after([0.7, 0.8, -1000, 0.9, 0.9, 0.9], withBests({ ...after([0.5, 0.6]), final: 1 }));
  assert.deepEqual(lied.best, { step: 5, loss: -1000 });
  const durable = Object.fromEntries([0, 1, 2, 3, 4, 5, 6, 7, 8].map((step) => [step, { hash: `h${step}`, bytes: 1 }]));
  const { kept } = trimmed(lied, durable as never);
  assert.deepEqual(Object.keys(kept), ["1", "5", "7", "8"]);
  const back = backTo(4, lied);
  assert.deepEqual(back.best, { step: 1, loss: 0.5 });
  assert.equal(isKept(back, 1), true);
  assert.equal(back.validated, undefined);
});

it("what is not final is the best again if it was before, as long as its state is there", () => {
  // Every eighth line is kept.
  const lied = after([9, 9, 9, 9, 9, 9, 9, 0.5, 0.4, 0.6, -1000, 0.9, 0.9]);
  assert.deepEqual(
    backTo(10, lied).best,
    { step: 8, loss: 0.5 },
    "the state of step 9 went when step 11 seemed better",
  );
  assert.deepEqual(backTo(12, lied).best, { step: 11, loss: -1000 });
  assert.equal(backTo(4, lied).best, undefined);
});

it("a validation is of the state at its checkpoint, if that is there, and of what is final nothing is heard again", () => {
  const statement = (step: number) => [{ turn: 0, statement: { validation: { step, loss: 0.5 } } }];
  const statements = { "4": statement(2), "6": statement(5), "8": statement(6) };
  const durable = { "2": {}, "4": {}, "6": {}, "8": {} };
  const records = new Map([["v" as VNodeId, { durable, statements } as unknown as VNodeRecord]]);
  const spans = [4, 6, 8].map((to) => ({ from: to - 2, to }));
  const steps = (more: object) =>
    validatedIn({ ...session, ...more } as SessionRecord, records, spans).map(({ step, to }) => [step, to]);
  assert.deepEqual(steps({ line: 2 }), [
    [2, 4],
    [6, 6],
    [6, 8],
  ]);
  assert.deepEqual(steps({ line: 2, final: 6 }), [[6, 8]]);
});

it("what is final has a state: an interval waits for the next one that ends where states are kept", () => {
  const right = { stated: [], tasks: [], ready: true, accused: [], outcome: { kind: "right", by: "strangers" } };
  const intervals = Array.from({ length: 30 }, (_, at) => ({
    ...{ from: at, to: at + 1, turn: 0, owners: { v: "p" }, audits: { v: right } },
  }));
  const finalAt = (line: number, more: object = {}) => {
    const now = { ...session, line, lineBefore: line - 1, ...more } as SessionRecord;
    return finalOf(now, intervals as never, (step) => isKept(now, step));
  };
  assert.equal(finalAt(15).final, 0, "five are old enough, and none of them ends where states are kept");
  const { final, settled, certificate } = finalAt(20);
  assert.deepEqual([final, settled.length, certificate.strangers], [8, 8, 8]);
  assert.equal(finalAt(20, { drawn: [{ vnode: "v", from: 9, to: 10 }] }).final, 9);
});
