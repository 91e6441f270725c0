// What is changed in the record of a PNode that is attached: status, hours, speed, uptime. Pure; the registry writes it,
// and only while the record still speaks of the same attachment, so an orchestrator that a PNode has left changes nothing.

import { unreachable } from "../../../core/assert.ts";
import { wholeOf } from "../../../core/whole.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { numericsOf, plausible } from "../believed/claims.ts";
import { afterFailure, afterLeave, afterUptime } from "../believed/reliability.ts";

export interface Measured {
  readonly gflops: number;
  readonly bandwidthBytesPerSecond: number;
  readonly latencyMs: number;
  /** What it lends of its memory; 0: as it was. */
  readonly memoryBytes: bigint;
  /** Empty: as they were. */
  readonly numerics: readonly { readonly engine: string; readonly class: string }[];
}

export type RecordChange =
  | {
      readonly kind: "status";
      readonly status: "online" | "leaving" | "left" | "lost";
      readonly detail: string;
      /** Time online that the record does not hold yet. */
      readonly onlineMs: number;
    }
  /** In the record, so that the owner's hours hold whichever orchestrator places. */
  | { readonly kind: "hours"; readonly closed: boolean }
  | { readonly kind: "measured"; readonly measured: Measured }
  | { readonly kind: "uptime"; readonly onlineMs: number };

/** Undefined if nothing is to be changed. */
export function changedRecord(current: PNodeRecord, change: RecordChange): PNodeRecord | undefined {
  switch (change.kind) {
    case "status":
      return current.status === change.status ? undefined : withStatus(current, change);
    case "hours":
      return (current.closed ?? false) === change.closed ? undefined : { ...current, closed: change.closed };
    case "measured":
      return withMeasurement(current, change.measured);
    case "uptime":
      return { ...current, history: afterUptime(current.history, change.onlineMs) };
    default:
      return unreachable(change, "change of a record");
  }
}

function withStatus(
  current: PNodeRecord,
  { status, detail, onlineMs }: Extract<RecordChange, { kind: "status" }>,
): PNodeRecord {
  const lived = afterUptime(current.history, onlineMs);
  const history = status === "lost" ? afterFailure(lived) : status === "left" ? afterLeave(lived) : lived;
  return { ...current, status: current.status === "quarantined" ? "quarantined" : status, history, detail };
}

function withMeasurement(current: PNodeRecord, measured: Measured): PNodeRecord {
  const { gflops, bandwidthBytesPerSecond, latencyMs, numerics } = measured;
  const memoryBytes = wholeOf(measured.memoryBytes);
  const { facts, warnings } = plausible({
    ...current.facts,
    gflops: gflops > 0 ? gflops : current.facts.gflops,
    bandwidthBytesPerSecond: bandwidthBytesPerSecond || current.facts.bandwidthBytesPerSecond,
    latencyMs: latencyMs || current.facts.latencyMs,
    numerics: numerics.length > 0 ? numericsOf(numerics) : current.facts.numerics,
  });
  const limits = memoryBytes > 0 ? { ...current.limits, memoryBytes } : current.limits;
  return { ...current, facts, limits, warnings };
}
