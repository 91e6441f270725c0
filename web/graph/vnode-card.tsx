// One VNode on the graph: its name, its host's colour, its step and speed. Lost is red, moved glows for a while.

import { Handle, type NodeProps, Position, useStore } from "@xyflow/react";
import { Fragment, memo, type ReactNode } from "react";
import { hostStyle } from "../colours.ts";
import { count, milliseconds } from "../format.ts";
import { useVNode, type VNodeShown } from "../live/hooks.ts";

/** Smaller text cannot be read: the name alone, larger, is shown. */
export const farZoom = 0.55;

export interface VNodeData extends Record<string, unknown> {
  readonly session: string;
  readonly vnode: string;
  readonly active: boolean;
  /** Somebody looks for others. */
  readonly dim: boolean;
}

export const VNodeCard = memo(function VNodeCard({ data }: NodeProps) {
  const { session, vnode: id, active, dim } = data as VNodeData;
  const far = useStore((state) => state.transform[2] < farZoom);
  const shown = useVNode(session, id, !far);
  const { vnode, host, condition } = shown;
  return (
    <article
      className="vnode hosted"
      aria-label={spoken(id, shown)}
      data-chosen={active || undefined}
      data-dim={dim || undefined}
      data-vnode={id}
      data-host={host?.name}
      data-condition={condition}
      data-phase={vnode?.phase}
      style={hostStyle(vnode?.pnode ?? "")}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <span className="vnode-name">{far ? breakable(id) : id}</span>
      {!far && <span className="vnode-host">{hostText(shown)}</span>}
      {!far && vnode && (
        <span className="vnode-numbers">
          <span>step {count(vnode.step)}</span>
          <span>{vnode.stepMs > 0 ? milliseconds(vnode.stepMs) : ""}</span>
        </span>
      )}
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </article>
  );
});

/** Lines break after a word of the name, not inside it. */
function breakable(id: string): ReactNode {
  return id.split(/(?<=[_.-])/).map((word, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: words of one name stand where they stand
    <Fragment key={index}>
      {word}
      <wbr />
    </Fragment>
  ));
}

function hostText({ vnode, host, from, condition, others }: VNodeShown): string {
  const name = host?.name ?? vnode?.pnode ?? "";
  if (condition === "lost") return `${from?.name ?? name} is lost`;
  if (condition === "unplaced") return "no host yet";
  if (condition === "moved" && from) return `moved to ${name}`;
  if (vnode?.phase === "replaying" || vnode?.phase === "loading") return `${name} · ${vnode.phase}`;
  return others ? `${name} + ${others}` : name;
}

export function spoken(id: string, { vnode, host, condition }: VNodeShown): string {
  if (!vnode) return `VNode ${id}`;
  return `VNode ${id} on ${host?.name ?? "no host"}, step ${vnode.step}, ${condition === "steady" ? vnode.phase : condition}`;
}
