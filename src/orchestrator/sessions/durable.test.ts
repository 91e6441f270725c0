// The fence and the recovery line as pure functions of records.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { statePartBytes } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { writeStateManifest } from "../../states/manifest.ts";
import { valueBytesMax } from "../../store/records/state-store.ts";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { type DurableRequest, recordDurable, withDurable } from "./durable.ts";
import type { Garbage } from "./garbage.ts";
import { recoveryLine, stepRoots } from "./line.ts";

const session = {
  id: "s" as SessionId,
  vnodes: ["a", "b"] as VNodeId[],
  policy: { checkpointEvery: 2, replicas: 1 },
  line: 4,
  lineBefore: 2,
  status: "running",
} as Partial<SessionRecord> as SessionRecord;

function record(changes: Partial<VNodeRecord> = {}): VNodeRecord {
  return {
    session: "s" as SessionId,
    vnode: "a" as VNodeId,
    epoch: 5,
    members: [{ pnode: "p" as PNodeId, incarnation: "1", life: 1, since: 3, claim: "c", reason: "" }],
    durable: {},
    stepHashes: {},
    failures: [],
    memoryBytes: 0,
    flops: 0,
    ...changes,
  };
}

function request(changes: Partial<DurableRequest> = {}): DurableRequest {
  return {
    session: "s" as SessionId,
    vnode: "a" as VNodeId,
    pnode: "p" as PNodeId,
    epoch: 5,
    step: 6,
    state: { hash: sha256("state 6"), bytes: 10 },
    steps: [5, 6].map((step) => ({ step, hash: sha256(`hash ${step}`) })),
    turn: 0,
    ...changes,
  };
}

const durable = (...steps: number[]) =>
  Object.fromEntries(steps.map((step) => [step, { hash: sha256(`state ${step}`), bytes: 1 }]));

