// A session whose numerics class is gone: it waits, or goes on in another class from its line, as its owner asked.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { Stage } from "./stage.ts";

const timings = { eraIntervalMs: 500, eraPatienceMs: 4_000 };

/** A machine of a class, whose states have bits of their own. */
function machine(stage: Stage, name: string, numerics: string) {
  const capabilities = { numerics: [{ engine: "reference", class: numerics }] };
  const isOther = numerics !== "one";
  return stage.pnode(name, { stepMs: 400, register: { capabilities }, lie: () => isOther });
}

async function begun(settings: Record<string, unknown>) {
  const stage = new Stage();
  await stage.orchestrator("o1", timings);
  const first = machine(stage, "first", "one");
  await stage.until("the PNode attaches", () => first.attachedTo !== "");
  const id = await stage.session(settings);
  await stage.untilRecord<SessionRecord>("it has a line", `session/${id}`, ({ line }) => line >= 4);
  return { stage, first, id };
}

describe("a session whose last machine of a class is gone", () => {
  it("goes on in another class from its line, in all VNodes, and says what each era was", async () => {
    const { stage, first, id } = await begun({ eras: "on" });
    first.kill();
    const second = machine(stage, "second", "two");
    const changed = await stage.untilRecord<SessionRecord>(
      "the class changes",
      `session/${id}`,
      ({ numericsClass }) => numericsClass === "two",
    );
    const [era] = changed.eras ?? [];
    assert.equal(era?.class, "one");
    assert.equal(changed.turn, 1);
    assert.equal(changed.turnLine, era?.to);
    for (const { durable } of await stage.vnodes(id))
      for (const step of Object.keys(durable)) assert.ok(Number(step) <= changed.line, `step ${step} is void`);
    await stage.untilRecord<SessionRecord>("it is done", `session/${id}`, ({ status }) => status === "done");
    assert.equal(second.refusedDurables, 0);
    const { session } = await stage.call(SessionService.method.getSession, { id });
    assert.deepEqual(
      session?.eras.map(({ numericsClass, toStep }) => [numericsClass, Number(toStep)]),
      [["one", era?.to]],
    );
    await stage.stop();
  });

  it("takes no state that was computed before the era began", async () => {
    const { stage, first, id } = await begun({ eras: "on" });
    first.detach();
    machine(stage, "second", "two");
    await stage.untilRecord<SessionRecord>("the class changes", `session/${id}`, ({ turn }) => turn === 1);
    const record = (await stage.record<VNodeRecord>(`vnode/${id}/a`)) as VNodeRecord;
    const { durable } = record;
    const [hash] = Object.values(durable).map((state) => state.hash);
    const late = { session: id, vnode: "a", epoch: BigInt(record.epoch), step: 19n, state: hash ?? "", stateBytes: 0n };
    await stage.callAs("first", PNodeService.method.recordDurable, { ...late, turn: 0n }).catch(() => {});
    const after = (await stage.record<VNodeRecord>(`vnode/${id}/a`)) as VNodeRecord;
    assert.equal(after.durable["19"], undefined);
    await stage.stop();
  });

  it("waits and says why, where its owner did not allow eras", async () => {
    const { stage, first, id } = await begun({});
    first.kill();
    machine(stage, "second", "two");
    await stage.pass(20_000);
    const { numericsClass, eras, turn, reason } = (await stage.sessionRecord(id)) as SessionRecord;
    assert.deepEqual([numericsClass, eras, turn], ["one", undefined, undefined]);
    assert.match(
      reason,
      /needs reference numerics of the class one, in which it began; none of 1 PNode computes in it/,
    );
    await stage.stop();
  });

  it("waits for a machine that is only restarted", async () => {
    const { stage, first, id } = await begun({ eras: "on" });
    first.breakStream();
    machine(stage, "second", "two");
    await stage.untilRecord<SessionRecord>("it is done", `session/${id}`, ({ status }) => status === "done");
    const { numericsClass, eras } = (await stage.sessionRecord(id)) as SessionRecord;
    assert.deepEqual([numericsClass, eras], ["one", undefined]);
    await stage.stop();
  });
});
