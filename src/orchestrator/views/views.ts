// Records and heartbeats put together as people and dashboards see them: sessions with progress and waits,
// PNodes with health, VNodes with their phase.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { settingsToWire } from "../../network/settings/wire.ts";
import type { PNodeSchema, VNodeSchema } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { SessionSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { shownRoutes } from "../../protocol/routes/routes.ts";
import type { Context } from "../context.ts";
import type { GuessesTold } from "../fleet/attached/guesses-told.ts";
import type { Flapping } from "../fleet/believed/flapping.ts";
import { afterUptime, meanSecondsBetweenFailures } from "../fleet/believed/reliability.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { PNodeRecord } from "../records/machines.ts";
import type { SessionRecord, WorkloadRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive, kindOf } from "../records/workloads.ts";
import { certificateSentence, lineToGive } from "../trust/finality.ts";
import type { Controller } from "../workloads/controller.ts";
import type { Heard } from "./heard.ts";
import type { Metrics } from "./metrics.ts";
import type { Steps } from "./steps.ts";
import type { Waits } from "./waits.ts";

export type SessionView = MessageInitShape<typeof SessionSchema>;
export type PNodeView = MessageInitShape<typeof PNodeSchema>;
export type VNodeView = MessageInitShape<typeof VNodeSchema>;

export interface ViewNeeds {
  readonly heard: Heard;
  readonly steps: Steps;
  readonly waits: Waits;
  readonly flapping: Flapping;
  readonly capacity: Capacity;
  readonly controller: Controller;
  readonly metrics: Metrics;
}

const linksShownMax = 100;

export class Views {
  readonly #context: Context;
  readonly #needs: ViewNeeds;

  constructor(context: Context, needs: ViewNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  session(record: SessionRecord): SessionView {
    const step = this.#needs.steps.reached(record);
    const { identity } = record;
    const metric = (name: string) => this.#needs.metrics.newest(record.id, name)?.value ?? 0;
    return {
      id: record.id,
      settings: { network: record.network, dataset: record.dataset, ...settingsToWire(record) },
      status: record.status,
      reason: record.reason,
      step: BigInt(step),
      line: BigInt(record.line),
      stepRoot: record.stepRoot,
      stepRootStep: BigInt(record.stepRoot ? record.line : 0),
      loss: metric("loss"),
      samplesPerSecond: this.#needs.steps.samplesPerSecond(record, step),
      stepsPerSecond: this.#needs.steps.perSecond(record.id, step),
      createdWallMs: BigInt(Math.round(record.createdWallMs)),
      endedWallMs: BigInt(Math.round(record.endedWallMs)),
      vnodes: record.vnodes.length,
      totalSteps: BigInt(identity.steps),
      validationLoss: metric("validation_loss"),
      validationAccuracy: metric("validation_accuracy"),
      waits: this.#needs.waits.of(record),
      numericsClass: record.numericsClass,
      eras: (record.eras ?? []).map((era) => ({ numericsClass: era.class, toStep: BigInt(era.to) })),
      job: record.job ?? "",
      keptBytesPerCheckpoint: BigInt(Math.round(this.#needs.heard.keptBytesPerState(record.id) * record.vnodes.length)),
      final: BigInt(lineToGive(record, false)),
      certificate: certificateSentence(record),
    };
  }

  pnode(record: PNodeRecord): PNodeView {
    const attachment = this.#needs.heard.attachment(record.id);
    const state = this.#needs.heard.state(record.id);
    const doubt = record.status === "online" ? this.#needs.heard.doubt(record.id) : undefined;
    const onlineMs = attachment ? this.#context.world.clock.monotonicMs() - attachment.standing.onlineSinceMs : 0;
    const history = afterUptime(record.history, onlineMs);
    const { facts, limits } = record;
    const warnings = [...record.warnings];
    if (this.#needs.flapping.isFlapping(record.id)) warnings.push("comes and goes: placed on only if nobody else can");
    if (record.barred) warnings.push(`gets no work: ${record.barred}`);
    for (const one of record.excluded ?? []) warnings.push(`computes other bits than the rest of class ${one}`);
    if (record.drained) warnings.push("gets no more work: it was drained (dcnr nodes drain --undo lets it work again)");
    if (record.closed) warnings.push("takes no work now: its owner's hours or limits say so");
    if (record.unreached) warnings.push(`takes no work now: ${record.unreached}`);
    if (record.unreachable) warnings.push("takes no work now: its peers do not reach it, or it does not reach them");
    return {
      id: record.id,
      name: record.name,
      status: record.barred ? "quarantined" : doubt?.broken ? "suspect" : record.status,
      address: shownRoutes(record.routes ?? ""),
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
      drained: record.drained ?? false,
      load: state?.load ?? 0,
      memoryUsedBytes: BigInt(Math.round(state?.memoryUsedBytes ?? 0)),
      vnodes: this.#needs.capacity.vnodesOn(record.id).size,
      reliability: history.reliability,
      failures: BigInt(history.failures),
      meanSecondsBetweenFailures: meanSecondsBetweenFailures(history) ?? 0,
      uptimeSeconds: history.uptimeMs / 1000,
      temperatureCelsius: state?.temperatureCelsius ?? 0,
      gpus: [...(state?.gpus ?? [])],
      latencyMs: state?.latencyMs ?? 0,
      links: Array.from(state?.links ?? [], ([pnode, { latencyMs, bytesPerSecond }]) => ({
        pnode,
        latencyMs,
        bytesPerSecond,
      })).slice(0, linksShownMax),
      detail: record.detail,
      warnings,
      quietSeconds: (doubt?.quietMs ?? 0) / 1000,
      lostInSeconds: (doubt?.lostInMs ?? 0) / 1000,
      reachable: record.reached ?? (record.unreached ? `not: ${record.unreached}` : ""),
      ...(state?.relaying && { relaying: state.relaying }),
    };
  }

  /** One for each member; one without a PNode if there is none. */
  vnode(workload: WorkloadRecord, id: string): VNodeView[] {
    const record = this.#context.mirror.get(key.vnode(workload.id, id));
    if (!record) return [];
    const base = {
      session: workload.id,
      id,
      epoch: BigInt(record.epoch),
      durableStep: BigInt(Math.max(0, ...Object.keys(record.durable).map(Number))),
    };
    const unplaced = this.#needs.controller.unplaced.get(workload.id)?.find((one) => one.vnode === id);
    if (record.members.length === 0)
      return [{ ...base, phase: isLive(workload) ? "unplaced" : workload.status, detail: waits(workload, unplaced) }];
    return record.members.map((member, replica) => {
      const progress = this.#needs.heard.progress(member.pnode, workload.id, id);
      return {
        ...base,
        pnode: member.pnode,
        replica,
        reason: member.reason,
        step: BigInt(progress?.step ?? 0),
        phase: progress?.phase ?? "",
        detail: progress?.detail ?? "",
        stepMs: progress?.stepMs ?? 0,
        waitsFor: [...(progress?.waitsFor ?? [])],
        phaseSeconds: progress ? this.#needs.heard.phaseMs(progress) / 1000 : 0,
        ...(progress?.weightError !== undefined && { weightError: progress.weightError }),
        ...(progress?.guesses && { guesses: progress.guesses.map(wireGuesses) }),
      };
    });
  }
}

/** A workload gets room for all of its VNodes or for none. */
function waits({ status, id }: WorkloadRecord, unplaced: { readonly reason: string } | undefined): string {
  return unplaced?.reason ?? (status === "waiting" ? `waits until there is room for the whole ${kindOf(id)}` : "");
}

function wireGuesses({ kind, guessed, right }: GuessesTold) {
  return { kind, guessed: BigInt(guessed), right: BigInt(right) };
}
