// What is known about the chosen VNode: where it runs and why, how far it is, what is safe.

import type { GetNetworkResponse } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { bytes, count, milliseconds, short } from "../format.ts";
import { useVNode } from "../live/hooks.ts";

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
    <aside className="details" aria-label={`VNode ${id}`} aria-live="polite">
      <header>
        <strong>{id}</strong>
        <button type="button" className="quiet" onClick={onClose} aria-label="Close details">
          ✕
        </button>
      </header>
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
    </aside>
  );
}
