// What a member keeps on its disk: its permit, its last sequence number and whom it knew. After a restart these are places to
// ask, not members: who of them still lives, the first that answers knows.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { KeptMembersSchema } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import type { Member } from "./member.ts";
import { formerToWire, type Shown, shownFromWire } from "./network-key.ts";
import type { PermitFacts } from "./records.ts";
import type { Roster } from "./roster.ts";

/** A file of a member's own; what is in it may be of another network, damaged or missing. */
export interface KeptFile {
  read(): Promise<Uint8Array | undefined>;
  write(content: Uint8Array): Promise<void>;
}

export interface Kept {
  readonly network: Shown;
  readonly permit: PermitFacts | undefined;
  readonly sequence: number;
  readonly members: readonly Member["signed"][];
}

/** Some 300 KB: enough to find somebody after years. */
const membersMax = 1_000;
const bytesMax = 8 << 20;

export function keptBytes(roster: Roster, own: Pick<Kept, "network" | "permit" | "sequence">): Uint8Array {
  const { network, permit, sequence } = own;
  const orchestrators = [...roster.orchestrators].flatMap((id) => roster.get(id)?.member ?? []);
  const members = new Set(orchestrators);
  for (const { member, standing } of roster.all()) {
    if (members.size >= membersMax) break;
    if (standing !== "left" && member.routes.length > 0) members.add(member);
  }
  return toBinary(
    KeptMembersSchema,
    create(KeptMembersSchema, {
      networkPublicKey: Uint8Array.from(network.publicKey),
      networkFormer: formerToWire(network.former),
      sequence,
      ...(permit && { permit: { ...permit, signature: Uint8Array.from(permit.signature) } }),
      members: Array.from(members, ({ signed }) => signed),
    }),
  );
}

/** Undefined for what cannot be read: everything in it can be learned anew. */
export function parseKept(bytes: Uint8Array): Kept | undefined {
  if (bytes.length > bytesMax) return undefined;
  try {
    const { networkPublicKey, networkFormer, permit, sequence, members } = fromBinary(KeptMembersSchema, bytes);
    const network = shownFromWire(networkPublicKey, networkFormer);
    return { network, permit, sequence, members: members.slice(0, membersMax) };
  } catch {
    return undefined;
  }
}
