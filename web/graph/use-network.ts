// The structure of a network: asked for once, again when the orchestrator is back, kept while it is away.

import { useEffect, useState } from "react";
import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { networks } from "../api.ts";
import { useLive } from "../live/hooks.ts";

const known = new Map<string, GetNetworkResponse>();

export function useNetwork(id: string): GetNetworkResponse | undefined {
  const isLive = useLive((state) => state.connection.state === "live");
  const [, again] = useState(0);
  useEffect(() => {
    if (!id || !isLive) return;
    let wanted = true;
    networks.getNetwork({ id }).then(
      (network) => {
        const before = known.get(id);
        known.set(id, network);
        if (wanted && before?.network?.hash !== network.network?.hash) again((value) => value + 1);
      },
      () => {},
    );
    return () => {
      wanted = false;
    };
  }, [id, isLive]);
  return known.get(id);
}

/** The network to show while no session has been created. */
export function useFirstNetwork(): string {
  const isLive = useLive((state) => state.connection.state === "live");
  const hasSessions = useLive((state) => state.sessions.size > 0);
  const [first, setFirst] = useState("");
  useEffect(() => {
    if (!isLive || hasSessions) return;
    const look = () =>
      networks.listNetworks({ pageSize: 100 }).then(
        ({ networks: found }) => {
          const newest = found.toSorted((a, b) => Number(b.createdWallMs - a.createdWallMs))[0];
          setFirst(newest?.id ?? "");
        },
        () => {},
      );
    void look();
    const timer = setInterval(look, 3_000);
    return () => clearInterval(timer);
  }, [isLive, hasSessions]);
  return first;
}
