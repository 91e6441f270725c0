// A member in good standing that lies: it tells records that their subjects never signed, those of others under its own key,
// old ones as if they were new, and accusations of sequences that do not exist.

import { create, toBinary } from "@bufbuild/protobuf";
import type { KeyId } from "../../src/core/ids.ts";
import { NetworkKey } from "../../src/membership/network-key.ts";
import { judge, permit, seal } from "../../src/membership/records.ts";
import { GossipService, MemberRecordSchema, type SignedRecord } from "../../src/protocol/gen/dcnr/v1/gossip_pb.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { simulatedIdentity, simulatedKeys } from "../world/keys.ts";
import type { Fabric } from "../world/network.ts";
import { networkKey } from "../world/network-key.ts";
import type { SimulatedWorld } from "../world/world.ts";
import { addressOf } from "./plan.ts";

export interface Lies {
  readonly world: SimulatedWorld;
  readonly fabric: Fabric;
  /** About whom, and to whom. */
  lies(): readonly string[];
}

const network = simulatedIdentity(networkKey);
const known = NetworkKey.of(networkKey, network, simulatedKeys, () => 0) as NetworkKey;
const everyMs = 2_000;

export function lie({ world, fabric, lies }: Lies, untilMs: number): void {
  const host = world.start("liar");
  const identity = simulatedIdentity("liar");
  const calls = fabric.network(host, "liar" as KeyId);
  const facts = {
    name: "liar",
    routes: [],
    roles: ["pnode" as const],
    numerics: [],
    cores: 1,
    memoryBytes: 1,
    gflops: 1,
  };
  const incarnation = "liar.1";
  const own = seal({ id: "liar", incarnation, identity }, networkKey, { ...facts, load: 0, region: incarnation }, 1, {
    permit: permit(network, "liar", 4_000_000_000),
    leaving: true,
  });
  const heard = new Map<string, SignedRecord>();
  const round = async () => {
    if (world.time.nowMs > untilMs) return;
    host.after(everyMs, () => void round().catch(() => {}));
    const names = lies();
    const about = names[Math.floor(host.world.chance.uniform() * names.length)];
    const to = names[Math.floor(host.world.chance.uniform() * names.length)];
    if (about === undefined || to === undefined) return;
    const forged = forgedRecord(about, 1 + Math.floor(host.world.chance.uniform() * 20));
    const old = heard.get(about);
    const news = [
      { news: { case: "record" as const, value: forged } },
      { news: { case: "record" as const, value: { ...forged, publicKey: identity.publicKey } } },
      ...(old ? [{ news: { case: "record" as const, value: old } }] : []),
      { news: { case: "accusation" as const, value: { id: about, sequence: 1_000_000, dead: true, by: 1 } } },
    ];
    const key = to.startsWith("o") ? networkKey : (to as KeyId);
    const all = Array.from({ length: 16 }, (_, bucket) => bucket);
    const request = { self: own.signed, bucketCount: 16, buckets: all, news };
    const { news: told } = await calls.call(withKey(addressOf(to), key), GossipService.method.sync, request, {
      timeoutMs: 2_000,
    });
    // What it hears it keeps, to tell it again when it is not true any more.
    for (const { news: one } of told) {
      if (one.case !== "record") continue;
      const member = judge(one.value, { ...simulatedKeys, network: known });
      if (typeof member !== "string" && !heard.has(member.id)) heard.set(member.id, one.value);
    }
  };
  host.after(5_000, () => void round().catch(() => {}));
}

function forgedRecord(about: string, sequence: number): SignedRecord {
  const record = create(MemberRecordSchema, {
    ...{ id: about, sequence: 100 + sequence, incarnation: "forged", region: "forged", protocolMajor: 1 },
    roles: about.startsWith("o") ? [3] : [1],
    permit: { signature: new Uint8Array(64), expiresSeconds: 4_000_000_000 },
  });
  return {
    $typeName: "dcnr.v1.SignedRecord",
    former: [],
    record: toBinary(MemberRecordSchema, record),
    publicKey: about.startsWith("o") ? new Uint8Array() : new TextEncoder().encode(about),
    signature: new Uint8Array(64).fill(7),
  };
}
