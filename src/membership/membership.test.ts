import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { simulatedIdentity, simulatedKeys } from "../../simulation/world/keys.ts";
import { Fabric, type SimulatedNetwork } from "../../simulation/world/network.ts";
import { networkKey } from "../../simulation/world/network-key.ts";
import { Wire } from "../../simulation/world/wire.ts";
import { type Host, SimulatedWorld } from "../../simulation/world/world.ts";
import { fail } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import type { Identity } from "../core/keys.ts";
import { GossipService } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import type { Network, UnaryMethod } from "../protocol/network.ts";
import type { Member } from "./member.ts";
import { Membership, type MembershipOptions } from "./membership.ts";
import { permit, seal } from "./records.ts";
import { networkToWire } from "./service.ts";
import { newsToWire } from "./wire.ts";

const network = simulatedIdentity(networkKey);
const other = simulatedIdentity("another network");
const farSeconds = 4_000_000_000;
const addressOf = (name: string) => `${name}.test:7400`;
const factsOf = (name: string) => ({
  ...{ name, routes: [addressOf(name)], roles: ["pnode" as const], numerics: ["reference"] },
  ...{ cores: 2, memoryBytes: 2 ** 30, gflops: 1, load: 0, region: "" },
});

/** Machines of one network, without disks. */
class Scene {
  readonly world = new SimulatedWorld(1);
  readonly #fabric = new Fabric(new Wire(this.world));
  readonly #members: Membership[] = [];

  wiresOf(host: Host): SimulatedNetwork {
    return this.#fabric.network(host, host.name as KeyId);
  }

  async start(
    name: string,
    given: Partial<Pick<MembershipOptions, "contacts" | "facts">> = {},
    around: (wires: SimulatedNetwork) => Network = (wires) => wires,
  ): Promise<Membership> {
    const host = this.world.start(name);
    const membership = new Membership({
      ...{ id: name, role: "pnode", incarnation: "now", identity: simulatedIdentity(name), keys: simulatedKeys },
      ...{ networkKey, network: around(this.wiresOf(host)), world: host.world },
      ...{ facts: () => factsOf(name), contacts: () => [], ...given },
    });
    this.#members.push(membership);
    await this.wiresOf(host).serve(addressOf(name), [membership.service]);
    await membership.start();
    return membership;
  }

  passed(ms: number): Promise<void> {
    return new Promise((resolve) => this.world.time.after(ms, resolve));
  }

  async run(what: () => Promise<void>): Promise<void> {
    let isOver = false;
    const whole = what()
      .then(() => Promise.all(this.#members.map((one) => one.stop(false))))
      .finally(() => {
        isOver = true;
      });
    await this.world.time.run(() => isOver, 100_000);
    await whole;
  }
}

/** What a machine of that name once said of itself in a network. */
function saidBy(name: string, of: Identity, sequence = 7) {
  const self = { id: name, incarnation: "earlier", identity: simulatedIdentity(name) };
  return seal(self, of.id, factsOf(name), sequence, { permit: permit(of, name, farSeconds) }).signed;
}

describe("a machine that has lost its disk", () => {
  type Remind = (record: ReturnType<typeof saidBy>, by: Identity) => Promise<void>;
  const forgetful = (check: (maple: Membership, remind: Remind) => Promise<void>) => {
    const scene = new Scene();
    return scene.run(async () => {
      const maple = await scene.start("maple");
      const caller = scene.wiresOf(scene.world.start("oak"));
      await check(maple, async (record, { publicKey, former = [] }) => {
        const request = { record, ...networkToWire({ shown: { publicKey, former } }) };
        await caller.call("maple.test:7400#maple", GossipService.method.remind, request, {});
      });
    });
  };

  it("takes part again by the permit in what it said last, and says more than that", () =>
    forgetful(async (maple, remind) => {
      assert.equal(maple.alive("maple"), false);
      await remind(saidBy("maple", network, 7), network);
      assert.equal(maple.self?.incarnation, "now");
      assert.ok((maple.self?.sequence ?? 0) > 7);
    }));

  it("takes neither somebody else's word for its own, nor that of another network", () =>
    forgetful(async (maple, remind) => {
      await assert.rejects(remind(saidBy("oak", network), network), { code: "permission_denied" });
      await assert.rejects(remind(saidBy("maple", other), other), { code: "permission_denied" });
      await assert.rejects(remind(saidBy("maple", other), network), { code: "permission_denied" });
      assert.equal(maple.self, undefined);
    }));
});

/** Of the first comparison the first turn brings news of whoever is asked, as it does where that has just said something, and the second is lost. */
function breakingOff(wires: SimulatedNetwork, asked: Membership): Network {
  let turns = 0;
  const isTurn = (method: UnaryMethod) => method === GossipService.method.sync && ++turns <= 2;
  return {
    id: wires.id,
    call: async (address, method, request, options) => {
      if (!isTurn(method)) return wires.call(address, method, request, options);
      if (turns === 2) fail("unavailable", "the second turn was lost");
      const answer = await wires.call(address, method, request, options);
      return { ...answer, news: newsToWire([{ kind: "record", member: asked.self as Member }]) };
    },
    watch: (address, method, request, options) => wires.watch(address, method, request, options),
    open: (address, method, options) => wires.open(address, method, options),
    serve: (address, services) => wires.serve(address, services),
    close: () => wires.close(),
  };
}

describe("a newcomer", () => {
  it("asks again soon where its first comparison broke off, though it has heard of somebody by then", () => {
    const scene = new Scene();
    return scene.run(async () => {
      const admit = (name: string, one: Membership) => one.admit(permit(network, name, farSeconds), network);
      const oak = await scene.start("oak");
      const ash = await scene.start("ash", { contacts: () => [placeOf("oak")] });
      admit("oak", oak);
      admit("ash", ash);
      // By then nobody tells of the ash any more.
      await scene.passed(60_000);
      const unreachable = { facts: () => ({ ...factsOf("maple"), routes: ["nowhere.test:7400"] }) };
      const maple = await scene.start("maple", { ...unreachable, contacts: () => [placeOf("oak")] }, (wires) =>
        breakingOff(wires, oak),
      );
      admit("maple", maple);
      await scene.passed(500);
      assert.deepEqual(idsOf(maple), ["oak"]);
      await scene.passed(8_000);
      assert.deepEqual(idsOf(maple), ["ash", "oak"]);
    });
  });
});

const placeOf = (name: string) => `${addressOf(name)}#${name}`;
const idsOf = (membership: Membership) =>
  membership
    .known()
    .map(({ member }) => member.id)
    .sort();
