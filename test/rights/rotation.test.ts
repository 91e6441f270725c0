// Keys that are replaced while the network runs: a machine's, a person's, the network's own. On real connections.

import assert from "node:assert/strict";
import { test } from "node:test";
import { loadNetworkKey } from "../../src/cli/machine/keys/network-key.ts";
import { hasCode } from "../../src/core/errors.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { keyIdOf } from "../../src/core/keys.ts";
import { sleep } from "../../src/core/world.ts";
import { ApiKeys } from "../../src/orchestrator/rights/keys.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { MembershipService } from "../../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { RightsService } from "../../src/protocol/gen/dcnr/v1/rights_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { KeyBook } from "../../src/protocol/identity/key-book.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { newIdentity, type RealIdentity, succeeded } from "../../src/system/keys.ts";
import { RealStage } from "./stage.ts";

const isReplaced = (error: unknown) =>
  hasCode(error, "unauthenticated") && /was replaced by a newer one/.test(String(error));
const presentKey = ({ publicKey }: RealIdentity) => keyIdOf(publicKey);

async function staged(orchestrators: number, run: (stage: RealStage, key: KeyId) => Promise<void>): Promise<void> {
  const stage = new RealStage();
  try {
    for (let count = 0; count < orchestrators; count++) await stage.orchestrator();
    await run(stage, (await loadNetworkKey(stage.store, stage.world)).id);
  } finally {
    await stage.stop();
  }
}

async function eventually(stage: RealStage, holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await sleep(stage.world.timers, 20);
}

test("a person whose key was replaced keeps the rights, at every orchestrator; the old key and other heirs of it have none", () =>
  staged(2, async (stage, network) => {
    const person = newIdentity();
    await new ApiKeys(stage.store, stage.world, false).admit(person.id, { name: "Ada", scopes: ["admin"] });
    const places = [0, 1].map((index) => stage.addressOf(index, network));
    const whoAt = (identity: RealIdentity, place: string) =>
      stage.open({ identity }).call(place, RightsService.method.getCaller, {});
    const next = succeeded(person);
    assert.deepEqual((await whoAt(person, places[0] as string)).scopes, ["admin"]);
    const { id, scopes, owner } = await whoAt(next, places[0] as string);
    assert.deepEqual({ id, scopes, owner }, { id: person.id, scopes: ["admin"], owner: "Ada" });
    await eventually(stage, async () => (await whoAt(person, places[1] as string)).scopes.length === 0);
    for (const place of places) {
      assert.deepEqual((await whoAt(next, place)).scopes, ["admin"]);
      for (const late of [person, succeeded(person)]) {
        assert.equal((await whoAt(late, place)).id, "", "what is open to all is open to nobody in particular");
        await assert.rejects(stage.open({ identity: late }).call(place, RightsService.method.listActs, {}), isReplaced);
      }
    }
    const acts = await stage.open({ identity: next }).call(places[1] as string, RightsService.method.listActs, {});
    assert.deepEqual(
      acts.acts.map(({ what, subject, result }) => ({ what, subject, result })),
      [{ what: "SucceedKey", subject: presentKey(next), result: "done" }],
    );
  }));

test("a stranger who shows a key with a past leaves no record", () =>
  staged(1, async (stage, network) => {
    const stranger = succeeded(succeeded(newIdentity()));
    const { id } = await stage
      .open({ identity: stranger })
      .call(stage.addressOf(0, network), RightsService.method.getCaller, {});
    assert.equal(id, stranger.id);
    assert.deepEqual((await stage.store.list("identity/")).items, []);
  }));

test("a machine whose key was replaced comes back as itself; whoever has the old key can neither join nor ask as it", () =>
  staged(2, async (stage, network) => {
    const places = [0, 1].map((index) => stage.addressOf(index, network));
    const machine = newIdentity();
    const before = await stage.pnode(machine, [places[0] as string]);
    await before.attached;
    const pnodes = async () =>
      (await stage.open().call(places[1] as string, FleetService.method.listPNodes, {})).pnodes.map(({ id }) => id);
    await before.stop();
    const next = succeeded(machine);
    const after = await stage.pnode(next, [places[1] as string]);
    await after.attached;
    assert.equal(after.id, machine.id);
    assert.deepEqual(await pnodes(), [machine.id]);
    await eventually(
      stage,
      async () =>
        (await stage.open({ identity: machine }).call(places[0] as string, RightsService.method.getCaller, {})).id ===
        "",
    );
    for (const place of places)
      for (const late of [machine, succeeded(machine)]) {
        const thief = stage.open({ identity: late });
        await assert.rejects(thief.call(place, PNodeService.method.resolve, { session: "x" }), isReplaced);
        const channel = thief.open(place, PNodeService.method.attach);
        await assert.rejects(channel.incoming[Symbol.asyncIterator]().next(), isReplaced);
        channel.close();
      }
    const again = await stage.store.get(`identity/${machine.id}`);
    assert.deepEqual(
      (JSON.parse(again?.value ?? "{}") as { keys: { key: string }[] }).keys.map(({ key }) => key),
      [machine.id, presentKey(next)],
    );
  }));

