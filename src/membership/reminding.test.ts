import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { simulatedIdentity, simulatedKeys } from "../../simulation/world/keys.ts";
import { Fabric } from "../../simulation/world/network.ts";
import { networkKey } from "../../simulation/world/network-key.ts";
import { Wire } from "../../simulation/world/wire.ts";
import { type Host, SimulatedWorld } from "../../simulation/world/world.ts";
import type { KeyId } from "../core/ids.ts";
import type { Identity } from "../core/keys.ts";
import { GossipService } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import { Membership } from "./membership.ts";
import { permit, seal } from "./records.ts";
import { networkToWire } from "./service.ts";

const network = simulatedIdentity(networkKey);
const other = simulatedIdentity("another network");
const farSeconds = 4_000_000_000;
const facts = {
  ...{ name: "maple", routes: ["maple.test:7400"], roles: ["pnode" as const], numerics: ["reference"] },
  ...{ cores: 2, memoryBytes: 2 ** 30, gflops: 1, load: 0, region: "" },
};

/** What a machine of that name once said of itself in a network. */
function saidBy(name: string, of: Identity, sequence = 7) {
  const self = { id: name, incarnation: "earlier", identity: simulatedIdentity(name) };
  return seal(self, of.id, facts, sequence, { permit: permit(of, name, farSeconds) }).signed;
}

/** A machine without a disk, and somebody who calls it. */
async function forgetful(
  run: (maple: Membership, remind: (record: ReturnType<typeof saidBy>, by: Identity) => Promise<void>) => Promise<void>,
) {
  const world = new SimulatedWorld(1);
  const fabric = new Fabric(new Wire(world));
  const wiresOf = (host: Host) => fabric.network(host, host.name as KeyId);
  const [here, caller] = [world.start("maple"), world.start("oak")];
  const maple = new Membership({
    ...{ id: "maple", role: "pnode", incarnation: "now", identity: simulatedIdentity("maple"), keys: simulatedKeys },
    ...{ networkKey, network: wiresOf(here), world: here.world, facts: () => facts, contacts: () => [] },
  });
  let isOver = false;
  const whole = (async () => {
    await wiresOf(here).serve("maple.test:7400", [maple.service]);
    await maple.start();
    await run(maple, async (record, { publicKey, former = [] }) => {
      const request = { record, ...networkToWire({ shown: { publicKey, former } }) };
      await wiresOf(caller).call("maple.test:7400#maple", GossipService.method.remind, request, {});
    });
    await maple.stop(false);
  })().finally(() => {
    isOver = true;
  });
  await world.time.run(() => isOver, 10_000);
  await whole;
}

describe("a machine that has lost its disk", () => {
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
