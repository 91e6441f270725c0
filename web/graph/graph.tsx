// The network's graph: zoom, pan, arrow keys from VNode to VNode, details of the chosen one.

import { Controls, type Edge, type Node, ReactFlow, ReactFlowProvider, useReactFlow, useStore } from "@xyflow/react";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { plural, short } from "../format.ts";
import { Panel } from "../parts/panel.tsx";
import { Curve } from "./curve.tsx";
import { Details } from "./details.tsx";
import { Dots } from "./dots.tsx";
import { cardHeight, cardWidth, layOut } from "./layout.ts";
import { neighbourIn } from "./neighbour.ts";
import { farZoom, VNodeCard } from "./vnode-card.tsx";

const nodeTypes = { vnode: VNodeCard };
const edgeTypes = { curve: Curve };
/** The buttons stand below the network, not on it. */
const fitting = {
  padding: { top: "16px", x: "24px", bottom: "52px" },
  maxZoom: 1.25,
  minZoom: 0.05,
} as const;

interface GraphProps {
  readonly session: string;
  readonly network: GetNetworkResponse;
}

export function Graph({ session, network }: GraphProps) {
  const parameters = Number(network.network?.parameters ?? 0);
  const summary = `${plural(network.vnodes.length, "VNode")} · ${short(parameters)} parameters`;
  return (
    <Panel id="graph" title={network.network?.id ?? "Network"} aside={summary}>
      <ReactFlowProvider>
        <Canvas session={session} network={network} />
      </ReactFlowProvider>
    </Panel>
  );
}

function Canvas({ session, network }: GraphProps) {
  const [chosen, choose] = useState("");
  const wrapper = useRef<HTMLDivElement>(null);
  const layout = useMemo(
    () =>
      layOut(
        network.vnodes.map((vnode) => vnode.id),
        network.edges,
      ),
    [network],
  );
  const nodes = useMemo<Node[]>(
    () =>
      network.vnodes.map(({ id }) => ({
        id,
        type: "vnode",
        position: layout.positions.get(id) ?? { x: 0, y: 0 },
        width: cardWidth,
        height: cardHeight,
        data: { session, vnode: id, active: id === chosen },
      })),
    [network, layout, session, chosen],
  );
  const edges = useMemo<Edge[]>(
    () =>
      network.edges.flatMap(({ id, from, to, kind }) => {
        const ends = { from: layout.positions.get(from), to: layout.positions.get(to) };
        if (!ends.from || !ends.to) return [];
        return [{ id, source: from, target: to, type: "curve", data: { ...ends, kind } }];
      }),
    [network, layout],
  );
  const far = useStore((state) => state.transform[2] < farZoom);
  const { fitView } = useReactFlow();
  useEffect(() => {
    const element = wrapper.current;
    if (!element) return;
    const observer = new ResizeObserver(() => void fitView(fitting));
    observer.observe(element);
    return () => observer.disconnect();
  }, [fitView]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new network is fitted, nothing else moves the view
  useEffect(() => void requestAnimationFrame(() => void fitView(fitting)), [layout, fitView]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return choose("");
    const next = neighbourIn(layout, chosen, event.key);
    if (next === undefined) return;
    event.preventDefault();
    choose(next);
  };
  return (
    <div className="graph-frame">
      <div ref={wrapper} className={far ? "graph graph-far" : "graph"}>
        <ReactFlow
          tabIndex={0}
          aria-label="The network's graph; arrow keys go from VNode to VNode"
          onKeyDown={onKeyDown}
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          onNodeClick={(_, node) => choose(node.id === chosen ? "" : node.id)}
          onPaneClick={() => choose("")}
          fitView
          fitViewOptions={fitting}
          minZoom={0.05}
          maxZoom={2}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          preventScrolling={false}
          zoomOnScroll={false}
          zoomActivationKeyCode={["Control", "Meta"]}
          deleteKeyCode={null}
          selectionKeyCode={null}
          multiSelectionKeyCode={null}
          disableKeyboardA11y
        >
          <Dots session={session} edges={network.edges} layout={layout} />
        </ReactFlow>
      </div>
      <Controls showInteractive={false} fitViewOptions={fitting} orientation="horizontal" position="bottom-left" />
      {chosen && <Details session={session} network={network} vnode={chosen} onClose={() => choose("")} />}
    </div>
  );
}
