// What others can call at a PNode, and who of them: peers bring tensors and passes, orchestrators questions for served
// models, the crew of a session what it decides by itself.

import { hashOfContent } from "../core/hash.ts";
import type { PNodeId, VNodeId, WorkloadId } from "../core/ids.ts";
import { peerService } from "../peer/receiving.ts";
import { Refusals } from "../peer/refusals.ts";
import { SystemService } from "../protocol/gen/dcnr/v1/system_pb.ts";
import { protocolMajor, protocolMinor, type ServedService, type Server, service } from "../protocol/network.ts";
import { healthService } from "../protocol/server/health.ts";
import type { Attachment } from "./attachment.ts";
import type { Autonomy } from "./autonomy/autonomy.ts";
import { pnodeGate } from "./gate.ts";
import type { PNodeDependencies, PNodeOptions } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Resolver } from "./resolver.ts";
import type { Servings } from "./serving/servings.ts";
import type { Training } from "./training/training.ts";
import type { Vouching } from "./vouching.ts";

export interface DoorOptions {
  readonly id: PNodeId;
  readonly options: Pick<PNodeOptions, "listen" | "software">;
  readonly dependencies: Pick<PNodeDependencies, "network" | "world" | "http" | "hashOf">;
  readonly resolver: Resolver;
  readonly orchestrators: Orchestrators;
  readonly attachment: Attachment;
  readonly training: Training;
  readonly servings: Servings;
  readonly autonomy: Autonomy;
  readonly vouching: Vouching;
  /** Of rooms that answer by themselves: membership, relays. */
  readonly others: readonly ServedService[];
  readonly problems: () => string[];
}

/** Fails if the address is in use. Whoever opens it closes the server. */
export function openDoor(parts: DoorOptions): Promise<Server> {
  const { resolver, orchestrators, vouching, autonomy, servings, others } = parts;
  const { listen } = parts.options;
  const { network, http } = parts.dependencies;
  const services = [exchangeOf(parts), ...aboutItself(parts), servings.service(), autonomy.service(), ...others];
  const gate = pnodeGate(resolver, orchestrators, vouching, (pnode) => autonomy.isCrew(pnode));
  return network.serve(listen, services, http, gate);
}

function exchangeOf({
  training,
  servings,
  resolver,
  dependencies: { world, hashOf = hashOfContent },
}: DoorOptions): ServedService {
  const { arrivals } = training;
  const { passes } = servings;
  return peerService({
    exchange: arrivals,
    passes,
    onAsk: (ask, peer, answer) => arrivals.asked(ask, peer, answer),
    onLost: (lost, peer) => passes.heard(lost, peer),
    ownership: (session, vnode, pnode, epoch) =>
      resolver.ownership(session as WorkloadId, vnode as VNodeId, pnode, epoch),
    hashOf,
    refusals: new Refusals(world),
    log: world.log,
  });
}

function aboutItself({ id, options, attachment, problems, dependencies: { world } }: DoorOptions): ServedService[] {
  const { software } = options;
  const system = service(SystemService, {
    getVersion: async () => ({ protocolMajor, protocolMinor, software, role: "pnode", id }),
    getHealth: async () => ({ ready: attachment.attached, problems: problems() }),
  });
  return [system, healthService(() => attachment.attached, world.timers)];
}
