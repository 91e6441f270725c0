// Records and heartbeats put together as people and dashboards see them: sessions with progress and waits,
// PNodes with health, VNodes with their phase.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { PNodeId } from "../../core/ids.ts";
import type { PNodeSchema, VNodeSchema } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { SessionSchema, WaitSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Context } from "../context.ts";
import { isLive } from "../fleet/assignments.ts";
import type { Attachment, Progress } from "../fleet/attachment.ts";
import type { Capacity } from "../fleet/capacity.ts";
import type { Flapping } from "../fleet/flapping.ts";
import { afterUptime, meanSecondsBetweenFailures } from "../fleet/reliability.ts";
import { key, type PNodeRecord, prefix, type SessionRecord } from "../records/records.ts";
import type { Controller } from "../sessions/controller.ts";
import type { Metrics } from "./metrics.ts";
import type { Peers } from "./peers.ts";

export type SessionView = MessageInitShape<typeof SessionSchema>;
export type WaitView = MessageInitShape<typeof WaitSchema>;
export type PNodeView = MessageInitShape<typeof PNodeSchema>;
export type VNodeView = MessageInitShape<typeof VNodeSchema>;

export interface ViewNeeds {
  readonly attachments: ReadonlyMap<PNodeId, Attachment>;
  readonly flapping: Flapping;
  readonly capacity: Capacity;
  readonly controller: Controller;
  readonly metrics: Metrics;
  readonly peers: Peers;
}

/** Waiting that lasts less is how a pipeline breathes. */
const waitShownMs = 1_500;
const rateWindowMs = 15_000;
const waitsShownMax = 50;
const linksShownMax = 100;

export class Views {
  readonly #context: Context;
  readonly #needs: ViewNeeds;
  /** Steps reached over time, for the rate. */
  readonly #rates = new Map<string, { readonly ms: number; readonly step: number }[]>();

  constructor(context: Context, needs: ViewNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  session(record: SessionRecord): SessionView {
    const step = this.stepOf(record);
    const { identity, requirements } = record;
    const metric = (name: string) => this.#needs.metrics.newest(record.id, name)?.value ?? 0;
    return {
      id: record.id,
      settings: {
        network: record.network,
        dataset: record.dataset,
        split: identity.split,
        steps: BigInt(identity.steps),
        batch: identity.batch,
        microbatches: identity.microbatches,
        seed: BigInt(identity.seed),
        numerics: identity.numerics,
        checkpointEvery: record.policy.checkpointEvery,
        learningRate: { ...identity.learningRate, warmupSteps: BigInt(identity.learningRate.warmupSteps) },
        clipNorm: identity.clipNorm,
        replicas: record.policy.replicas,
        validateEvery: identity.validateEvery,
        validationSplit: identity.validationSplit,
        validationMicrobatches: identity.validationMicrobatches,
        maxRuntimeSeconds: requirements.maxRuntimeSeconds,
        initialState: identity.initialState,
        requirements: {
          ...requirements,
          gpuMemoryBytes: BigInt(requirements.gpuMemoryBytes),
          memoryBytes: BigInt(requirements.memoryBytes),
        },
      },
      status: record.status,
      reason: record.reason,
      step: BigInt(step),
      line: BigInt(record.line),
      stepRoot: record.stepRoot,
      stepRootStep: BigInt(record.stepRoot ? record.line : 0),
      loss: metric("loss"),
      samplesPerSecond: this.#rate(record.id, step) * identity.batch,
      createdWallMs: BigInt(Math.round(record.createdWallMs)),
      endedWallMs: BigInt(Math.round(record.endedWallMs)),
      vnodes: record.vnodes.length,
      totalSteps: BigInt(identity.steps),
      validationLoss: metric("validation_loss"),
      validationAccuracy: metric("validation_accuracy"),
      waits: this.waits(record),
    };
  }

  /** Steps that every VNode has completed, as far as this orchestrator hears of it. */
  stepOf(record: SessionRecord): number {
    if (!isLive(record)) return record.line;
    let least = record.identity.steps;
    for (const vnode of record.vnodes) {
      const progress = this.#progress(record.id, vnode);
      if (progress) least = Math.min(least, progress.step);
      else least = Math.min(least, this.#newestDurable(record, vnode));
    }
    return Math.max(record.line, least);
  }

  #newestDurable(record: SessionRecord, vnode: string): number {
    const durable = this.#context.mirror.get(key.vnode(record.id, vnode))?.durable ?? {};
    return Math.max(record.line, ...Object.keys(durable).map(Number));
  }

  /** Called now and then so that rates are known before anyone asks. */
  sample(): void {
    for (const record of this.#context.mirror.under(prefix.sessions)) {
      if (!isLive(record)) {
        this.#rates.delete(record.id);
        continue;
      }
      const nowMs = this.#context.world.clock.monotonicMs();
      const points = this.#rates.get(record.id) ?? [];
      points.push({ ms: nowMs, step: this.stepOf(record) });
      while (points.length > 2 && nowMs - (points[1]?.ms as number) > rateWindowMs) points.shift();
      this.#rates.set(record.id, points);
    }
  }

  #rate(session: string, step: number): number {
    const first = this.#rates.get(session)?.[0];
    const elapsedMs = first ? this.#context.world.clock.monotonicMs() - first.ms : 0;
    return first && elapsedMs > 0 ? (Math.max(0, step - first.step) / elapsedMs) * 1000 : 0;
  }

