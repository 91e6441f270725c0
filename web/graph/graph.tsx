// The network's graph: what stands together on it, what is looked for, what the colours mean. Drawing is in canvas.tsx.

import { ReactFlowProvider } from "@xyflow/react";
import { useMemo, useState } from "react";
import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { plural, short } from "../format.ts";
import { useLive } from "../live/hooks.ts";
import { vnodeKey } from "../live/views.ts";
import { Panel } from "../parts/panel.tsx";
import { Canvas } from "./canvas.tsx";
import { type Grouping, groupings, groupsOf, opened, usualGrouping } from "./groups.ts";
import { Legend } from "./legend.tsx";
import { soughtIn } from "./sought.ts";

interface GraphProps {
  readonly session: string;
  readonly network: GetNetworkResponse;
}

/** Fewer are found by looking. */
const searchFrom = 6;

export function Graph({ session, network }: GraphProps) {
  const parameters = Number(network.network?.parameters ?? 0);
  const summary = `${plural(network.vnodes.length, "VNode")} · ${short(parameters)} parameters`;
  const vnodes = useMemo(() => network.vnodes.map(({ id }) => id), [network]);
  const [wished, setWished] = useState<Grouping>();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [query, setQuery] = useState("");
  const [chosen, choose] = useState("");
  const grouping = wished ?? usualGrouping(vnodes);
  // Hosts matter to the groups only where machines are the groups.
  const hosts = useLive((state) =>
    grouping === "machines"
      ? vnodes.map((vnode) => state.placements.get(vnodeKey(session, vnode))?.pnode ?? "").join("\n")
      : "",
  );
  const groups = useMemo(() => {
    const hostOf = new Map(hosts.split("\n").map((host, index) => [vnodes[index] ?? "", host]));
    return opened(
      groupsOf(vnodes, grouping, (vnode) => hostOf.get(vnode) ?? ""),
      open,
    );
  }, [vnodes, grouping, hosts, open]);
  const found = useLive((state) => soughtIn(state, session, vnodes, query));
  const sought = useMemo(
    () => (found === undefined ? undefined : new Set(found === "" ? [] : found.split("\n"))),
    [found],
  );
  const group = (next: Grouping) => {
    setWished(next);
    setOpen(new Set());
    choose("");
  };
  return (
    <Panel
      id="graph"
      title={network.network?.id ?? "Network"}
      aside={sought ? `${plural(sought.size, "VNode")} found` : summary}
      actions={
        <>
          {open.size > 0 && (
            <button type="button" onClick={() => setOpen(new Set())}>
              Close groups
            </button>
          )}
          {vnodes.length > 1 && (
            <select aria-label="Group by" value={grouping} onChange={(event) => group(event.target.value as Grouping)}>
              {groupings.map((one) => (
                <option key={one} value={one}>
                  {one === "VNodes" ? "each VNode" : `by ${one.slice(0, -1)}`}
                </option>
              ))}
            </select>
          )}
          {vnodes.length >= searchFrom && (
            <input
              type="search"
              value={query}
              placeholder="Find"
              aria-label="Find VNodes by name, machine or phase"
              onChange={(event) => setQuery(event.target.value)}
              onKeyDown={(event) => {
                const first = sought?.values().next().value;
                if (event.key === "Enter" && first !== undefined) choose(first);
              }}
            />
          )}
        </>
      }
    >
      <ReactFlowProvider>
        <Canvas
          session={session}
          network={network}
          groups={groups}
          isMachines={grouping === "machines"}
          sought={sought}
          chosen={chosen}
          onChoose={choose}
          onOpen={(id) => {
            setOpen(new Set([...open, id]));
            choose("");
          }}
        />
      </ReactFlowProvider>
      <Legend session={session} query={query} onSeek={setQuery} />
    </Panel>
  );
}
