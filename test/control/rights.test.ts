// What keys are good for beyond their scopes, and the log of what was done with them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keyIdOf } from "../../src/core/keys.ts";
import { actsKeptMs } from "../../src/orchestrator/rights/acts.ts";
import { DatasetService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { JoinPolicy, MembershipService } from "../../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { RightsService } from "../../src/protocol/gen/dcnr/v1/rights_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { TrustService } from "../../src/protocol/gen/dcnr/v1/trust_pb.ts";
import { Stage } from "./stage.ts";

const personOf = (name: string) => keyIdOf(new TextEncoder().encode(name));
const [ada, ben] = [personOf("Ada"), personOf("Ben")];
const settings = { network: "chain", dataset: "data", split: "all", steps: 20n, batch: 4, microbatches: 2 };

async function admitted(stage: Stage, key: string, owner: string, wish: object): Promise<void> {
  await stage.call(RightsService.method.admitKey, { key, owner, scopes: ["train", "admin"], ...wish });
}

describe("a key that is limited", () => {
  it("to a network opens that network, its sessions and models, and nothing else", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const session = await stage.session({}, undefined, false);
    const { network } = await stage.call(NetworkService.method.getNetwork, { id: "chain" });
    assert.ok(network);
    await admitted(stage, ada, "Ada", { networks: ["chain"] });
    await admitted(stage, ben, "Ben", { networks: ["another"] });
    const { suspendSession, startSession, deleteSession, createSession } = SessionService.method;
    const limited = /limited to the network/;
    for (const method of [startSession, suspendSession, deleteSession])
      await assert.rejects(stage.callAs(ben, method, { id: session }), limited);
    await assert.rejects(stage.callAs(ben, createSession, { settings: { ...settings, seed: 7n } }), limited);
    await assert.rejects(stage.callAs(ben, NetworkService.method.deleteNetwork, { id: "chain" }), limited);
    await assert.rejects(stage.callAs(ben, InferenceService.method.describeState, { source: session }), limited);
    await assert.rejects(stage.callAs(ben, InferenceService.method.serveModel, { source: session }), limited);
    await assert.rejects(stage.callAs(ben, SessionService.method.listStates, { session }), limited);
    const { session: made } = await stage.callAs(ada, createSession, { settings: { ...settings, seed: 7n } });
    await stage.callAs(ada, deleteSession, { id: made?.id as string });
    const { acts } = await stage.call(RightsService.method.listActs, { who: ben });
    assert.deepEqual(acts, [], "what such a key may not do is no act");
    await stage.callAs(ada, startSession, { id: session });
    // What belongs to no network is closed, whatever the scope: data, machines, keys.
    await assert.rejects(stage.callAs(ada, DatasetService.method.deleteDataset, { name: "data" }), limited);
    await assert.rejects(stage.callAs(ada, MembershipService.method.revokePNode, { pnode: "p0" }), limited);
    await assert.rejects(stage.callAs(ada, InferenceService.method.createApiKey, { scopes: ["admin"] }), limited);
    await assert.rejects(stage.callAs(ada, NetworkService.method.createNetwork, { definition: "{}" }), limited);
    await assert.rejects(
      stage.callAs(ada, createSession, { settings: { ...settings, network: "another" } }),
      limited,
      "also of networks that are not there",
    );
    await stage.stop();
  });

  it("to what its owner made opens no other owner's session, data or machine", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const others = await stage.session({}, undefined, false);
    await admitted(stage, ada, "Ada", { ownOnly: true });
    const { createSession, deleteSession, suspendSession } = SessionService.method;
    const wish = { settings: { ...settings, seed: 9n } };
    const own = (await stage.callAs(ada, createSession, wish)).session?.id as string;
    const refused = /limited to what Ada made/;
    await assert.rejects(stage.callAs(ada, deleteSession, { id: others }), refused);
    await assert.rejects(stage.callAs(ada, DatasetService.method.deleteDataset, { name: "data" }), refused);
    const taken = { settings: { ...settings, seed: 10n, initialState: others } };
    await assert.rejects(stage.callAs(ada, createSession, taken), refused, "nor the weights of others' sessions");
    const read = { model: "mine", dataset: "data", split: "all", count: 4 };
    await assert.rejects(
      stage.callAs(ada, InferenceService.method.forward, read),
      refused,
      "nor data by way of a model",
    );
    await assert.rejects(stage.callAs(ada, InferenceService.method.createApiKey, { scopes: ["admin"] }), refused);
    // Whose a machine is, it says itself: an owner neither lets machines in nor calls its own trusted.
    const machine = { pnode: "p0", standing: "trusted" };
    await assert.rejects(stage.callAs(ada, MembershipService.method.admitPNode, { pnode: "p9" }), refused);
    await assert.rejects(stage.callAs(ada, TrustService.method.setTrust, machine), refused);
    // Another person's key with the same limits is not that owner.
    await admitted(stage, ben, "Ben", { ownOnly: true });
    await assert.rejects(stage.callAs(ben, deleteSession, { id: own }), /somebody else's/);
    await stage.callAs(ada, deleteSession, { id: own });
    await assert.rejects(stage.callAs(ada, suspendSession, { id: "nowhere" }), /nowhere/);
    await stage.stop();
  });

  it("ends: a key that has expired opens nothing and says so", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await admitted(stage, ada, "Ada", { lifetimeSeconds: 10n });
    assert.deepEqual((await stage.callAs(ada, RightsService.method.getCaller, {})).scopes, ["train", "admin"]);
    await stage.pass(11_000);
    const { scopes, refusal, id } = await stage.callAs(ada, RightsService.method.getCaller, {});
    assert.deepEqual({ scopes, id }, { scopes: [], id: ada });
    assert.match(refusal, /expired 1\.\d s ago/);
    await assert.rejects(stage.callAs(ada, RightsService.method.listActs, {}), /expired/);
    await stage.stop();
  });
});