  #progress(session: string, vnode: string): (Progress & { readonly pnode: PNodeId }) | undefined {
    const record = this.#context.mirror.get(key.vnode(session, vnode));
    let best: (Progress & { readonly pnode: PNodeId }) | undefined;
    for (const member of record?.members ?? []) {
      const progress = this.#heard(member.pnode, session, vnode);
      if (progress && (!best || progress.step > best.step)) best = { ...progress, pnode: member.pnode };
    }
    return best;
  }

  /** From the PNode itself if it is attached here, else from the orchestrator that it is attached to. */
  #heard(pnode: PNodeId, session: string, vnode: string): Progress | undefined {
    const attachment = this.#needs.attachments.get(pnode);
    return attachment
      ? attachment.progress.get(`${session}/${vnode}`)
      : this.#needs.peers.progress(pnode, session, vnode);
  }

  waits(record: SessionRecord): WaitView[] {
    if (!isLive(record)) return [];
    const waits: WaitView[] = (this.#needs.controller.unplaced.get(record.id) ?? []).map(({ vnode, reason }) => ({
      vnode,
      reason,
    }));
    const nowMs = this.#context.world.clock.monotonicMs();
    for (const vnode of record.vnodes) {
      const owner = this.#context.mirror.get(key.vnode(record.id, vnode))?.members[0]?.pnode;
      const attachment = owner && this.#needs.attachments.get(owner);
      const wait = attachment && this.#waitOf(attachment, record.id, vnode, nowMs);
      if (wait) waits.push(wait);
    }
    return waits.slice(0, waitsShownMax);
  }

  #waitOf(attachment: Attachment, session: string, vnode: string, nowMs: number): WaitView | undefined {
    const { timings } = this.#context;
    const about = { vnode, pnode: attachment.pnode };
    if (attachment.status === "suspect") {
      const sinceMs = nowMs - attachment.suspectSinceMs;
      const untilSeconds = Math.max(0, attachment.lostAtMs - nowMs) / 1000;
      return {
        ...about,
        reason: "its stream broke; re-placed unless it is back",
        sinceSeconds: sinceMs / 1000,
        untilSeconds,
      };
    }
    const quietMs = nowMs - attachment.lastSeenMs;
    if (quietMs > 1.2 * timings.heartbeatIntervalMs) {
      const { limitMs } = attachment.patience;
      const untilSeconds = Math.max(0, limitMs - quietMs) / 1000;
      const reason = `silent for ${(quietMs / 1000).toFixed(1)} s, re-placed at ${(limitMs / 1000).toFixed(1)} s`;
      return { ...about, reason, sinceSeconds: quietMs / 1000, untilSeconds };
    }
    const progress = attachment.progress.get(`${session}/${vnode}`);
    if (
      !progress ||
      nowMs - progress.sinceMs < waitShownMs ||
      progress.phase === "computing" ||
      progress.phase === "done"
    )
      return undefined;
    return {
      ...about,
      reason: `${progress.phase}${progress.detail ? `: ${progress.detail}` : ""}`,
      sinceSeconds: (nowMs - progress.sinceMs) / 1000,
    };
  }

  pnode(record: PNodeRecord): PNodeView {
    const attachment = this.#needs.attachments.get(record.id);
    const state = attachment ?? this.#needs.peers.state(record.id);
    const onlineMs = attachment ? this.#context.world.clock.monotonicMs() - attachment.onlineSinceMs : 0;
    const history = afterUptime(record.history, onlineMs);
    const { facts, limits } = record;
    const warnings = [...record.warnings];
    if (this.#needs.flapping.isFlapping(record.id)) warnings.push("comes and goes: placed on only if nobody else can");
    if (record.closed) warnings.push("takes no work now: its owner's hours or limits say so");
    if (record.unreachable) warnings.push("takes no work now: its peers do not reach it, or it does not reach them");
    return {
      id: record.id,
      name: record.name,
      status: attachment?.status === "suspect" ? "suspect" : record.status,
      address: record.address,
      orchestrator: record.orchestrator,
      capabilities: {
        ...facts,
        memoryBytes: BigInt(facts.memoryBytes),
        diskBytes: BigInt(facts.diskBytes),
        gpus: facts.gpus.map((gpu) => ({ ...gpu, memoryBytes: BigInt(gpu.memoryBytes) })),
        numerics: facts.numerics.map((one) => ({ ...one })),
      },
      limits: {
        ...limits,
        memoryBytes: BigInt(limits.memoryBytes),
        diskBytes: BigInt(limits.diskBytes),
        bandwidthBytesPerSecond: BigInt(limits.bandwidthBytesPerSecond),
      },
      owner: record.owner,
      region: record.region,
      provider: record.provider,
      pricePerHour: record.pricePerHour,
      trust: record.trust,
      load: state?.load ?? 0,
      memoryUsedBytes: BigInt(Math.round(state?.memoryUsedBytes ?? 0)),
      vnodes: this.#needs.capacity.vnodesOn(record.id).size,
      reliability: history.reliability,
      failures: BigInt(history.failures),
      meanSecondsBetweenFailures: meanSecondsBetweenFailures(history) ?? 0,
      uptimeSeconds: history.uptimeMs / 1000,
      temperatureCelsius: state?.temperatureCelsius ?? 0,
      latencyMs: state?.latencyMs ?? 0,
      links: Array.from(state?.links ?? [], ([pnode, { latencyMs, bytesPerSecond }]) => ({
        pnode,
        latencyMs,
        bytesPerSecond,
      })).slice(0, linksShownMax),
      detail: record.detail,
      warnings,
    };
  }

  /** One for each member; one without a PNode if there is none. */
  vnode(session: SessionRecord, id: string): VNodeView[] {
    const record = this.#context.mirror.get(key.vnode(session.id, id));
    if (!record) return [];
    const base = {
      session: session.id,
      id,
      epoch: BigInt(record.epoch),
      durableStep: BigInt(Math.max(0, ...Object.keys(record.durable).map(Number))),
    };
    const unplaced = this.#needs.controller.unplaced.get(session.id)?.find((one) => one.vnode === id);
    if (record.members.length === 0)
      return [{ ...base, phase: isLive(session) ? "unplaced" : session.status, detail: waits(session, unplaced) }];
    return record.members.map((member, replica) => {
      const progress = this.#heard(member.pnode, session.id, id);
      return {
        ...base,
        pnode: member.pnode,
        replica,
        reason: member.reason,
        step: BigInt(progress?.step ?? 0),
        phase: progress?.phase ?? "",
        detail: progress?.detail ?? "",
        stepMs: progress?.stepMs ?? 0,
      };
    });
  }
}

/** A session gets room for all of its VNodes or for none. */
function waits(session: SessionRecord, unplaced: { readonly reason: string } | undefined): string {
  return unplaced?.reason ?? (session.status === "waiting" ? "waits until there is room for the whole session" : "");
}
