import { strict as assert } from "node:assert";
import { it } from "node:test";
import { fail } from "../../core/errors.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { Tasks } from "../../core/tasks.ts";
import { silentLog } from "../../core/world.ts";
import { realWorld } from "../../system/world.ts";
import { timingsDefault } from "../options.ts";
import { type AuditAssignment, Auditor, type AuditorOptions } from "./auditor.ts";

const audit = {
  ...{ session: "s" as SessionId, vnode: "v" as VNodeId, from: 0, to: 2, turn: 0, before: "" },
  ...{ inputs: "a".repeat(64) as Sha256, against: "", keep: false, beside: [] },
} satisfies AuditAssignment;

/** One that can repeat nothing, and whose answers arrive when the test says so. */
function stage() {
  const replies: (() => void)[] = [];
  const tasks = new Tasks(silentLog);
  const orchestrators = { call: () => new Promise<void>((resolve) => replies.push(resolve)) };
  const auditor = new Auditor({
    ...{ world: realWorld({ logFormat: "none" }), tasks, timings: timingsDefault, orchestrators, signing: {} },
    ...{ openSession: async () => fail("unavailable", "not now"), signal: new AbortController().signal },
  } as unknown as AuditorOptions);
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return { auditor, replies, settle };
}

it("an audit that is asked for again is done again, also where its answer was known before the reply to it came", async () => {
  const { auditor, replies, settle } = stage();
  auditor.reconcile([audit]);
  await settle();
  assert.equal(replies.length, 1, "it says that it could not");
  auditor.reconcile([]);
  replies[0]?.();
  await settle();
  auditor.reconcile([audit]);
  await settle();
  assert.equal(replies.length, 2);
});

it("an audit that was not wanted for a moment is done all the same", async () => {
  const { auditor, replies, settle } = stage();
  auditor.reconcile([audit]);
  await settle();
  auditor.reconcile([]);
  auditor.reconcile([audit]);
  replies[0]?.();
  await settle();
  assert.equal(replies.length, 2);
});

it("what was answered is not answered again while it is still asked for", async () => {
  const { auditor, replies, settle } = stage();
  auditor.reconcile([audit]);
  await settle();
  replies[0]?.();
  await settle();
  auditor.reconcile([audit]);
  await settle();
  assert.equal(replies.length, 1);
});
