// What the wire says, as plain values that can be compared: an object that did not change on screen keeps its identity,
// so that React leaves its card alone.

import type { Event } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import type { PNode, VNode } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Gpu, GpuReading } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Session, Wait } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";

export interface PNodeView {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly hardware: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly memoryUsedBytes: number;
  readonly load: number;
  /** Of sessions and of served models. */
  readonly vnodes: number;
  readonly temperature: number;
  readonly reliability: number;
  readonly failures: number;
  readonly uptimeSeconds: number;
  readonly owner: string;
  readonly region: string;
  readonly trust: string;
  readonly detail: string;
  readonly warning: string;
  readonly drained: boolean;
}

/** What a VNode's card needs of its host; changes less often than the host does. */
export interface HostView {
  readonly name: string;
  readonly status: string;
}

export interface VNodeView {
  readonly key: string;
  readonly session: string;
  readonly id: string;
  readonly replica: number;
  readonly pnode: string;
  readonly epoch: number;
  readonly step: number;
  readonly phase: string;
  readonly detail: string;
  readonly stepMs: number;
  readonly durableStep: number;
  readonly reason: string;
}

export interface SessionView {
  readonly id: string;
  readonly network: string;
  readonly dataset: string;
  readonly status: string;
  readonly reason: string;
  readonly step: number;
  readonly totalSteps: number;
  readonly line: number;
  readonly lanes: number;
  readonly seed: string;
  readonly numerics: string;
  readonly stepRoot: string;
  readonly loss: number;
  readonly validationLoss: number;
  readonly validationAccuracy: number;
  readonly samplesPerSecond: number;
  readonly stepsPerSecond: number;
  readonly vnodes: number;
  readonly createdMs: number;
}

export interface EventView {
  /** The same whichever orchestrator told it, and after a restart. */
  readonly key: string;
  readonly wallMs: number;
  readonly level: string;
  readonly kind: string;
  readonly message: string;
  readonly session: string;
  readonly vnode: string;
  readonly pnode: string;
  /** Of a VNode that moved: where it was. */
  readonly fromPNode: string;
  readonly step: number;
}

export interface WaitView {
  readonly sentence: string;
  readonly remedy: string;
}

/** Rounded, so that a view changes only when a person would see it. */
function gpuText({ model, memoryBytes }: Gpu, reading: GpuReading | undefined): string {
  const { use, temperatureCelsius } = reading ?? {};
  const parts = [
    memoryBytes > 0n ? `${Math.round(Number(memoryBytes) / 2 ** 30)} GiB` : "",
    use === undefined ? "" : `${Math.round(use * 20) * 5} % used`,
    temperatureCelsius === undefined ? "" : `${Math.round(temperatureCelsius)} °C`,
  ].filter(Boolean);
  return parts.length === 0 ? model : `${model} (${parts.join(", ")})`;
}

export function pnodeView(pnode: PNode): PNodeView {
  const has = pnode.capabilities;
  const gpus = has?.gpus.map((gpu, index) => gpuText(gpu, pnode.gpus[index])).join(", ");
  return {
    id: pnode.id,
    name: pnode.name || pnode.id,
    status: pnode.status,
    hardware: [has?.cpuModel || has?.architecture || "unknown hardware", gpus].filter(Boolean).join(" + "),
    cores: pnode.limits?.cpus || has?.cores || 0,
    memoryBytes: Number(pnode.limits?.memoryBytes || has?.memoryBytes || 0),
    memoryUsedBytes: roundTo(Number(pnode.memoryUsedBytes), 1 << 20),
    load: roundTo(pnode.load, 0.01),
    vnodes: pnode.vnodes,
    temperature: Math.round(pnode.temperatureCelsius),
    reliability: roundTo(pnode.reliability, 0.001),
    failures: Number(pnode.failures),
    uptimeSeconds: roundTo(pnode.uptimeSeconds, 60),
    owner: pnode.owner,
    region: pnode.region,
    trust: pnode.trust,
    detail: pnode.detail,
    warning: pnode.warnings.join("; "),
    drained: pnode.drained,
  };
}

export function vnodeView(vnode: VNode): VNodeView {
  return {
    key: vnodeKey(vnode.session, vnode.id, vnode.replica),
    session: vnode.session,
    id: vnode.id,
    replica: vnode.replica,
    pnode: vnode.pnode,
    epoch: Number(vnode.epoch),
    step: Number(vnode.step),
    phase: vnode.phase,
    detail: vnode.detail,
    stepMs: roundTo(vnode.stepMs, vnode.stepMs < 10 ? 0.1 : 1),
    durableStep: Number(vnode.durableStep),
    reason: vnode.reason,
  };
}

export function vnodeKey(session: string, id: string, replica = 0): string {
  return `${session}/${id}/${replica}`;
}

export function sessionView(session: Session): SessionView {
  const settings = session.settings;
  return {
    id: session.id,
    network: settings?.network ?? "",
    dataset: settings?.dataset ?? "",
    status: session.status,
    reason: session.reason,
    step: Number(session.step),
    totalSteps: Number(session.totalSteps),
    line: Number(session.line),
    lanes: Math.max(1, settings?.lanes ?? 1),
    seed: String(settings?.seed ?? 0n),
    numerics: settings?.numerics ?? "",
    stepRoot: session.stepRoot,
    loss: session.loss,
    validationLoss: session.validationLoss,
    validationAccuracy: session.validationAccuracy,
    samplesPerSecond: roundTo(session.samplesPerSecond, 0.1),
    stepsPerSecond: roundTo(session.stepsPerSecond, 0.001),
    vnodes: session.vnodes,
    createdMs: Number(session.createdWallMs),
  };
}

export function eventView(event: Event): EventView {
  const wallMs = Number(event.wallMs);
  return {
    key: [wallMs, event.kind, event.session, event.vnode, event.pnode, event.message].join(" "),
    wallMs,
    level: event.level,
    kind: event.kind,
    message: event.message,
    session: event.session,
    vnode: event.vnode,
    pnode: event.pnode,
    fromPNode: event.fromPnode,
    step: Number(event.step),
  };
}

export function waitView({ sentence, remedy }: Wait): WaitView {
  return { sentence, remedy };
}

function roundTo(value: number, unit: number): number {
  const rounded = Math.round(value / unit) * unit;
  return unit < 1 ? Number(rounded.toFixed(3)) : rounded;
}

/** The old object where nothing differs, else the new one. */
export function keepEqual<T extends object>(before: T | undefined, after: T): T {
  if (!before) return after;
  for (const key of Object.keys(after) as (keyof T)[]) if (before[key] !== after[key]) return after;
  return before;
}

/** A map that is the old one if every entry is; entries keep their identity where they are equal. */
export function keepEntries<T extends object>(
  before: ReadonlyMap<string, T>,
  items: readonly T[],
  keyOf: (item: T) => string,
): ReadonlyMap<string, T> {
  let same = before.size === items.length;
  const after = new Map<string, T>();
  for (const item of items) {
    const key = keyOf(item);
    const known = before.get(key);
    const kept = keepEqual(known, item);
    if (kept !== known) same = false;
    after.set(key, kept);
  }
  return same ? before : after;
}
