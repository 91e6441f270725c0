// Losses and recoveries of sessions, told in one line each: which machine was lost at which step, how long the session
// stood, and what it cost. Every orchestrator watches; the one that holds the session's lease tells.

import type { PNodeId } from "../../core/ids.ts";
import { duration } from "../../core/words/duration.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { PNodeRecord } from "../records/machines.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import type { Leases } from "../workloads/leases.ts";
import type { Heard } from "./heard.ts";
import type { Steps } from "./steps.ts";

export interface RecoveryNeeds {
  readonly heard: Pick<Heard, "attachment">;
  readonly capacity: Pick<Capacity, "workloadsOn">;
  readonly leases: Leases;
  readonly steps: Steps;
}

interface Recovery {
  readonly session: string;
  readonly pnode: PNodeId;
  readonly names: string[];
  /** The last sign of life of the machine that was lost first. */
  readonly lostAtMs: number;
  /** Steps that every VNode had completed. */
  readonly step: number;
  readonly line: number;
  readonly turn: number;
}

export class Recoveries {
  readonly #context: Context;
  readonly #needs: RecoveryNeeds;
  readonly #open = new Map<string, Recovery>();
  /** Told once for each, by whoever holds the session's lease. */
  onRecovered: (tookMs: number, repeatedSteps: number) => void = () => {};

  constructor(context: Context, needs: RecoveryNeeds) {
    this.#context = context;
    this.#needs = needs;
    context.mirror.on("pnode", (now, before) => {
      if (now && before && isLoss(now, before)) this.#lost(now, before);
    });
  }

  /** Called whenever somebody may have got on. */
  look(): void {
    if (this.#open.size === 0) return;
    for (const recovery of this.#open.values()) this.#lookAt(recovery);
  }

  #lost(now: PNodeRecord, before: PNodeRecord): void {
    for (const id of this.#needs.capacity.workloadsOn(now.id)) {
      const session = this.#context.mirror.get(key.session(id));
      if (!session || !isLive(session)) continue;
      const vnodes = session.vnodes.filter((vnode) =>
        this.#context.mirror
          .get(key.vnode(session.id, vnode))
          ?.members.some((member) => member.pnode === now.id && member.life === before.life),
      ).length;
      if (vnodes > 0) this.#begin(session, now, vnodes);
    }
  }

  #begin(session: SessionRecord, { id, name, status }: PNodeRecord, vnodes: number): void {
    const nowMs = this.#context.world.clock.monotonicMs();
    const known = this.#open.get(session.id);
    const step = known?.step ?? this.#needs.steps.of(session);
    if (known) {
      if (!known.names.includes(name)) known.names.push(name);
    } else {
      const lostAtMs = this.#needs.heard.attachment(id)?.standing.lastSeenMs ?? nowMs;
      const { line, turn = 0 } = session;
      this.#open.set(session.id, { session: session.id, pnode: id, names: [name], lostAtMs, step, line, turn });
    }
    const how = status === "lost" ? "is lost" : "was restarted";
    const what = vnodes === 1 ? "its VNode goes" : `its ${vnodes} VNodes go`;
    this.#tell("warn", "session.disturbed", session, id, step, `${name} ${how} at step ${step}: ${what} elsewhere`);
  }

  #lookAt(recovery: Recovery): void {
    const session = this.#context.mirror.get(key.session(recovery.session));
    const done = session?.status === "done";
    if (!session || (!isLive(session) && !done)) {
      this.#open.delete(recovery.session);
      return;
    }
    const hasOwners = session.vnodes.every((vnode) => this.#isOwned(session, vnode));
    // Only what comes after the loss shows that everybody is back.
    if (!done && (!hasOwners || this.#needs.steps.of(session) <= recovery.step)) return;
    this.#open.delete(recovery.session);
    if (this.#needs.leases.isHeldHere(session.id)) {
      const tookMs = this.#context.world.clock.monotonicMs() - recovery.lostAtMs;
      this.onRecovered(tookMs, recovery.step - lineFrom(recovery, session));
    }
    this.#tell("info", "session.recovered", session, recovery.pnode, recovery.step, this.#sentence(recovery, session));
  }

  #isOwned(session: SessionRecord, vnode: SessionRecord["vnodes"][number]): boolean {
    const { mirror } = this.#context;
    const members = mirror.get(key.vnode(session.id, vnode))?.members ?? [];
    return members.some(({ pnode, life }) => {
      const machine = mirror.get(key.pnode(pnode));
      return machine?.life === life && machine.status === "online";
    });
  }

  #sentence({ names, lostAtMs, step, line, turn }: Recovery, session: SessionRecord): string {
    const who = names.length === 1 ? `${names[0]} was` : `${names.slice(0, -1).join(", ")} and ${names.at(-1)} were`;
    const back = duration((this.#context.world.clock.monotonicMs() - lostAtMs) / 1000);
    const from = lineFrom({ line, turn }, session);
    const again =
      step > from ? `, ${step - from} ${step - from === 1 ? "step" : "steps"} replayed by those who took over` : "";
    return `${who} lost at step ${step}; back in ${back}; nothing lost${again}`;
  }

  #tell(
    level: "info" | "warn",
    kind: string,
    session: SessionRecord,
    pnode: PNodeId,
    step: number,
    message: string,
  ): void {
    if (!this.#needs.leases.isHeldHere(session.id)) return;
    this.#context.events.emit(level, kind, message, { session: session.id, pnode, step });
  }
}

/** A state that nobody could read any more costs steps, and yet no bits: they are computed again as they were. */
function lineFrom({ line, turn }: Pick<Recovery, "line" | "turn">, session: SessionRecord): number {
  return (session.turn ?? 0) > turn ? Math.min(session.lineBefore, line) : line;
}

/** Vanished, or came back as another process that knows nothing of what it hosted. */
function isLoss(now: PNodeRecord, before: PNodeRecord): boolean {
  if (before.status !== "online" && before.status !== "leaving") return false;
  return now.status === "lost" || (now.life !== before.life && now.status === "online");
}
