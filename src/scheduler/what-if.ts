// What more machines of a kind would give, by deciding over the queue twice: as it is, and as if they were there. Pure.

import type { PNodeId } from "../core/ids.ts";
import { decide } from "./decide.ts";
import type { QueueView, Rules } from "./jobs.ts";
import type { FleetNode } from "./placement/types.ts";

export interface MachineKind {
  readonly cores: number;
  readonly memoryBytes: number;
  /** Memory of each. */
  readonly gpus: readonly number[];
  readonly region: string;
  readonly provider: string;
}

export interface WhatIf {
  readonly starts: readonly string[];
  readonly possible: readonly string[];
  readonly waiting: number;
  readonly stillWaiting: number;
  readonly meanMsSooner: number;
}

export function whatIf(view: QueueView, rules: Rules, kind: MachineKind, count: number): WhatIf {
  const more = Array.from({ length: count }, (_, index) => nodeOf(view, kind, index));
  const now = decide(view, rules);
  const then = decide({ ...view, nodes: [...view.nodes, ...more] }, rules);
  const startsNow = new Set(now.starts.map(({ job }) => job.id));
  const reason = (decisions: typeof now, id: string) => decisions.waits.get(id)?.reason;
  const ids = view.pending.map(({ id }) => id);
  const never = (id: string) => reason(now, id)?.code === "never" && reason(then, id)?.code !== "never";
  const sooner = ids.flatMap((id) => {
    const [before, after] = [reason(now, id), reason(then, id)];
    const atMs = before?.code === "room" ? before.atMs : undefined;
    const thenMs = after === undefined ? view.nowMs : after.code === "room" ? after.atMs : undefined;
    return atMs !== undefined && thenMs !== undefined ? [Math.max(0, atMs - thenMs)] : [];
  });
  return {
    starts: then.starts.map(({ job }) => job.id).filter((id) => !startsNow.has(id)),
    possible: ids.filter(never),
    waiting: now.waits.size,
    stillWaiting: then.waits.size,
    meanMsSooner: sooner.length > 0 ? sooner.reduce((sum, value) => sum + value, 0) / sooner.length : 0,
  };
}

/** Computes as most of the fleet do, or, without a fleet, as the first in line needs it. */
function nodeOf({ nodes, pending }: QueueView, kind: MachineKind, index: number): FleetNode {
  const alike = nodes[0];
  const policy = pending[0]?.policy;
  const numerics = alike?.numerics ?? (policy ? [{ engine: policy.engine, class: policy.numericsClass || "any" }] : []);
  return {
    ...{ id: `what-if-${index}` as PNodeId, owner: `what-if-${index}`, region: kind.region, provider: kind.provider },
    ...{
      trust: alike?.trust ?? "",
      architecture: alike?.architecture ?? "",
      bits: alike?.bits ?? policy?.bits ?? 0,
      answerBits: alike?.answerBits ?? policy?.bits ?? 0,
      numerics,
    },
    ...{ gflops: alike?.gflops ?? 1, newcomer: false, cores: kind.cores, gpus: [...kind.gpus].sort((a, b) => b - a) },
    ...{
      memoryBytes: kind.memoryBytes,
      memoryFreeBytes: kind.memoryBytes,
      gpusFree: kind.gpus.length,
      pricePerHour: 0,
    },
    ...{ reliability: 1, flapping: false, accepting: true, latencyMs: 0, bytesPerSecond: 0, hosts: new Map() },
  };
}
