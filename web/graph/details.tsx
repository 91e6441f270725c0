// What is known about the chosen VNode: where it runs and why, how far it is, what is safe. Of a group: its VNodes, to choose from.

import type { ReactNode } from "react";
import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { hostStyle } from "../colours.ts";
import { bytes, count, milliseconds, short } from "../format.ts";
import { useVNode } from "../live/hooks.ts";
import type { Group } from "./groups.ts";

interface DetailsProps {
  readonly session: string;
  readonly network: GetNetworkResponse;
  readonly vnode: string;
  readonly onClose: () => void;
}

export function Details({ session, network, vnode: id, onClose }: DetailsProps) {
  const { vnode, host, condition, others } = useVNode(session, id);
  const planned = network.vnodes.find((one) => one.id === id);
  const rows: [string, string][] = [
    ["Nodes", planned?.nodes.join(", ") ?? ""],
    ["Parameters", planned ? short(Number(planned.parameters)) : ""],
    ["Memory", planned ? bytes(Number(planned.memoryBytes)) : ""],
    ["Host", host?.name ?? vnode?.pnode ?? ""],
    ["Replicas", others],
    ["Why there", vnode?.reason ?? ""],
    ["Phase", [condition === "steady" ? vnode?.phase : condition, vnode?.detail].filter(Boolean).join(": ")],
    ["Step", vnode ? count(vnode.step) : ""],
    ["Step time", vnode && vnode.stepMs > 0 ? milliseconds(vnode.stepMs) : ""],
    ["Durable at", vnode ? `step ${count(vnode.durableStep)}` : ""],
    ["Epoch", vnode ? count(vnode.epoch) : ""],
  ];
  return (
    <Aside label={`VNode ${id}`} title={id} onClose={onClose}>
      <dl>
        {rows
          .filter(([, value]) => value !== "")
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </Aside>
  );
}

interface GroupDetailsProps {
  readonly session: string;
  readonly group: Group;
  readonly onChoose: (vnode: string) => void;
  readonly onOpen: () => void;
  readonly onClose: () => void;
}

export function GroupDetails({ session, group, onChoose, onOpen, onClose }: GroupDetailsProps) {
  return (
    <Aside label={`Group ${group.title}`} title={group.title} onClose={onClose}>
      <button type="button" onClick={onOpen}>
        Show one by one
      </button>
      <ul className="members">
        {group.members.map((vnode) => (
          <Member key={vnode} session={session} id={vnode} onChoose={onChoose} />
        ))}
      </ul>
    </Aside>
  );
}

interface MemberProps {
  readonly session: string;
  readonly id: string;
  readonly onChoose: (vnode: string) => void;
}

function Member({ session, id, onChoose }: MemberProps) {
  const { vnode, host } = useVNode(session, id, false);
  return (
    <li>
      <button type="button" className="quiet hosted" onClick={() => onChoose(id)} style={hostStyle(vnode?.pnode ?? "")}>
        <span className="swatch" aria-hidden="true" />
        {id} <small>{host?.name ?? "no host"}</small>
      </button>
    </li>
  );
}

interface AsideProps {
  readonly label: string;
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

function Aside({ label, title, onClose, children }: AsideProps) {
  return (
    <aside className="details" aria-label={label} aria-live="polite">
      <header>
        <strong>{title}</strong>
        <button type="button" className="quiet" onClick={onClose} aria-label="Close details">
          ✕
        </button>
      </header>
      {children}
    </aside>
  );
}