describe("the log of acts", () => {
  it("tells who did what on what, from where, with which result, newest first, at whichever orchestrator", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await stage.orchestrator("o2");
    await admitted(stage, ada, "Ada", {});
    await stage.callAs(ada, MembershipService.method.setJoinPolicy, { policy: JoinPolicy.LISTED });
    await stage.pass(60_000);
    await stage.call(MembershipService.method.admitPNode, { pnode: "p7" }, "o2");
    await stage.pass(60_000);
    await assert.rejects(stage.callAs(ada, MembershipService.method.forgetPNode, { pnode: "p8" }), /no PNode p8/);
    await stage.pass(60_000);
    const distrust = { pnode: "p8", standing: "banned", reason: "lies" };
    await assert.rejects(stage.callAs(ada, TrustService.method.setTrust, distrust), /no PNode p8/);
    const { acts } = await stage.call(RightsService.method.listActs, {}, "o2");
    assert.deepEqual(
      acts.map(({ what, subject, owner, key, address, result, orchestrator }) =>
        [what, subject, owner || "local", key.slice(0, 4), address, result, orchestrator].join(" "),
      ),
      [
        `SetTrust p8 Ada ${ada.slice(0, 4)} client failed o1`,
        `ForgetPNode p8 Ada ${ada.slice(0, 4)} client failed o1`,
        "AdmitPNode p7 local  127.0.0.1 done o2",
        `SetJoinPolicy JOIN_POLICY_LISTED Ada ${ada.slice(0, 4)} client done o1`,
        `AdmitKey ${ada} local  127.0.0.1 done o1`,
      ],
    );
    assert.match(acts[0]?.detail ?? "", /there is no PNode p8/);
    const only = async (filter: object) =>
      (await stage.call(RightsService.method.listActs, filter)).acts.map(({ what }) => what);
    assert.deepEqual(await only({ who: "Ada" }), ["SetTrust", "ForgetPNode", "SetJoinPolicy"]);
    assert.deepEqual(await only({ who: ada, what: "SetJoinPolicy" }), ["SetJoinPolicy"]);
    assert.deepEqual(await only({ subject: "p7" }), ["AdmitPNode"]);
    assert.deepEqual(await only({ sinceWallMs: acts[2]?.wallMs as bigint }), ["SetTrust", "ForgetPNode", "AdmitPNode"]);
    const first = await stage.call(RightsService.method.listActs, { limit: 4 });
    assert.equal(first.acts.length, 4);
    assert.deepEqual(await only({ pageToken: first.nextPageToken }), ["AdmitKey"]);
    await stage.stop();
  });

  it("keeps every act of several orchestrators at once, and none that was refused for want of rights", async () => {
    const stage = new Stage();
    const names = ["o1", "o2", "o3"];
    for (const name of names) await stage.orchestrator(name);
    await stage.settled(
      Promise.all(
        Array.from({ length: 60 }, (_, i) =>
          stage.network.call(
            (stage.orchestrators.get(names[i % 3] as string) as { address: string }).address,
            MembershipService.method.admitPNode,
            { pnode: `p${i}` },
            { timeoutMs: 20_000 },
          ),
        ),
      ),
    );
    await assert.rejects(stage.callAs(ben, MembershipService.method.admitPNode, { pnode: "p99" }), /no rights here/);
    const { acts } = await stage.call(RightsService.method.listActs, { limit: 1000, what: "AdmitPNode" });
    assert.deepEqual(acts.map(({ subject }) => subject).sort(), Array.from({ length: 60 }, (_, i) => `p${i}`).sort());
    assert.ok(acts.every(({ result }) => result === "done"));
    await stage.stop();
  });

  it("ends after its time, and not before", async () => {
    const stage = new Stage();
    const orchestrator = await stage.orchestrator("o1");
    assert.ok(orchestrator);
    await stage.call(MembershipService.method.admitPNode, { pnode: "p0" });
    const { items } = await stage.store.inner.list("act/");
    const [item] = items;
    assert.ok(item);
    // The same act as of long ago.
    const old = { ...(JSON.parse(item.value) as object), wallMs: 1 };
    await stage.store.inner.put("act/999999999999999-x-000001", JSON.stringify(old), 0);
    assert.ok(actsKeptMs > 365 * 86_400_000);
    await stage.pass(3_600_001);
    const left = await stage.store.inner.list("act/");
    assert.deepEqual(
      left.items.map(({ key }) => key),
      [item.key],
    );
    await stage.stop();
  });
});
