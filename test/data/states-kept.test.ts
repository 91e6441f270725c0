// A state that sessions start from, or that a model serves, stays for as long as it is needed, whoever made it.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../src/core/errors.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { actedState } from "../control/acting-pnode.ts";
import { Stage } from "../control/stage.ts";

const isDone = (record: SessionRecord) => record.status === "done";

async function trained(stage: Stage): Promise<string> {
  await stage.orchestrator("o1", { garbageDelayMs: 1_000 });
  const node = stage.pnode("p0", { stepMs: 50 });
  await stage.until("the PNode attaches", () => node.attachedTo !== "");
  const session = await stage.session();
  await stage.untilRecord("the session is done", `session/${session}`, isDone);
  return session;
}

async function blobs(stage: Stage): Promise<Set<string>> {
  const left = new Set<string>();
  for await (const { hash } of stage.blobs.inner.states.list()) left.add(hash);
  return left;
}

async function isThere(left: ReadonlySet<string>, session: string, vnode: string): Promise<void> {
  for (const hash of (await actedState(session, vnode, 20)).blobs.keys())
    assert.ok(left.has(hash), `manifest and parts of the state of ${vnode}`);
}

describe("a stored state", () => {
  it("outlives its session while a model serves it", async () => {
    const stage = new Stage();
    const session = await trained(stage);
    await stage.call(InferenceService.method.serveModel, { source: session, name: "kept", replicas: 1 });
    await stage.call(SessionService.method.deleteSession, { id: session });
    await stage.pass(10_000);
    const left = await blobs(stage);
    for (const vnode of ["a", "b", "c"]) await isThere(left, session, vnode);
    await stage.stop();
  });

  it("is still the model's after a session was trained from it and deleted", async () => {
    const stage = new Stage();
    const session = await trained(stage);
    await stage.call(InferenceService.method.serveModel, { source: session, name: "kept", replicas: 1 });
    const tuned = await stage.session({ initialState: "kept", seed: 7n });
    assert.notEqual(tuned, session);
    await stage.untilRecord("the second session is done", `session/${tuned}`, isDone);
    for (const id of [session, tuned]) await stage.call(SessionService.method.deleteSession, { id });
    await stage.pass(10_000);
    const left = await blobs(stage);
    for (const vnode of ["a", "b", "c"]) {
      await isThere(left, session, vnode);
      for (const hash of (await actedState(tuned, vnode, 20)).blobs.keys())
        assert.ok(!left.has(hash), "what nobody needs is gone");
    }
    await stage.stop();
  });

  it("of another network is refused as a start", async () => {
    const stage = new Stage();
    await trained(stage);
    await assert.rejects(
      stage.session({ initialState: "nothing-such" }),
      (error: unknown) => hasCode(error, "not_found") && /neither a session nor a model/.test(String(error)),
    );
    await stage.stop();
  });
});
