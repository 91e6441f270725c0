// The graph itself: cards and edges, zoom, pan, arrow keys from card to card, details of the chosen one.

import { Controls, type Edge, type Node, ReactFlow, useReactFlow, useStore } from "@xyflow/react";
import { type KeyboardEvent, useEffect, useMemo, useRef } from "react";
import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { courseOf, pathOf } from "./course.ts";
import { Curve } from "./curve.tsx";
import { Details, GroupDetails } from "./details.tsx";
import { Dots } from "./dots.tsx";
import { GroupCard, groupCardSize } from "./group-card.tsx";
import { edgesBetween, type Group } from "./groups.ts";
import { layOut, type Space, vnodeCard, zoomMax } from "./layout.ts";
import { neighbourIn } from "./neighbour.ts";
import { frameHeight, margin, sideMargin, useSpace } from "./space.ts";
import { farZoom, VNodeCard } from "./vnode-card.tsx";

const nodeTypes = { vnode: VNodeCard, several: GroupCard };
const edgeTypes = { curve: Curve };
const fittingFor = (narrow: boolean) =>
  ({
    padding: { top: `${margin.top}px`, x: `${sideMargin(narrow)}px`, bottom: `${margin.bottom}px` },
    maxZoom: zoomMax,
    minZoom: 0.05,
  }) as const;

interface CanvasProps {
  readonly session: string;
  readonly network: GetNetworkResponse;
  readonly groups: readonly Group[];
  readonly isMachines: boolean;
  readonly sought: ReadonlySet<string> | undefined;
  /** A VNode or a group. */
  readonly chosen: string;
  readonly onChoose: (id: string) => void;
  readonly onOpen: (group: string) => void;
}

/** The network in a frame; it is arranged once the frame's size is known. */
export function Canvas(props: CanvasProps) {
  const frame = useRef<HTMLDivElement>(null);
  const space = useSpace(frame);
  const { groups, network } = props;
  const cards = useMemo(() => space && cardsOf(groups, network, space), [groups, network, space]);
  const height = space && cards && frameHeight(space, cards.layout);
  return (
    <div className="graph-frame" ref={frame} style={height === undefined ? undefined : { height }}>
      {cards && <Drawing {...props} {...cards} narrow={space?.narrow ?? false} />}
    </div>
  );
}

type DrawingProps = CanvasProps & ReturnType<typeof cardsOf> & { readonly narrow: boolean };

function Drawing(props: DrawingProps) {
  const { session, network, groups, isMachines, sought, chosen, onChoose, onOpen, layout, between, members } = props;
  const wrapper = useRef<HTMLDivElement>(null);
  const fitting = useMemo(() => fittingFor(props.narrow), [props.narrow]);
  const nodes = useMemo<Node[]>(
    () =>
      groups.map((group) => {
        const alone = isAlone(group);
        const place = { position: layout.positions.get(group.id) ?? { x: 0, y: 0 }, ...layout.card };
        const active = group.id === chosen;
        if (alone) {
          const dim = sought !== undefined && !sought.has(group.id);
          return { id: group.id, type: "vnode", ...place, data: { session, vnode: group.id, active, dim } };
        }
        const host = isMachines ? group.title : "";
        const data = { session, title: group.title, host, members: group.members, active, chosen, sought };
        return { id: group.id, type: "several", ...place, data };
      }),
    [groups, layout, session, chosen, sought, isMachines],
  );
  const edges = useMemo<Edge[]>(
    () =>
      between.flatMap(({ id, from, to, kind, count }) => {
        const course = courseOf(layout, from, to);
        if (!course) return [];
        return [{ id, source: from, target: to, type: "curve", data: { path: pathOf(course), kind, count } }];
      }),
    [between, layout],
  );
  const far = useStore((state) => state.transform[2] < farZoom);
  const { fitView } = useReactFlow();
  useEffect(() => {
    const element = wrapper.current;
    if (!element) return;
    const observer = new ResizeObserver(() => void fitView(fitting));
    observer.observe(element);
    return () => observer.disconnect();
  }, [fitView, fitting]);
  // Machines that come and go change the groups while somebody looks: only another arrangement is fitted anew.
  const arrangement = [layout.width, layout.height, ...layout.positions.keys()].join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: another arrangement is fitted, nothing else moves the view
  useEffect(() => void requestAnimationFrame(() => void fitView(fitting)), [arrangement, fitView, fitting]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return onChoose("");
    const group = groups.find(({ id }) => id === chosen);
    if (event.key === "Enter" && group && !isAlone(group)) return onOpen(group.id);
    const next = neighbourIn(layout, chosen, event.key);
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next);
  };
  const group = groups.find((one) => one.id === chosen && !isAlone(one));
  const isVNode = chosen !== "" && !group && network.vnodes.some(({ id }) => id === chosen);
  return (
    <>
      <div ref={wrapper} className={far ? "graph graph-far" : "graph"}>
        <ReactFlow
          tabIndex={0}
          aria-label="The network's graph; arrow keys go from card to card, Enter opens a group"
          onKeyDown={onKeyDown}
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          onNodeClick={(_, node) => onChoose(node.id === chosen ? "" : node.id)}
          onPaneClick={() => onChoose("")}
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
          <Dots session={session} edges={between} layout={layout} members={members} />
        </ReactFlow>
      </div>
      <Controls showInteractive={false} fitViewOptions={fitting} orientation="horizontal" position="bottom-left" />
      {group && (
        <GroupDetails
          session={session}
          group={group}
          onChoose={onChoose}
          onOpen={() => onOpen(group.id)}
          onClose={() => onChoose("")}
        />
      )}
      {isVNode && <Details session={session} network={network} vnode={chosen} onClose={() => onChoose("")} />}
    </>
  );
}

/** A VNode, not a group that happens to have one. */
function isAlone({ id, members }: Group): boolean {
  return members.length === 1 && id === members[0];
}

/** Where the cards stand, and what is between them. */
function cardsOf(groups: readonly Group[], network: GetNetworkResponse, space: Space) {
  const between = edgesBetween(groups, network.edges);
  const allAlone = groups.every(isAlone);
  const largest = Math.max(1, ...groups.map(({ members }) => members.length));
  const place = new Map(groups.map(({ id }, index) => [id, index]));
  // Between groups things flow forth and back; the first members say who stands first.
  const ordering = allAlone ? between : between.filter(({ from, to }) => (place.get(from) ?? 0) < (place.get(to) ?? 0));
  const ids = groups.map(({ id }) => id);
  const card = allAlone ? vnodeCard : groupCardSize(largest, space.narrow);
  return {
    between,
    layout: layOut(ids, ordering, card, space),
    members: new Map(groups.map(({ id, members }) => [id, members])),
  };
}
