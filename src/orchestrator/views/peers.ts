// What other orchestrators hear from their PNodes, so that anyone can be asked about everything. Asked for only
// while somebody looks; it is for people, and for the watch over circles, which may be wrong. Nothing else is decided by it.

import { hasCode } from "../../core/errors.ts";
import type { PNodeId } from "../../core/ids.ts";
import { FleetService, type PNode } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { GpuReading, Relaying } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Network } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { type MeasuredLink, type Progress, weightErrorOf } from "../fleet/attached/attachment.ts";
import { guessesOf } from "../fleet/attached/guesses-told.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import { key } from "../records/store-keys.ts";
import type { Doubt } from "./roots.ts";

export interface RemoteState {
  readonly load: number;
  readonly memoryUsedBytes: number;
  readonly temperatureCelsius: number;
  readonly gpus: readonly GpuReading[];
  readonly latencyMs: number;
  readonly links: ReadonlyMap<string, MeasuredLink>;
  readonly doubt?: Doubt;
  readonly relaying?: Relaying | undefined;
}

const intervalMs = 1_000;
/** Nobody has looked for this long: stop asking. */
const interestMs = 10_000;
const callTimeoutMs = 2_000;
const pagesMax = 20;

export class Peers {
  readonly #context: Context;
  readonly #presence: Presence;
  readonly #network: Network;
  #progress = new Map<string, Progress & { readonly pnode: PNodeId }>();
  #states = new Map<PNodeId, RemoteState>();
  #lookedMs = Number.NEGATIVE_INFINITY;
  #asking = false;

  constructor(context: Context, presence: Presence, network: Network) {
    this.#context = context;
    this.#presence = presence;
    this.#network = network;
  }

  /** By PNode, session and VNode. */
  progress(pnode: PNodeId, session: string, vnode: string): Progress | undefined {
    this.#looked();
    return this.#progress.get(`${pnode}/${session}/${vnode}`);
  }

  state(pnode: PNodeId): RemoteState | undefined {
    this.#looked();
    return this.#states.get(pnode);
  }

  #looked(): void {
    this.#lookedMs = this.#context.world.clock.monotonicMs();
    if (this.#asking) return;
    this.#asking = true;
    this.#askLater();
  }

  #askLater(): void {
    const { tasks, world } = this.#context;
    tasks.after(intervalMs, () => {
      this.#asking = world.clock.monotonicMs() - this.#lookedMs <= interestMs;
      if (this.#asking) tasks.run("asking other orchestrators", () => this.#ask().finally(() => this.#askLater()));
      else {
        this.#progress.clear();
        this.#states.clear();
      }
    });
  }

  async #ask(): Promise<void> {
    const progress = new Map<string, Progress & { readonly pnode: PNodeId }>();
    const states = new Map<PNodeId, RemoteState>();
    await Promise.all(this.#presence.others().map((other) => this.#askOne(other, progress, states)));
    this.#progress = progress;
    this.#states = states;
  }

  async #askOne(
    { id, address }: { id: string; address: string },
    progress: Map<string, Progress & { readonly pnode: PNodeId }>,
    states: Map<PNodeId, RemoteState>,
  ): Promise<void> {
    const options = { timeoutMs: callTimeoutMs, signal: this.#context.tasks.signal };
    // What it heard itself, not what it learned from others.
    const isOwn = (pnode: string) => this.#context.mirror.get(key.pnode(pnode))?.orchestrator === id;
    try {
      let pageToken = "";
      for (let page = 0; page < pagesMax; page++) {
        const reply = await this.#network.call(
          address,
          FleetService.method.listVNodes,
          { pageSize: 1_000, pageToken },
          options,
        );
        const nowMs = this.#context.world.clock.monotonicMs();
        for (const { session, id: vnode, pnode, epoch, step, phase, detail, stepMs, ...waits } of reply.vnodes) {
          if (phase === "" || !isOwn(pnode)) continue;
          const waitedMs = waits.phaseSeconds * 1000;
          const one = {
            ...{ session, vnode, epoch: Number(epoch), step: Number(step), phase, detail, stepMs },
            ...{
              sinceMs: nowMs - waitedMs,
              waitsFor: waits.waitsFor,
              waitedMs,
              ...weightErrorOf(waits),
              ...guessesOf(waits),
            },
          };
          progress.set(`${pnode}/${session}/${vnode}`, { ...one, pnode: pnode as PNodeId });
        }
        pageToken = reply.nextPageToken;
        if (pageToken === "") break;
      }
      const { pnodes } = await this.#network.call(
        address,
        FleetService.method.listPNodes,
        { pageSize: 1_000 },
        options,
      );
      for (const one of pnodes) {
        if (!isOwn(one.id)) continue;
        const { load, temperatureCelsius, gpus, latencyMs, relaying } = one;
        const links = new Map(one.links.map((link) => [link.pnode, link]));
        const memoryUsedBytes = Number(one.memoryUsedBytes);
        const doubt = doubtOf(one);
        states.set(one.id as PNodeId, {
          load,
          memoryUsedBytes,
          temperatureCelsius,
          gpus,
          latencyMs,
          links,
          relaying,
          ...doubt,
        });
      }
    } catch (thrown) {
      if (!hasCode(thrown, "unavailable") && !hasCode(thrown, "deadline_exceeded") && !hasCode(thrown, "cancelled"))
        throw thrown;
    }
  }
}

function doubtOf({ status, quietSeconds, lostInSeconds }: PNode): { doubt?: Doubt } {
  if (quietSeconds === 0) return {};
  return { doubt: { quietMs: quietSeconds * 1000, lostInMs: lostInSeconds * 1000, broken: status === "suspect" } };
}
