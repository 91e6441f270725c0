// VNodes that wait for each other in a circle though all their machines are well: no message is lost for ever, so each
// such circle hangs on a link between two of them. Their machines are told to break those on which nothing gets on, and ask again;
// people learn of it. Each orchestrator sees the whole circle and tells the machines that are attached to it.

import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment, Progress } from "../fleet/attached/attachment.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";

/** A healthy network has short circles all the time: two VNodes that wait for each other's messages under way. */
const waitedMsMin = 10_000;
const lookMs = 2_000;
/** Of one session: what is asked for over a new link takes its time, and a machine that only says that it waits must not keep links down. */
const breakAgainMs = 30_000;

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

export interface CirclesNeeds {
  readonly attachments: ReadonlyMap<PNodeId, Pick<Attachment, "status" | "progress" | "tellCircle">>;
  /** What is known of PNodes anywhere, whichever orchestrator they are attached to. */
  readonly heard: {
    progress(pnode: PNodeId, session: string, vnode: string): Progress | undefined;
    /** Undefined for a machine that is well. */
    doubt(pnode: PNodeId): object | undefined;
  };
}

export class Circles {
  readonly #context: Context;
  readonly #needs: CirclesNeeds;
  /** By session: the circle that was told of. */
  readonly #told = new Map<SessionId, string>();
  /** By session: when links were last broken. */
  readonly #brokenMs = new Map<SessionId, number>();

  constructor(context: Context, needs: CirclesNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  start(): void {
    this.#context.tasks.every("looking for circles", lookMs, () => this.look());
  }

  look(): void {
    const nowMs = this.#context.world.clock.monotonicMs();
    for (const [session, atMs] of this.#brokenMs) if (nowMs - atMs >= breakAgainMs) this.#brokenMs.delete(session);
    const circles = new Map<SessionId, VNodeId[]>();
    for (const session of this.#standing()) {
      const record = this.#context.mirror.get(key.session(session));
      const circle = record && isLive(record) ? findCircle(this.#waits(record)) : undefined;
      if (circle !== undefined) circles.set(session, circle);
    }
    for (const session of [...this.#told.keys()]) if (!circles.has(session)) this.#told.delete(session);
    for (const [session, circle] of circles) {
      this.#tell(session, circle);
      this.#break(session, circle, nowMs);
    }
  }

  /** Sessions of which somebody that is attached here stands still: others look after the rest. */
  #standing(): Set<SessionId> {
    const sessions = new Set<SessionId>();
    for (const { status, progress } of this.#needs.attachments.values())
      if (status === "online")
        for (const one of progress.values()) if (hasWaited(one)) sessions.add(one.session as SessionId);
    return sessions;
  }

  /** A VNode with several owners waits if all of them do, and are well. */
  #waits({ id, vnodes }: SessionRecord): Waits {
    const { heard } = this.#needs;
    const waits = new Map<VNodeId, readonly VNodeId[]>();
    for (const vnode of vnodes) {
      const owners = this.#ownersOf(id, vnode).map((pnode) => ({
        isWell: heard.doubt(pnode) === undefined,
        progress: heard.progress(pnode, id, vnode),
      }));
      const waitsFor = owners.map(({ isWell, progress }) =>
        isWell && progress && hasWaited(progress) ? (progress.waitsFor as readonly VNodeId[]) : undefined,
      );
      const [first] = waitsFor;
      if (first !== undefined && !waitsFor.includes(undefined)) waits.set(vnode, first);
    }
    return waits;
  }

  #ownersOf(session: SessionId, vnode: VNodeId): PNodeId[] {
    const { mirror } = this.#context;
    return (mirror.get(key.vnode(session, vnode))?.members ?? []).map(({ pnode }) => pnode);
  }

  #break(session: SessionId, circle: readonly VNodeId[], nowMs: number): void {
    if (this.#brokenMs.has(session)) return;
    this.#brokenMs.set(session, nowMs);
    const pnodes = new Set(circle.flatMap((vnode) => this.#ownersOf(session, vnode)));
    for (const pnode of pnodes) this.#needs.attachments.get(pnode)?.tellCircle(session, circle);
  }

  /** By one of several orchestrators: whoever has the machine of the circle's first VNode. */
  #tell(session: SessionId, circle: readonly VNodeId[]): void {
    const names = [...circle].sort();
    const name = names.join(" ");
    if (this.#told.get(session) === name) return;
    this.#told.set(session, name);
    const [teller] = this.#ownersOf(session, names[0] as VNodeId);
    if (teller === undefined || !this.#needs.attachments.has(teller)) return;
    const shown = circle.slice(0, 6).join(", ");
    this.#context.events.emit(
      "warn",
      "session.circle",
      `VNodes wait for each other for ${waitedMsMin / 1_000} s and more although their machines are well: ${shown}${circle.length > 6 ? ` and ${circle.length - 6} more` : ""}; their PNodes break links that stand still and ask again`,
      { session },
    );
  }
}

function hasWaited({ phase, waitedMs }: Progress): boolean {
  return phase === "waiting" && waitedMs >= waitedMsMin;
}
