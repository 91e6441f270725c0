// How the host of one VNode decides: which life to open, when to begin again, what to say about it. Events in, effects
// out, no clock and no I/O; vnode-host.ts performs the effects. A life is whatever the performer makes of one.

import { unreachable } from "../../core/assert.ts";
import type { Assignment } from "../assignment.ts";

export interface HostState {
  readonly assignment: Assignment;
  /** The newest recovery line of this turn. */
  readonly line: number;
  /** Lives so far, the one that is being opened or runs included: what an earlier one still says is void. */
  readonly life: number;
  readonly now: Now;
}

export type Now =
  /** Its state is being loaded, or will be tried again in a moment; why the last attempt failed, if one did. */
  | { readonly kind: "loading"; readonly trouble: Trouble | undefined }
  | { readonly kind: "running" }
  /** Without a life for a while, or until a newer line is known. */
  | { readonly kind: "waiting"; readonly reason: string }
  /** Starting again would not help; only a newer assignment may. */
  | { readonly kind: "failed"; readonly reason: string; readonly noRoom: boolean }
  | { readonly kind: "stopped" };

/** Why a life could not be opened. */
export interface Trouble {
  readonly reason: string;
  /** The same would happen again. */
  readonly permanent: boolean;
  /** A checkpoint that is missing or damaged: orchestrators then fall back to the line before. Empty otherwise. */
  readonly damagedState: string;
  /** This PNode lends less than the VNode needs. */
  readonly noRoom: boolean;
}

export type HostEvent<Life> =
  | { readonly kind: "assigned"; readonly told: Assignment }
  | { readonly kind: "line"; readonly line: number; readonly turn: number }
  /** A line without an orchestrator's word, with the state there: whoever is below it (`step`) starts again from it. */
  | {
      readonly kind: "crewLine";
      readonly line: number;
      readonly turn: number;
      readonly state: string;
      readonly step: number;
    }
  | { readonly kind: "opened"; readonly life: number; readonly opened: Life }
  /** An attempt failed in a way that passes: the next one follows by itself. */
  | { readonly kind: "stumbled"; readonly life: number; readonly trouble: Trouble }
  | { readonly kind: "notOpened"; readonly life: number; readonly trouble: Trouble }
  /** The pause that was asked for is over. */
  | { readonly kind: "paused"; readonly life: number }
  /** The life cannot go on, and starting again would not help. */
  | { readonly kind: "lifeFailed"; readonly life: number; readonly reason: string; readonly noRoom?: boolean }
  /** Something passing went wrong: another life may do better. */
  | { readonly kind: "lifeBroken"; readonly life: number; readonly reason: string }
  /** A neighbour has collected what the life needs: the line has moved on, and so must the start. */
  | { readonly kind: "lifeOutdated"; readonly life: number; readonly start: number }
  /** Somebody else owns the VNode. */
  | { readonly kind: "fenced"; readonly life: number }
  | { readonly kind: "stop" };

export type HostEffect<Life> =
  /** Loads what the newest assignment says, as often as failures pass. */
  | { readonly kind: "open"; readonly life: number }
  /** Nobody waits for what is being opened, nor for the end of a pause. */
  | { readonly kind: "cancel" }
  | { readonly kind: "pause"; readonly life: number }
  | { readonly kind: "begin"; readonly life: number; readonly opened: Life; readonly line: number }
  /** It came too late. */
  | { readonly kind: "discard"; readonly opened: Life }
  | { readonly kind: "end" }
  | { readonly kind: "tellLine"; readonly line: number }
  /** Orchestrators hear of it at once. */
  | { readonly kind: "report"; readonly reason: string }
  /** The VNode is not this PNode's any more. */
  | { readonly kind: "leave" };

export interface Decided<Life> {
  readonly state: HostState;
  readonly effects: readonly HostEffect<Life>[];
}

export function firstAssigned<Life>(assignment: Assignment): Decided<Life> {
  const now = { kind: "waiting", reason: "" } as const;
  return load({ assignment, line: assignment.line, life: 0, now });
}

export function step<Life>(state: HostState, event: HostEvent<Life>): Decided<Life> {
  if (state.now.kind === "stopped") return event.kind === "opened" ? discarding(state, event.opened) : same(state);
  switch (event.kind) {
    case "assigned":
      return assigned(state, event.told);
    case "line":
      return lineAdvanced(state, event.line, event.turn);
    case "crewLine":
      return crewLine(state, event);
    case "stop":
      return { state: { ...state, now: { kind: "stopped" } }, effects: ending(state) };
    case "opened":
      if (event.life !== state.life || state.now.kind !== "loading") return discarding(state, event.opened);
      return {
        state: { ...state, now: { kind: "running" } },
        effects: [{ kind: "begin", life: state.life, opened: event.opened, line: state.line }],
      };
    case "stumbled":
      return event.life === state.life ? stumbled(state, event.trouble) : same(state);
    case "notOpened":
      return event.life === state.life ? notOpened(state, event.trouble) : same(state);
    case "paused":
      return event.life === state.life ? afterPause(state) : same(state);
    case "lifeFailed":
    case "lifeBroken":
    case "lifeOutdated":
    case "fenced":
      return event.life === state.life && state.now.kind === "running" ? ended(state, event) : same(state);
    default:
      return unreachable(event, "host event");
  }
}

