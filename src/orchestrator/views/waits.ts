// What a session waits for, as everybody sees it: the terminal, the dashboard, events and metrics ask here. Gathers how
// its VNodes stand (roots.ts finds the roots), remembers since when, and tells of a wait once.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { WaitSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Context } from "../context.ts";
import { pnodeName } from "../records/names.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import type { Auditors } from "../trust/auditors.ts";
import type { Controller } from "../workloads/controller.ts";
import type { Leases } from "../workloads/leases.ts";
import { checksWait } from "./checks-wait.ts";
import type { Heard } from "./heard.ts";
import { type Doubt, type Root, type RootKind, rootsOf, type Standing } from "./roots.ts";
import type { Steps } from "./steps.ts";

export type WaitView = MessageInitShape<typeof WaitSchema>;

export interface WaitNeeds {
  readonly heard: Heard;
  readonly controller: Controller;
  readonly leases: Leases;
  readonly steps: Steps;
  readonly auditors: Auditors;
}

/** The others have events of their own where they begin. */
const toldHere: ReadonlySet<RootKind> = new Set(["loading", "slow", "held", "unheard", "checks"]);
/** What comes and goes is told so often at most. */
const tellAgainMs = 60_000;
export class Waits {
  readonly #context: Context;
  readonly #needs: WaitNeeds;
  readonly #unplacedSinceMs = new Map<string, number>();
  /** By session and root: when it was last there and told of. */
  readonly #told = new Map<string, number>();

  constructor(context: Context, needs: WaitNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  /** The roots of what a session waits for; none if it goes on as usual. */
  of(record: SessionRecord): WaitView[] {
    return this.#roots(record).map(({ sinceMs, untilMs, ...root }) => ({
      ...root,
      session: record.id,
      sinceSeconds: sinceMs / 1000,
      untilSeconds: untilMs / 1000,
    }));
  }

  /** Called now and then: since when something lasts is known before anyone asks, and what lasts is told. */
  sample(): void {
    const nowMs = this.#context.world.clock.monotonicMs();
    const live = new Set<string>();
    for (const record of this.#context.mirror.under(prefix.sessions)) {
      if (!isLive(record)) continue;
      live.add(record.id);
      for (const root of this.#roots(record)) if (toldHere.has(root.kind)) this.#tell(record, root, nowMs);
    }
    for (const session of this.#unplacedSinceMs.keys()) if (!live.has(session)) this.#unplacedSinceMs.delete(session);
    for (const [name, atMs] of this.#told) if (nowMs - atMs > tellAgainMs) this.#told.delete(name);
  }

  #roots(record: SessionRecord): Root[] {
    if (!isLive(record)) return [];
    const doubts = new Map<string, Doubt>();
    const standings = record.vnodes.map((vnode) => this.#standing(record, vnode, doubts));
    const nowMs = this.#context.world.clock.monotonicMs();
    if (standings.every(({ pnode }) => pnode !== "")) this.#unplacedSinceMs.delete(record.id);
    else if (!this.#unplacedSinceMs.has(record.id)) this.#unplacedSinceMs.set(record.id, nowMs);
    const checks = checksWait(this.#context, this.#needs.auditors, record);
    const roots = rootsOf({
      session: record.id,
      standings,
      doubts,
      unplaced: this.#needs.controller.unplaced.get(record.id) ?? [],
      unplacedForMs: nowMs - (this.#unplacedSinceMs.get(record.id) ?? nowMs),
      stepMs: this.#needs.steps.usualMs(record.id),
      address: this.#context.address,
      nameOf: (pnode) => pnodeName(this.#context.mirror, pnode),
    });
    return checks ? [...roots, checks] : roots;
  }

  /** A VNode with several owners is as well as the best of them. */
  #standing(record: SessionRecord, vnode: string, doubts: Map<string, Doubt>): Standing {
    const { mirror } = this.#context;
    let best: Standing | undefined;
    let bestStep = -1;
    for (const { pnode, life } of mirror.get(key.vnode(record.id, vnode))?.members ?? []) {
      const machine = mirror.get(key.pnode(pnode));
      if (machine?.life !== life || (machine.status !== "online" && machine.status !== "leaving")) continue;
      const doubt = this.#needs.heard.doubt(pnode);
      if (doubt) doubts.set(pnode, doubt);
      const progress = this.#needs.heard.progress(pnode, record.id, vnode);
      const step = doubt ? -0.5 : (progress?.step ?? 0);
      if (step <= bestStep) continue;
      bestStep = step;
      const { phase = "", detail = "", waitsFor = [] } = progress ?? {};
      const forMs = progress ? this.#needs.heard.phaseMs(progress) : 0;
      best = { vnode, pnode, phase, detail, forMs, waitsFor };
    }
    return best ?? { vnode, pnode: "", phase: "", detail: "", forMs: 0, waitsFor: [] };
  }

  #tell(record: SessionRecord, root: Root, nowMs: number): void {
    const name = `${record.id} ${root.kind} ${root.pnode} ${root.vnode}`;
    const isNew = !this.#told.has(name);
    this.#told.set(name, nowMs);
    if (!isNew || !this.#needs.leases.isHeldHere(record.id)) return;
    const about = {
      session: record.id,
      ...(root.pnode && { pnode: root.pnode }),
      ...(root.vnode && { vnode: root.vnode }),
    };
    this.#context.events.emit("warn", "session.held_up", root.sentence, about);
  }
}