test("the network's key is replaced while everything runs: all orchestrators show the new one, whoever knows the old one follows, and the old one alone is refused", () =>
  staged(2, async (stage, network) => {
    const person = newIdentity();
    await new ApiKeys(stage.store, stage.world, false).admit(person.id, { name: "Ada", scopes: ["admin"] });
    const stolen = await loadNetworkKey(stage.store, stage.world);
    const places = [0, 1].map((index) => stage.addressOf(index, network));
    const pnode = await stage.pnode(newIdentity(), [places[0] as string]);
    await pnode.attached;
    const keys = new KeyBook();
    const admin = stage.open({ identity: person, keys });
    const { networkKey } = await admin.call(places[0] as string, RightsService.method.rotateNetworkKey, {});
    assert.notEqual(networkKey, network);
    await eventually(stage, () => stage.orchestrators.every(({ network: shows }) => shows.key === networkKey));

    // By the old key, by the new one, and by a link that is made now.
    for (const index of [0, 1])
      for (const known of [network, networkKey as KeyId]) {
        const caller = await stage
          .open({ identity: person })
          .call(stage.addressOf(index, known), RightsService.method.getCaller, {});
        assert.deepEqual([caller.id, caller.networkKey], [person.id, networkKey]);
      }
    const fresh = stage.open({ identity: person, keys });
    const invite = await fresh.call(places[1] as string, MembershipService.method.createInvite, {});
    assert.equal(invite.networkKey, networkKey);
    assert.equal(keys.newest(network), networkKey);

    // A machine that joins with the old key in its link, and one that was there before, are asked by orchestrators alone.
    const late = await stage.pnode(newIdentity(), [places[1] as string]);
    await late.attached;
    const atPNode = withKey(late.address, late.id as unknown as KeyId);
    const asOrchestrator = (identity: RealIdentity) =>
      stage.open({ identity }).call(atPNode, ServingService.method.forwardTensors, {});
    const current = await loadNetworkKey(stage.store, stage.world);
    await assert.rejects(asOrchestrator(current), (error) => !hasCode(error, "permission_denied"));
    await assert.rejects(asOrchestrator(stolen), (error) => hasCode(error, "permission_denied"));

    // Whoever still shows the old key is no orchestrator for those who know of the new one.
    const impostor = stage.open({ identity: stolen });
    const listening = await impostor.serve("127.0.0.1:0", []);
    await assert.rejects(
      stage.open({ keys }).call(withKey(listening.address, network), RightsService.method.getCaller, {}),
      (error) => hasCode(error, "unauthenticated"),
    );
    await listening.close();
  }));

test("an orchestrator that starts later shows the newest key, and keys can be replaced again", () =>
  staged(1, async (stage, network) => {
    const person = newIdentity();
    await new ApiKeys(stage.store, stage.world, false).admit(person.id, { name: "Ada", scopes: ["admin"] });
    const admin = stage.open({ identity: person });
    for (let turn = 0; turn < 3; turn++)
      await admin.call(stage.addressOf(0, network), RightsService.method.rotateNetworkKey, {});
    await stage.orchestrator();
    const [first, second] = stage.orchestrators.map(({ network: shows }) => shows.key);
    assert.equal(first, second);
    const { id } = await stage
      .open({ identity: person })
      .call(stage.addressOf(1, network), RightsService.method.getCaller, {});
    assert.equal(id, person.id);
  }));

test("members go on knowing each other when a machine's key and then the network's are replaced; whoever joins by the new key knows all", () =>
  staged(1, async (stage, network) => {
    const person = newIdentity();
    await new ApiKeys(stage.store, stage.world, false).admit(person.id, { name: "Ada", scopes: ["admin"] });
    const place = stage.addressOf(0, network);
    const [maple, oak] = [newIdentity(), newIdentity()];
    const first = await stage.pnode(maple, [place]);
    const other = await stage.pnode(oak, [place]);
    const knows = ({ members }: typeof other, id: string, key: KeyId) =>
      members?.known().some(({ member, standing }) => {
        const isIt = member.id === id && member.keys.at(-1) === key;
        return isIt && standing === "alive";
      }) ?? false;
    await eventually(stage, () => knows(other, maple.id, maple.id));
    await first.stop();
    const next = succeeded(maple);
    const again = await stage.pnode(next, [place]);
    await eventually(stage, () => knows(other, maple.id, presentKey(next)) && knows(again, oak.id, oak.id));

    const admin = stage.open({ identity: person });
    const { networkKey } = await admin.call(place, RightsService.method.rotateNetworkKey, {});
    const late = newIdentity();
    const newcomer = await stage.pnode(late, [stage.addressOf(0, networkKey as KeyId)]);
    await eventually(
      stage,
      () =>
        knows(other, late.id, late.id) &&
        knows(newcomer, oak.id, oak.id) &&
        knows(newcomer, maple.id, presentKey(next)),
    );
    const places = [other, again, newcomer].map(({ members }) => members?.orchestrators());
    assert.deepEqual(places, Array(3).fill([stage.addressOf(0, networkKey as KeyId)]));
  }));