describe("a durable state", () => {
  it("is recorded only when all of its parts are there, each with its size, and of the size that was said", async () => {
    const written: (VNodeRecord | undefined)[] = [];
    const part = new Uint8Array(8);
    const manifest = writeStateManifest({
      metadata: {},
      tensors: [{ name: "w", dtype: "float32", shape: [2] }],
      bytes: part.byteLength,
      partBytes: statePartBytes,
      parts: [sha256(part)],
    });
    const hash = sha256(manifest);
    const stored = new Map<string, Uint8Array>();
    let seenStatus = session.status;
    const context = {
      blobs: {
        states: {
          get: async (name: string) => stored.get(name) ?? fail("not_found", "there is none"),
          size: async (name: string) => stored.get(name)?.byteLength,
        },
      },
      mirror: {
        get: (name: string) =>
          name.startsWith("vnode/") ? record() : { ...session, identity: { steps: 100 }, status: seenStatus },
        read: async () => ({ ...session, identity: { steps: 100 } }),
        update: async (_: string, change: (current: VNodeRecord) => VNodeRecord | undefined) => {
          written.push(change(record()));
        },
      },
    } as unknown as Context;
    const garbage = { add: () => {} } as unknown as Garbage;
    const say = (bytes: number) => recordDurable(context, garbage, request({ state: { hash, bytes } }));
    await assert.rejects(say(8), /is not in the blob store/);
    stored.set(hash, manifest);
    await assert.rejects(say(8), /part .* is not in the blob store/);
    stored.set(sha256(part), new Uint8Array(7));
    await assert.rejects(say(8), /has 7 bytes there, not 8/);
    stored.set(sha256(part), part);
    await assert.rejects(say(9), /has 8 bytes, not the 9/);
    assert.equal(written.length, 0);
    assert.deepEqual(await say(8), { kind: "accepted", line: 4, blobs: [hash, sha256(part)] });
    assert.deepEqual(written[0]?.durable["6"], { hash, bytes: 8 });
    // A mirror that has not heard yet that the session runs refuses nobody: the store is asked.
    seenStatus = "created";
    assert.deepEqual(await say(8), { kind: "accepted", line: 4, blobs: [hash, sha256(part)] });
  });

  it("is recorded only by a member, under an epoch since which it is one", () => {
    const outcome = (changes: Partial<DurableRequest>) => {
      const step = withDurable(record(), request(changes), session);
      return "conflict" in step ? "conflict" : step.outcome;
    };
    assert.equal(outcome({}), "accepted");
    assert.equal(outcome({ epoch: 3 }), "accepted", "a survivor may not have heard of the newest epoch yet");
    assert.equal(outcome({ epoch: 2 }), "fenced", "from before it lost and regained the VNode");
    assert.equal(outcome({ epoch: 6 }), "fenced", "an epoch that nobody gave");
    assert.equal(outcome({ pnode: "q" as PNodeId }), "fenced");
    assert.equal(outcome({ pnode: "q" as PNodeId, step: 1 }), "fenced", "below the line too");
  });

  it("is never written over by another one", () => {
    const before = record({ durable: durable(6), stepHashes: { 6: sha256("hash 6") } });
    const same = withDurable(before, request(), session);
    assert.ok(!("conflict" in same));
    const other = withDurable(before, request({ state: { hash: sha256("other"), bytes: 1 } }), session);
    assert.deepEqual(other, { conflict: { step: 6, known: sha256("state 6") } });
    const hashes = withDurable(before, request({ steps: [{ step: 6, hash: sha256("lie") }] }), session);
    assert.deepEqual(hashes, { conflict: { step: 6, known: sha256("hash 6") } });
  });

  it("in a session that is checked tells the hashes of the steps that its statement is about, and of no others", () => {
    const checked = { ...session, line: 0, policy: { ...session.policy, assurance: "sampled" } } as SessionRecord;
    const statement = { from: 4, to: 6, before: sha256("state 4"), after: sha256("state 6"), inputs: "", outputs: "" };
    const steps = [3, 4, 5, 6].map((step) => ({ step, hash: sha256(`hash ${step}`) }));
    const asked = request({ steps, statement: statement as Partial<typeof statement> as never });
    const outcome = withDurable(record({ durable: durable(4) }), asked, checked);
    assert.deepEqual(Object.keys(("next" in outcome && outcome.next?.stepHashes) || {}), ["5", "6"]);
  });

  it("leaves the next owner room to state its own, however much one owner states", () => {
    const checked = { ...session, policy: { ...session.policy, assurance: "sampled" } } as SessionRecord;
    const statementOf = (result: string, names: number) =>
      ({
        ...{ session: "s", vnode: "a", from: 4, to: 6, life: "1", before: "", after: sha256(result), afterBytes: 10 },
        ...{ inputs: sha256("in"), inputsBytes: 1, outputs: sha256("out"), outputsBytes: 1 },
        edges: Object.fromEntries(
          Array.from({ length: names }, (_, i) => [`f/${"x".repeat(300)}${i}`, sha256("edge")]),
        ),
        ...{ publicKey: "key", signature: "signature" },
      }) as NonNullable<DurableRequest["statement"]>;
    const stated = (before: VNodeRecord, pnode: string, result: string, names: number) => {
      const statement = statementOf(result, names);
      const step = withDurable(before, request({ pnode: pnode as PNodeId, statement }), checked);
      assert.ok(!("conflict" in step) && step.next);
      return step.next;
    };
    const members = ["p", "q"].map((pnode) => ({ ...(record().members[0] as never as object), pnode }));
    let kept = record({ members: members as never });
    kept = stated(kept, "p", "one", 200);
    assert.throws(() => stated(kept, "p", "two", 200), /more than VNode a's record takes of one owner/);
    kept = stated(kept, "q", "three", 200);
    assert.equal(kept.statements?.["6"]?.length, 2);
    assert.ok(JSON.stringify(kept).length < valueBytesMax);
  });

  it("takes garbage below the line before along, and nothing else", () => {
    const step = withDurable(
      record({ durable: durable(1, 2, 3, 4), stepHashes: { 4: "x", 5: sha256("hash 5") } }),
      request(),
      { ...session, best: { step: 1, loss: 0.1 } },
    );
    assert.ok(!("conflict" in step) && step.next);
    assert.deepEqual(Object.keys(step.next.durable), ["1", "2", "3", "4", "6"]);
    assert.deepEqual(Object.keys(step.next.stepHashes), ["5", "6"]);
    const later = withDurable(record({ durable: durable(1, 2, 3, 4) }), request(), {
      ...session,
      lineBefore: 4,
      line: 4,
    });
    assert.ok(!("conflict" in later));
    assert.deepEqual(
      later.dropped,
      [1, 2, 3].map((one) => sha256(`state ${one}`)),
    );
  });
});

describe("the recovery line", () => {
  const records = (a: number[], b: number[]) =>
    new Map([
      ["a" as VNodeId, record({ durable: durable(...a) })],
      ["b" as VNodeId, record({ vnode: "b" as VNodeId, durable: durable(...b) })],
    ]);

  it("is the newest step durable everywhere, not the least of the newest", () => {
    assert.equal(recoveryLine(session, records([2, 4, 6], [2, 6, 8])), 6);
    assert.equal(recoveryLine(session, records([3, 6], [4, 8])), 0, "4 would be durable at one of them only");
    assert.equal(recoveryLine(session, records([2, 4], [])), 0);
    assert.equal(
      recoveryLine(session, new Map([["a" as VNodeId, record({ durable: durable(2) })]])),
      0,
      "a VNode without a record",
    );
  });

  it("gives roots only of steps that every VNode has told", () => {
    const told = new Map([
      ["a" as VNodeId, record({ stepHashes: { 5: "a5", 6: "a6" } })],
      ["b" as VNodeId, record({ stepHashes: { 6: "b6" } })],
    ]);
    assert.deepEqual(stepRoots(session, told, 4, 6), [{ step: 6, root: sha256("a6", "b6") }]);
  });
});
