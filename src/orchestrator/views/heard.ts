// What is known of a PNode and its VNodes right now: from the PNode itself if it is attached here, else from the
// orchestrator that it is attached to.

import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment, Progress } from "../fleet/attached/attachment.ts";
import type { Peers } from "./peers.ts";
import type { Doubt } from "./roots.ts";

export class Heard {
  readonly #context: Context;
  readonly #attachments: ReadonlyMap<PNodeId, Attachment>;
  readonly #peers: Peers;

  constructor(context: Context, attachments: ReadonlyMap<PNodeId, Attachment>, peers: Peers) {
    this.#context = context;
    this.#attachments = attachments;
    this.#peers = peers;
  }

  state(pnode: PNodeId) {
    return this.#attachments.get(pnode) ?? this.#peers.state(pnode);
  }

  attachment(pnode: PNodeId): Attachment | undefined {
    return this.#attachments.get(pnode);
  }

  progress(pnode: PNodeId, session: string, vnode: string): Progress | undefined {
    const attachment = this.#attachments.get(pnode);
    return attachment ? attachment.progress.get(`${session}/${vnode}`) : this.#peers.progress(pnode, session, vnode);
  }

  /** Bytes that went from one of the crew to others for one checkpoint of one VNode, of the PNodes that are attached here; 0 if there were none. */
  keptBytesPerState(session: string): number {
    let [bytes, states] = [0, 0];
    for (const { kept } of this.#attachments.values()) {
      bytes += kept.get(session)?.bytes ?? 0;
      states += kept.get(session)?.states ?? 0;
    }
    return states === 0 ? 0 : bytes / states;
  }

  /** How long a VNode has done what its phase says. */
  phaseMs({ sinceMs, waitsFor, waitedMs }: Progress): number {
    return waitsFor.length > 0 ? waitedMs : this.#context.world.clock.monotonicMs() - sinceMs;
  }

  /** Undefined for a machine of which nobody has doubts. */
  doubt(pnode: PNodeId): Doubt | undefined {
    const attachment = this.#attachments.get(pnode);
    if (!attachment) return this.#peers.state(pnode)?.doubt;
    const nowMs = this.#context.world.clock.monotonicMs();
    const { phase, lastSeenMs, inDoubt, patience } = attachment.standing;
    const quietMs = nowMs - lastSeenMs;
    if (phase.kind === "suspect") return { quietMs, lostInMs: Math.max(0, phase.lostAtMs - nowMs), broken: true };
    if (phase.kind === "lost") return { quietMs, lostInMs: 0, broken: true };
    return inDoubt ? { quietMs, lostInMs: Math.max(0, patience.limitMs - quietMs), broken: false } : undefined;
  }
}
