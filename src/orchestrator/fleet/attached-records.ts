// What is written about PNodes that are attached here: status, speed, hours, uptime. Each write holds only while the
// record still speaks of the same attachment, so that an orchestrator that a PNode has left changes nothing.

import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { pnodeName } from "../records/names.ts";
import { key, type PNodeRecord } from "../records/records.ts";
import type { Attachment } from "./attachment.ts";
import { numericsOf, plausible } from "./claims.ts";
import { afterFailure, afterLeave, afterUptime } from "./reliability.ts";

export interface Measured {
  readonly gflops: number;
  readonly bandwidthBytesPerSecond: number;
  readonly latencyMs: number;
  /** Empty: as they were. */
  readonly numerics: readonly { readonly engine: string; readonly class: string }[];
}

export class AttachedRecords {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  get(pnode: PNodeId): PNodeRecord | undefined {
    return this.#context.mirror.get(key.pnode(pnode));
  }

  nameOf(pnode: PNodeId): string {
    return pnodeName(this.#context.mirror, pnode);
  }

  /** True if the record was changed. */
  setStatus(attachment: Attachment, status: "leaving" | "left" | "lost" | "online", detail = ""): Promise<boolean> {
    const onlineMs = this.#takeUptime(attachment);
    return this.#update(attachment, (current) => {
      if (current.status === status) return undefined;
      const lived = afterUptime(current.history, onlineMs);
      const history = status === "lost" ? afterFailure(lived) : status === "left" ? afterLeave(lived) : lived;
      return { ...current, status: current.status === "quarantined" ? "quarantined" : status, history, detail };
    });
  }

  noteMeasurement(attachment: Attachment, measured: Measured): Promise<boolean> {
    const { gflops, bandwidthBytesPerSecond, latencyMs, numerics } = measured;
    return this.#update(attachment, (current) => {
      const { facts, warnings } = plausible({
        ...current.facts,
        gflops: gflops > 0 ? gflops : current.facts.gflops,
        bandwidthBytesPerSecond: bandwidthBytesPerSecond || current.facts.bandwidthBytesPerSecond,
        latencyMs: latencyMs || current.facts.latencyMs,
        numerics: numerics.length > 0 ? numericsOf(numerics) : current.facts.numerics,
      });
      return { ...current, facts, warnings };
    });
  }

  /** True if it changed: then the owner's hours hold whichever orchestrator places. */
  async noteClosed(attachment: Attachment, closed: boolean): Promise<boolean> {
    if (attachment.closed === closed || attachment.status !== "online") return false;
    attachment.closed = closed;
    try {
      return await this.#update(attachment, (current) =>
        (current.closed ?? false) === closed ? undefined : { ...current, closed },
      );
    } catch (thrown) {
      // The next heartbeat tries again.
      attachment.closed = undefined;
      throw thrown;
    }
  }

  async saveUptimes(attachments: Iterable<Attachment>): Promise<void> {
    const { world, timings } = this.#context;
    for (const attachment of attachments) {
      const onlineMs = world.clock.monotonicMs() - attachment.onlineSinceMs;
      // Jitter keeps the writes of PNodes that came together apart.
      if (onlineMs < timings.uptimeSaveMs * (1 + world.chance.uniform())) continue;
      this.#takeUptime(attachment);
      await this.#update(attachment, (current) => ({ ...current, history: afterUptime(current.history, onlineMs) }));
    }
  }

  async #update(
    { pnode, nonce }: Attachment,
    change: (current: PNodeRecord) => PNodeRecord | undefined,
  ): Promise<boolean> {
    const { written } = await this.#context.mirror.update(key.pnode(pnode), (current) =>
      current?.attachment === nonce ? change(current) : undefined,
    );
    return written;
  }

  #takeUptime(attachment: Attachment): number {
    const nowMs = this.#context.world.clock.monotonicMs();
    const onlineMs = nowMs - attachment.onlineSinceMs;
    attachment.onlineSinceMs = nowMs;
    return onlineMs;
  }
}
