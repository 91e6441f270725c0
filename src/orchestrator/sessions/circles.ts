// VNodes that wait for each other in a circle though all their machines are well: no message is lost for ever, so each
// such circle hangs on a link that stands still. PNodes break that link by themselves and ask again (src/peer); here the
// circle is noticed and told, so that whoever looks after the network learns of it.

import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment } from "../fleet/attached/attachment.ts";

/** A healthy network has short circles all the time: two VNodes that wait for each other's messages under way. */
const waitedMsMin = 10_000;
const lookMs = 2_000;

/** Who waits for whom. */
export type Waits = ReadonlyMap<VNodeId, readonly VNodeId[]>;

/** The VNodes of one circle in the order in which they wait; undefined if there is none. */
export function findCircle(waits: Waits): VNodeId[] | undefined {
  /** Those from which no circle can be reached. */
  const cleared = new Set<VNodeId>();
  for (const start of waits.keys()) {
    const path: VNodeId[] = [];
    const places = new Map<VNodeId, number>();
    const branches: VNodeId[][] = [[start]];
    while (branches.length > 0) {
      const next = branches.at(-1)?.pop();
      if (next === undefined) {
        branches.pop();
        const left = path.pop();
        if (left !== undefined) {
          places.delete(left);
          cleared.add(left);
        }
        continue;
      }
      const place = places.get(next);
      if (place !== undefined) return path.slice(place);
      if (cleared.has(next) || !waits.has(next)) continue;
      places.set(next, path.length);
      path.push(next);
      branches.push([...(waits.get(next) ?? [])]);
    }
  }
  return undefined;
}

/** Watches the VNodes whose PNodes are attached here. */
export class Circles {
  readonly #context: Context;
  readonly #attachments: ReadonlyMap<PNodeId, Attachment>;
  /** By session: the circle that was told of. */
  readonly #told = new Map<SessionId, string>();

  constructor(context: Context, attachments: ReadonlyMap<PNodeId, Attachment>) {
    this.#context = context;
    this.#attachments = attachments;
  }

  start(): void {
    this.#context.tasks.every("looking for circles", lookMs, () => this.look());
  }

  look(): void {
    const circles = new Map<SessionId, VNodeId[]>();
    for (const [session, waits] of this.#waits()) {
      const circle = findCircle(waits);
      if (circle !== undefined) circles.set(session, circle);
    }
    for (const session of [...this.#told.keys()]) if (!circles.has(session)) this.#told.delete(session);
    for (const [session, circle] of circles) this.#tell(session, circle);
  }

  /** A VNode with several owners waits if all of them do. */
  #waits(): Map<SessionId, Map<VNodeId, readonly VNodeId[]>> {
    const sessions = new Map<SessionId, Map<VNodeId, readonly VNodeId[]>>();
    const busy = new Set<string>();
    for (const { status, progress } of this.#attachments.values())
      for (const { session, vnode, phase, waitsFor, waitedMs } of progress.values()) {
        if (phase !== "waiting" || waitedMs < waitedMsMin || status !== "online") busy.add(`${session}/${vnode}`);
        const waits = sessions.get(session as SessionId) ?? new Map<VNodeId, readonly VNodeId[]>();
        sessions.set(session as SessionId, waits.set(vnode as VNodeId, waitsFor as readonly VNodeId[]));
      }
    for (const [session, waits] of sessions)
      for (const vnode of [...waits.keys()]) if (busy.has(`${session}/${vnode}`)) waits.delete(vnode);
    return sessions;
  }

  #tell(session: SessionId, circle: readonly VNodeId[]): void {
    const name = [...circle].sort().join(" ");
    if (this.#told.get(session) === name) return;
    this.#told.set(session, name);
    const shown = circle.slice(0, 6).join(", ");
    this.#context.events.emit(
      "warn",
      "session.circle",
      `VNodes wait for each other for ${waitedMsMin / 1_000} s and more although their machines are well: ${shown}${circle.length > 6 ? ` and ${circle.length - 6} more` : ""}; their PNodes break links that stand still and ask again`,
      { session },
    );
  }
}
