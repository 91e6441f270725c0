// Which sessions nobody can go on with any more while no orchestrator is there. A machine that lost its disk is told of its crew again by
// whoever calls it. Behind a router that lets nothing in it is called by nobody: the relays that it knew are gone with its disk, and
// it knows nobody whom it could call itself, until an orchestrator is back.

import { fromBinary } from "@bufbuild/protobuf";
import { type Charter, CharterSchema, KeptCharterSchema } from "../../src/protocol/gen/dcnr/v1/session_peers_pb.ts";

/** What lies on machines' disks, by their names. */
export type Disks = ReadonlyMap<string, ReadonlyMap<string, Uint8Array>>;

/** True if nobody who may host anything of a session by its newest charter can know of it. */
export function isLostToAll(session: string, disks: Disks, isHidden: (pnode: string) => boolean): boolean {
  const name = `charter-${session}`;
  const charters = [...disks.values()].flatMap((files) => files.get(name) ?? []).map(charterIn);
  const newest = charters.reduce<Charter | undefined>(
    (found, one) => (found === undefined || one.revision > found.revision ? one : found),
    undefined,
  );
  const hosts = newest?.crew.filter(({ hosts }) => hosts) ?? [];
  const isGone = ({ pnode }: { readonly pnode: string }) => isHidden(pnode) && disks.get(pnode)?.has(name) !== true;
  return hosts.length > 0 && hosts.every(isGone);
}

function charterIn(kept: Uint8Array): Charter {
  return fromBinary(CharterSchema, fromBinary(KeptCharterSchema, kept).charter?.charter ?? new Uint8Array());
}
