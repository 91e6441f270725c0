// The roots of what waits: VNodes that wait for each other are followed to the one thing that holds all of them up, so
// that people read one sentence instead of one per VNode. A pure function; what lasts no longer than usual is no wait.

import type { VNodeId } from "../../core/ids.ts";
import { duration } from "../../core/words/duration.ts";
import { findCircle } from "../sessions/circles.ts";

/** What can be the matter with a VNode itself, or with its machine. */
type Trouble = "machine.away" | "machine.silent" | "room" | "failing" | "loading" | "slow" | "held" | "unheard";

export type RootKind = Trouble | "circle" | "checks";

/** How one VNode stands. */
export interface Standing {
  readonly vnode: string;
  /** Empty if nobody hosts it. */
  readonly pnode: string;
  /** As its host told; empty if that was not heard yet. */
  readonly phase: string;
  readonly detail: string;
  readonly forMs: number;
  readonly waitsFor: readonly string[];
}

/** A machine that may be gone. */
export interface Doubt {
  readonly quietMs: number;
  readonly lostInMs: number;
  /** Its stream broke; otherwise it is whole and says nothing. */
  readonly broken: boolean;
}

export interface Scene {
  readonly session: string;
  readonly standings: readonly Standing[];
  readonly doubts: ReadonlyMap<string, Doubt>;
  /** VNodes that no machine can take, and why. */
  readonly unplaced: readonly { readonly vnode: string; readonly reason: string }[];
  readonly unplacedForMs: number;
  /** What a step of this session takes lately; 0 if nobody knows. */
  readonly stepMs: number;
  /** Where machines join. */
  readonly address: string;
  nameOf(pnode: string): string;
}

export interface Root {
  readonly kind: RootKind;
  readonly vnode: string;
  readonly pnode: string;
  readonly reason: string;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly vnodes: number;
  readonly remedy: string;
  readonly sentence: string;
}

/** Waiting that lasts less is how a pipeline breathes. */
const normalMsLeast = 3_000;
/** Steps differ: a validation or a checkpoint rides in some of them. */
const normalSteps = 3;
/** Before a session has taken a step nobody knows how long one takes. */
const normalMsUnknown = 10_000;
/** Two VNodes that wait for each other's messages under way are a circle too, for a moment. */
const circleMs = 10_000;

/** The one that holds up most VNodes first. */
export function rootsOf(scene: Scene): Root[] {
  const normalMs = scene.stepMs > 0 ? Math.max(normalMsLeast, normalSteps * scene.stepMs) : normalMsUnknown;
  const groups = new Map<string, { readonly kind: Trouble; readonly own: Standing[] }>();
  for (const standing of scene.standings) {
    const kind = troubleOf(standing, scene, normalMs);
    if (kind === undefined) continue;
    // Between two owners there is a moment without one.
    if (kind === "room" && scene.unplaced.length === 0 && scene.unplacedForMs < normalMsLeast) continue;
    const name = `${kind} ${kind === "room" ? "" : standing.pnode || standing.vnode}`;
    const group = groups.get(name) ?? { kind, own: [] };
    groups.set(name, group);
    group.own.push(standing);
  }
  const waiters = waitersOf(scene.standings);
  const roots = Array.from(groups.values()).flatMap(({ kind, own }) => {
    const held = reached(own, waiters);
    // One that computes for long is the matter only if somebody stands still for it.
    if (kind === "slow" && held.size === own.length) return [];
    return [described(kind, own, held.size, scene)];
  });
  if (roots.length === 0) roots.push(...circleOf(scene, normalMs));
  return roots.sort((a, b) => b.vnodes - a.vnodes || b.sinceMs - a.sinceMs);
}

/** What is the matter with a VNode itself; undefined if it is well, or only waits for others. */
function troubleOf(standing: Standing, { doubts }: Scene, normalMs: number): Trouble | undefined {
  const { pnode, phase, forMs, waitsFor } = standing;
  if (pnode === "") return "room";
  const doubt = doubts.get(pnode);
  if (doubt) return doubt.broken ? "machine.away" : "machine.silent";
  if (phase === "failed") return "failing";
  if (forMs < normalMs || phase === "done") return undefined;
  if (phase === "") return "unheard";
  if (phase === "loading") return "loading";
  if (phase === "computing" || phase === "replaying") return "slow";
  return waitsFor.length === 0 ? "held" : undefined;
}

/** By VNode: those that wait for it. */
function waitersOf(standings: readonly Standing[]): ReadonlyMap<string, readonly string[]> {
  const waiters = new Map<string, string[]>();
  for (const { vnode, phase, waitsFor } of standings) {
    if (phase !== "waiting") continue;
    for (const whom of waitsFor) {
      const known = waiters.get(whom);
      if (known) known.push(vnode);
      else waiters.set(whom, [vnode]);
    }
  }
  return waiters;
}

/** Everybody who stands still because of these, themselves included. */
function reached(own: readonly Standing[], waiters: ReadonlyMap<string, readonly string[]>): Set<string> {
  const found = new Set(own.map(({ vnode }) => vnode));
  // Grows while it is walked.
  for (const vnode of found) for (const waiter of waiters.get(vnode) ?? []) found.add(waiter);
  return found;
}

