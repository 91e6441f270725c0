// Which work fits where, on machines that are here, on their way, or only offered: nothing is decided here.

import type { PNodeId } from "../core/ids.ts";
import { lentMemoryBytes } from "../core/lent.ts";
import type { Demand } from "./jobs.ts";
import { type ConstraintPolicy, classOf, suits } from "./placement/constraints.ts";
import type { FleetNode } from "./placement/types.ts";
import type { ScaleMachine, ScaleOffer, WaitingWork } from "./scale-types.ts";

/** Of a machine that is here, that is on its way, or that would be started. */
export interface Room {
  readonly node: FleetNode | undefined;
  readonly offer: ScaleOffer | undefined;
  readonly machine: ScaleMachine | undefined;
  memoryLeft: number;
  gpusLeft: number;
  /** Counted on by work that waits. */
  isTaken: boolean;
}

export function roomOf(
  node: FleetNode | undefined,
  offer: ScaleOffer | undefined,
  machine: ScaleMachine | undefined,
): Room {
  const memoryLeft = node ? node.memoryFreeBytes : lentBy(offer);
  return { node, offer, machine, memoryLeft, gpusLeft: node?.gpusFree ?? offer?.gpus.length ?? 0, isTaken: false };
}

function lentBy(offer: ScaleOffer | undefined): number {
  return offer ? lentMemoryBytes(offer.memoryBytes, offer.memoryBytes) : 0;
}

/** The class in which it would run: its own, or the one of which there is most. */
export function classFor({ numericsClass, engine, ...rest }: ConstraintPolicy, nodes: readonly FleetNode[]): string {
  if (numericsClass !== "") return numericsClass;
  const able = nodes.filter((node) => suits({ ...node, accepting: true }, { numericsClass, engine, ...rest }));
  const byClass = Map.groupBy(able, (node) => classOf(node, engine) ?? "");
  const [most] = Array.from(byClass).sort(([, a], [, b]) => b.length - a.length);
  return most?.[0] ?? "";
}

/** A machine that is not here yet is taken to compute as the work needs it. */
export function mayHost({ node, offer, machine }: Room, policy: ConstraintPolicy, own: string): boolean {
  if (node) return (own === "" || classOf(node, policy.engine) === own) && suits(node, policy);
  if (!offer) return false;
  const numerics = [{ engine: policy.engine, class: policy.numericsClass || own }];
  return suits(
    {
      ...{
        id: (machine?.id ?? offer.name) as PNodeId,
        owner: offer.provider,
        provider: offer.provider,
        region: offer.region,
      },
      ...{
        trust: "",
        architecture: policy.requirements.architecture,
        bits: policy.bits,
        answerBits: policy.bits,
        numerics,
        gflops: 1,
        newcomer: true,
      },
      ...{ cores: offer.cores, memoryBytes: lentBy(offer), memoryFreeBytes: lentBy(offer) },
      ...{ gpus: offer.gpus.map((memory) => memory || Number.MAX_SAFE_INTEGER), gpusFree: offer.gpus.length },
      ...{
        pricePerHour: offer.pricePerHour,
        reliability: 1,
        flapping: false,
        accepting: true,
        latencyMs: 0,
        bytesPerSecond: 0,
      },
      hosts: new Map(),
    },
    policy,
  );
}

/** What each room would give to the whole gang, or nothing. */
export function fit({ demand, policy }: WaitingWork, rooms: readonly Room[], own: string) {
  const { gpus, maxPricePerHour } = policy.requirements;
  const used = new Map<Room, { memoryBytes: number; gpus: number }>();
  const able = rooms.filter((room) => (gpus === 0 || room.gpusLeft >= gpus) && mayHost(room, policy, own));
  let price = 0;
  for (const { memoryBytes, count } of demand.units) {
    let left = count;
    for (const room of able) {
      const before = used.get(room)?.memoryBytes ?? 0;
      const cost = room.node?.pricePerHour ?? room.offer?.pricePerHour ?? 0;
      if (!used.has(room) && maxPricePerHour > 0 && price + cost > maxPricePerHour) continue;
      const free = room.memoryLeft - before;
      const taken = memoryBytes > 0 ? Math.min(left, Math.floor(free / memoryBytes)) : left;
      if (taken <= 0) continue;
      if (!used.has(room)) price += cost;
      used.set(room, { memoryBytes: before + taken * memoryBytes, gpus });
      left -= taken;
      if (left === 0) break;
    }
    if (left > 0) return undefined;
  }
  return used;
}

export function unitsThatFit(offer: ScaleOffer, { units }: Demand): number {
  let free = lentBy(offer);
  let fitting = 0;
  for (const { memoryBytes, count } of units) {
    const taken = memoryBytes > 0 ? Math.min(count, Math.max(0, Math.floor(free / memoryBytes))) : count;
    free -= taken * memoryBytes;
    fitting += taken;
  }
  return Math.max(1, fitting);
}
