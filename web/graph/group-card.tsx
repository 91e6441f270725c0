// Several VNodes as one card: its name, how many, where they run, and a field for each in its host's colour. So a kill is seen and
// counted even where no single VNode could be read.

import { Handle, type NodeProps, Position } from "@xyflow/react";
import { memo } from "react";
import { hostStyle } from "../colours.ts";
import { count, plural } from "../format.ts";
import { useLive, useVNode } from "../live/hooks.ts";
import type { State } from "../live/store.ts";
import { vnodeKey } from "../live/views.ts";
import type { CardSize } from "./layout.ts";
import { spoken } from "./vnode-card.tsx";

const fieldsPerRow = 12;
const fieldsPerRowNarrow = 8;
const fieldSize = 16;
const fieldsMax = 72;
const hostsNamed = 2;

/** High enough for the largest of them; more fields than fit are counted. On a phone two stand side by side and can be read. */
export function groupCardSize(largest: number, narrow: boolean): CardSize {
  const perRow = narrow ? fieldsPerRowNarrow : fieldsPerRow;
  const rows = Math.max(1, Math.ceil(Math.min(fieldsMax, largest) / perRow));
  return { width: perRow * fieldSize + 40, height: 62 + fieldSize * rows };
}

export interface GroupData extends Record<string, unknown> {
  readonly session: string;
  readonly title: string;
  /** Set where the group is a machine. */
  readonly host: string;
  readonly members: readonly string[];
  readonly active: boolean;
  readonly chosen: string;
  /** VNodes that somebody looks for; undefined if nobody looks for any. */
  readonly sought: ReadonlySet<string> | undefined;
}

export const GroupCard = memo(function GroupCard({ data }: NodeProps) {
  const { session, title, host, members, active, chosen, sought } = data as GroupData;
  const hosts = useLive((state) => hostsOf(state, session, members));
  const step = useLive((state) => leastStep(state, session, members));
  const name = useLive((state) => (host ? (state.hosts.get(host)?.name ?? title) : title));
  const dim = sought !== undefined && !members.some((vnode) => sought.has(vnode));
  const shown = members.slice(0, fieldsMax);
  return (
    <article
      className={host ? "group hosted" : "group"}
      aria-label={`${name}: ${plural(members.length, "VNode")} on ${hosts || "no host"}`}
      data-group={name}
      data-chosen={active || undefined}
      data-dim={dim || undefined}
      style={host ? hostStyle(host) : undefined}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <span className="group-head">
        <strong>{name}</strong>
        <small>step {count(step)}</small>
      </span>
      <span className="fields">
        {shown.map((vnode) => (
          <Field
            key={vnode}
            session={session}
            id={vnode}
            active={vnode === chosen}
            dim={sought !== undefined && !sought.has(vnode)}
          />
        ))}
      </span>
      <small className="group-hosts">
        {plural(members.length, "VNode")}
        {host ? "" : ` · ${hosts || "no host yet"}`}
      </small>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </article>
  );
});

interface FieldProps {
  readonly session: string;
  readonly id: string;
  readonly active: boolean;
  readonly dim: boolean;
}

const Field = memo(function Field({ session, id, active, dim }: FieldProps) {
  const shown = useVNode(session, id, false);
  const { vnode, host, condition } = shown;
  return (
    <span
      className="field hosted"
      title={spoken(id, shown)}
      data-vnode={id}
      data-host={host?.name}
      data-condition={condition}
      data-chosen={active || undefined}
      data-dim={dim || undefined}
      style={hostStyle(vnode?.pnode ?? "")}
    />
  );
});

/** "maple, birch", or "4 machines": one string, which compares by value. */
function hostsOf({ placements, names }: State, session: string, members: readonly string[]): string {
  const found = new Set<string>();
  for (const vnode of members) {
    const host = placements.get(vnodeKey(session, vnode))?.pnode;
    if (host) found.add(names.get(host) ?? host);
  }
  return found.size > hostsNamed ? plural(found.size, "machine") : Array.from(found).join(", ");
}

/** How far all of them are. */
function leastStep({ vnodes }: State, session: string, members: readonly string[]): number {
  let least = Number.POSITIVE_INFINITY;
  for (const vnode of members) least = Math.min(least, vnodes.get(vnodeKey(session, vnode))?.step ?? 0);
  return Number.isFinite(least) ? least : 0;
}
