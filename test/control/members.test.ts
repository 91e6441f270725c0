// Who may lend machines: policies, invites, and what becomes of a machine that is drained, sent away or forgotten.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { JoinPolicy, MembershipService } from "../../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { BlobAction, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { Stage } from "./stage.ts";

const { method } = MembershipService;

async function refusedAs(stage: Stage, name: string, invite = ""): Promise<string> {
  const node = stage.pnode(name, { persistent: false, register: { invite } });
  await stage.until(`${name} is refused`, () => node.errors.length > 0);
  return node.errors[0]?.message ?? "";
}

async function joins(stage: Stage, name: string, invite = "") {
  const node = stage.pnode(name, { register: { invite } });
  await stage.until(`${name} attaches`, () => node.attachedTo !== "");
  return node;
}

const ownersOf = async (stage: Stage, session: string) =>
  (await stage.vnodes(session)).flatMap(({ members }) => members.map(({ pnode }) => pnode as string));

describe("a network's policy", () => {
  it("open lets everybody in; invited those with an invite, as often as it says; listed those who were admitted", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await joins(stage, "first");
    await stage.call(method.setJoinPolicy, { policy: JoinPolicy.INVITED });
    assert.match(await refusedAs(stage, "stranger"), /with an invite only/);
    const { token, networkKey, orchestrators } = await stage.call(method.createInvite, { uses: 1 });
    assert.ok(orchestrators.every((address) => address.endsWith(`#${networkKey}`)));
    assert.match(await refusedAs(stage, "liar", `${token}x`), /is not known here/);
    const invited = await joins(stage, "invited", token);
    assert.match(await refusedAs(stage, "second", token), /used up/);
    invited.breakStream();
    await stage.until("it is back without a new invite", () => invited.attachedTo !== "");
    await stage.call(method.setJoinPolicy, { policy: JoinPolicy.LISTED });
    assert.match(await refusedAs(stage, "unlisted", token), /not on this network's list/);
    await stage.call(method.admitPNode, { pnode: "listed" });
    await joins(stage, "listed");
    await stage.stop();
  });

  it("takes no invite that has expired", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await stage.call(method.setJoinPolicy, { policy: JoinPolicy.INVITED });
    const { token } = await stage.call(method.createInvite, { uses: 5, lifetimeSeconds: 2n });
    await joins(stage, "early", token);
    await stage.pass(3_000);
    assert.match(await refusedAs(stage, "late", token), /has expired/);
    await stage.stop();
  });
});

describe("a machine", () => {
  it("that is sent away loses its stream and its work at once, at whichever orchestrator it is, and stays away", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await stage.orchestrator("o2");
    const [bad, good] = [await joins(stage, "bad"), await joins(stage, "good")];
    const session = await stage.session({ replicas: 2 });
    await stage.untilRecord<VNodeRecord>("both own it", `vnode/${session}/a`, ({ members }) => members.length === 2);
    await stage.call(method.revokePNode, { pnode: "bad", reason: "it lies" }, "o2");
    const { nowMs } = stage;
    await stage.untilRecord<VNodeRecord>("its work is elsewhere", `vnode/${session}/a`, ({ members }) =>
      members.every(({ pnode }) => (pnode as string) === "good"),
    );
    assert.ok(stage.nowMs - nowMs <= 1_000, `within a heartbeat, not ${stage.nowMs - nowMs} ms`);
    await stage.until("it is refused", () => bad.errors.some(({ message }) => /was sent away/.test(message)));
    assert.ok(!(await ownersOf(stage, session)).includes("bad"));
    const grant = { hash: "0".repeat(64), bytes: 1n, action: BlobAction.UPLOAD };
    await assert.rejects(stage.callAs("bad", PNodeService.method.grantBlob, grant), /was sent away/);
    assert.notEqual(good.attachedTo, "");
    await stage.call(method.forgetPNode, { pnode: "bad" });
    const before = bad.errors.length;
    await stage.until("it tries again", () => bad.errors.length > before);
    assert.match(bad.errors.at(-1)?.message ?? "", /was sent away/, "forgotten is not forgiven");
    await stage.call(method.admitPNode, { pnode: "bad" });
    await stage.until("it is back", () => bad.attachedTo !== "");
    await stage.stop();
  });

  it("that is sent away while its registration is being written does not stay", async () => {
    const revoked = Promise.withResolvers<void>();
    let isWriting = false;
    const stage = new Stage(1, (view) => {
      const slow = async (...given: Parameters<typeof view.put>) => {
        if (given[0] === "pnode/bad" && !isWriting) {
          isWriting = true;
          await revoked.promise;
        }
        return view.put(...given);
      };
      return new Proxy(view, {
        get: (target, name) => (name === "put" ? slow : Reflect.get(target, name).bind(target)),
      });
    });
    await stage.orchestrator("o1");
    await joins(stage, "good");
    const bad = stage.pnode("bad");
    await stage.until("it is being written", () => isWriting);
    await stage.call(method.revokePNode, { pnode: "bad" });
    revoked.resolve();
    await stage.pass(3_000);
    assert.equal((await stage.pnodeRecord("bad"))?.status, "lost");
    assert.ok(bad.errors.some(({ message }) => /was sent away/.test(message)));
    const session = await stage.session();
    await stage.untilRecord<VNodeRecord>("it runs", `vnode/${session}/a`, ({ members }) => members.length === 1);
    assert.ok(!(await ownersOf(stage, session)).includes("bad"));
    await stage.stop();
  });

  it("that is drained keeps its stream and gets nothing until that is undone; only who is gone is forgotten", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const node = await joins(stage, "p0");
    await stage.call(method.drainPNode, { pnode: "p0" });
    const session = await stage.session();
    await stage.pass(3_000);
    assert.deepEqual(await ownersOf(stage, session), []);
    assert.notEqual(node.attachedTo, "");
    await assert.rejects(stage.call(method.forgetPNode, { pnode: "p0" }), /only machines that are gone/);
    await stage.call(method.drainPNode, { pnode: "p0", undo: true });
    await stage.untilRecord<VNodeRecord>("it gets work", `vnode/${session}/a`, ({ members }) => members.length === 1);
    await assert.rejects(stage.call(method.drainPNode, { pnode: "nobody" }), /there is no PNode/);
    const { events } = await stage.call(FleetService.method.listEvents, { kindPrefix: "admin." });
    assert.deepEqual(
      events.map(({ kind }) => kind),
      ["admin.drain", "admin.drain"],
      "what operators do is told",
    );
    await stage.stop();
  });
});