/** A newer version of the same line of the list. The life goes on, unless it cannot. */
function assigned<Life>(state: HostState, told: Assignment): Decided<Life> {
  const before = state.assignment;
  if (told.epoch < before.epoch) return same(state);
  const assignment = withNewerLine(told, before);
  const next = { ...state, assignment };
  const isIdle = state.now.kind === "waiting" || state.now.kind === "failed";
  const isNews = assignment.line !== before.line || assignment.state !== before.state || told.epoch > before.epoch;
  // Neighbours let go of what lies below a line as soon as they hear of it: the state that is being loaded is of no use any more.
  const isOutdated = state.now.kind === "loading" && assignment.line > before.line;
  // A new turn: states of the line are lost, and everybody goes back to the one before.
  if (assignment.since > before.epoch || assignment.turn > before.turn || isOutdated || (isIdle && isNews)) {
    const { effects, ...loaded } = load<Life>({ ...next, line: assignment.line });
    return { ...loaded, effects: [...ending<Life>(state), ...effects] };
  }
  return lineAdvanced(next, assignment.line, assignment.turn);
}

/** Lines of another turn say nothing: an earlier one is void, of a later one the next assignment will tell. */
function lineAdvanced<Life>(state: HostState, line: number, turn: number): Decided<Life> {
  if (turn !== state.assignment.turn) return same(state);
  const effects: HostEffect<Life>[] = state.now.kind === "running" ? [{ kind: "tellLine", line }] : [];
  return { state: { ...state, line: Math.max(state.line, line) }, effects };
}

/** What neighbours have thrown away never comes again: staying below the line would be waiting for ever. */
function crewLine<Life>(state: HostState, event: Extract<HostEvent<Life>, { kind: "crewLine" }>): Decided<Life> {
  const { line, turn, step: at } = event;
  const before = state.assignment;
  if (turn < before.turn || (turn === before.turn && line < before.line)) return same(state);
  const assignment = { ...before, turn, line, state: event.state };
  const isBelow = turn > before.turn || at < line;
  if (!isBelow) return lineAdvanced({ ...state, assignment }, line, turn);
  const { effects, ...loaded } = load<Life>({ ...state, assignment, line });
  return { ...loaded, effects: [...ending<Life>(state), ...effects] };
}

/** Opens a new life. */
function load<Life>(state: HostState): Decided<Life> {
  const life = state.life + 1;
  const now = { kind: "loading", trouble: undefined } as const;
  return { state: { ...state, life, now }, effects: [{ kind: "open", life }] };
}

function stumbled<Life>(state: HostState, trouble: Trouble): Decided<Life> {
  if (state.now.kind !== "loading") return same(state);
  return { state: { ...state, now: { kind: "loading", trouble } }, effects: [] };
}

function notOpened<Life>(state: HostState, trouble: Trouble): Decided<Life> {
  const { now, life } = state;
  if (now.kind !== "loading") return same(state);
  const { reason, damagedState, noRoom } = trouble;
  const report: HostEffect<Life> = { kind: "report", reason: `cannot start: ${reason}` };
  if (damagedState === "") return { state: { ...state, now: { kind: "failed", reason, noRoom } }, effects: [report] };
  // A lost blob may be found again, or the line moves.
  return { state: { ...state, now: { kind: "loading", trouble } }, effects: [report, { kind: "pause", life }] };
}

function afterPause<Life>(state: HostState): Decided<Life> {
  const { now, life } = state;
  if (now.kind === "loading") return { state, effects: [{ kind: "open", life }] };
  return now.kind === "waiting" ? load(state) : same(state);
}

function ended<Life>(
  state: HostState,
  event: Extract<HostEvent<Life>, { kind: "lifeFailed" | "lifeBroken" | "lifeOutdated" | "fenced" }>,
): Decided<Life> {
  const { assignment, life } = state;
  const waiting = (reason: string): Decided<Life> => ({
    state: { ...state, now: { kind: "waiting", reason } },
    effects: [{ kind: "end" }, { kind: "pause", life }],
  });
  switch (event.kind) {
    case "fenced":
      return { state, effects: [{ kind: "leave" }] };
    case "lifeFailed":
      return {
        state: { ...state, now: { kind: "failed", reason: event.reason, noRoom: event.noRoom ?? false } },
        effects: [{ kind: "end" }, { kind: "report", reason: event.reason }],
      };
    case "lifeBroken":
      return waiting(event.reason);
    case "lifeOutdated": {
      if (assignment.line <= event.start) return waiting(`for a recovery line above ${event.start}`);
      const { effects, ...loaded } = load<Life>(state);
      return { ...loaded, effects: [{ kind: "end" }, ...effects] };
    }
  }
}

/** What has to stop before something else begins. */
function ending<Life>({ now }: HostState): HostEffect<Life>[] {
  if (now.kind === "running") return [{ kind: "end" }];
  return now.kind === "failed" ? [] : [{ kind: "cancel" }];
}

function discarding<Life>(state: HostState, opened: Life): Decided<Life> {
  return { state, effects: [{ kind: "discard", opened }] };
}

function same<Life>(state: HostState): Decided<Life> {
  return { state, effects: [] };
}

/** An orchestrator whose view is behind may tell an older line under a newer epoch. */
function withNewerLine(told: Assignment, before: Assignment): Assignment {
  const isOlder = told.turn < before.turn || (told.turn === before.turn && told.line < before.line);
  if (!isOlder) return told;
  const { turn, line, state } = before;
  return { ...told, turn, line, state };
}