function described(kind: Trouble, own: readonly Standing[], vnodes: number, scene: Scene): Root {
  const first = own.reduce((best, one) => (one.forMs > best.forMs ? one : best));
  const { pnode } = first;
  const doubt = scene.doubts.get(pnode);
  const isMachine = doubt !== undefined;
  const sinceMs = doubt?.quietMs ?? (kind === "room" ? scene.unplacedForMs : first.forMs);
  const untilMs = doubt?.lostInMs ?? 0;
  const about = { kind, vnode: isMachine || own.length > 1 ? "" : first.vnode, pnode, sinceMs, untilMs, vnodes };
  const whose = own.length === 1 ? first.vnode : `${own.length} VNodes`;
  const others = vnodes > own.length ? `; ${count(vnodes - own.length)} for it` : "";
  const machine = pnode && scene.nameOf(pnode);
  const lasting = duration(sinceMs / 1000);
  const told = withoutTime(first.detail);
  switch (kind) {
    case "machine.away":
    case "machine.silent": {
      const reason = kind === "machine.away" ? "is away: its stream broke" : "says nothing";
      const until = `unless it is heard within ${duration(untilMs / 1000)}, its work goes to others`;
      const sentence = `${machine} ${reason} (last heard ${lasting} ago); ${count(vnodes)}; ${until}`;
      return { ...about, reason, remedy: "", sentence };
    }
    case "room": {
      const reason = mostFrequent(scene.unplaced.map((one) => one.reason)) || "a place is being looked for";
      const remedy = scene.unplaced.length > 0 ? `lend another machine: dcnr join ${scene.address}` : "";
      const since = sinceMs >= 1_000 ? ` for ${lasting}` : "";
      return { ...about, reason, remedy, sentence: `${count(vnodes)} for a machine${since}: ${reason}` };
    }
    case "failing": {
      const reason = `fails: ${told || "no reason was told"}`;
      const remedy = `dcnr events --session ${scene.session} says more`;
      return { ...about, reason, remedy, sentence: `${whose} on ${machine} ${reason}${others}` };
    }
    case "loading": {
      const reason = `loading ${whose}${told ? `: ${told}` : ""}`;
      const remedy = sinceMs > 60_000 ? "its line to the store may be slow or broken: dcnr nodes" : "";
      return {
        ...about,
        reason,
        remedy,
        sentence: `${machine} has been loading ${whose} for ${lasting}${aside(told)}${others}`,
      };
    }
    case "slow": {
      const usual = scene.stepMs > 0 ? ` (a whole step usually takes ${duration(scene.stepMs / 1000)})` : "";
      const sentence = `${machine} has been computing ${whose} for ${lasting}${usual}${others}`;
      const remedy = "if it stays so, end dcnr join there: others take its work";
      return { ...about, reason: "computes for longer than usual", remedy, sentence };
    }
    case "held":
      return {
        ...about,
        reason: told,
        remedy: "",
        sentence: `${whose} on ${machine} ${own.length === 1 ? "has" : "have"} waited for ${lasting}: ${told}${others}`,
      };
    case "unheard": {
      const reason = "has not said what it does";
      const sentence = `${machine} has not said for ${lasting} what ${whose} ${own.length === 1 ? "does" : "do"}${others}`;
      return { ...about, reason, remedy: "", sentence };
    }
  }
}

/** Nobody has trouble of his own and yet all wait: a link between them stands still. */
function circleOf({ standings }: Scene, normalMs: number): Root[] {
  const waits = new Map<VNodeId, readonly VNodeId[]>();
  const longMs = Math.max(circleMs, normalMs);
  for (const { vnode, phase, forMs, waitsFor } of standings)
    if (phase === "waiting" && forMs >= longMs) waits.set(vnode as VNodeId, waitsFor as readonly VNodeId[]);
  const circle = findCircle(waits);
  if (circle === undefined) return [];
  const sinceMs = Math.min(...circle.map((vnode) => standings.find((one) => one.vnode === vnode)?.forMs ?? 0));
  const shown =
    circle.length > 4 ? `${circle.slice(0, 4).join(", ")} and ${circle.length - 4} more` : circle.join(", ");
  const reason = "wait for each other though their machines are well";
  const sentence = `${shown} have waited for each other for ${duration(sinceMs / 1000)} though their machines are well; links that stand still are broken and made anew`;
  const vnode = circle.length === 1 ? (circle[0] as string) : "";
  return [{ kind: "circle", vnode, pnode: "", reason, sinceMs, untilMs: 0, vnodes: waits.size, remedy: "", sentence }];
}

function count(vnodes: number): string {
  return vnodes === 1 ? "1 VNode waits" : `${vnodes} VNodes wait`;
}

function aside(text: string): string {
  return text ? ` (${text})` : "";
}

/** What a host tells counts the seconds by itself, as of its last heartbeat. */
function withoutTime(detail: string): string {
  return detail.replace(/ since [\d.]+ s$/, "");
}

/** The reason most VNodes have: a machine that suits one of them often suits all. */
function mostFrequent(reasons: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return Array.from(counts).reduce((best, one) => (one[1] > best[1] ? one : best), ["", 0] as [string, number])[0];
}
