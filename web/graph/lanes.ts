// A network as a session with lanes trains it: every VNode and edge once for each lane, one lane below the other. What
// lanes send each other to add their gradients up is left out: everybody would be joined with everybody.

import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";

type Shown = Pick<GetNetworkResponse, "vnodes" | "edges">;

/** The first lane keeps the network's own names, as VNodes of sessions do. */
const named = (id: string, lane: number) => (lane === 0 ? id : `${id}#${lane}`);

export function inLanes<T extends Shown>(network: T, lanes: number): T {
  if (lanes <= 1) return network;
  const all = Array.from({ length: lanes }, (_, lane) => lane);
  return {
    ...network,
    vnodes: all.flatMap((lane) => network.vnodes.map((vnode) => ({ ...vnode, id: named(vnode.id, lane) }))),
    edges: all.flatMap((lane) =>
      network.edges.map((edge) => ({
        ...edge,
        ...{ id: named(edge.id, lane), from: named(edge.from, lane), to: named(edge.to, lane) },
      })),
    ),
  };
}
