// How an orchestrator decides about one PNode that attached to it: here, in doubt, lost, leaving, or another's. Events
// in, effects out, no clock and no I/O; registry.ts performs the effects. What several orchestrators decide at once is
// settled by the PNode's record: every write names the attachment that it speaks of and holds for that one alone.

import { unreachable } from "../../../core/assert.ts";
import { Patience, patienceMsMax } from "../../../core/patience.ts";
import type { RecordChange } from "./record-changes.ts";
import type { Decided, Recorded, Rules, Standing, StandingEffect, StandingEvent } from "./standing.ts";
import { measuredNotWritten, measuredWritten, retryMeasured, toldMeasured } from "./standing-measured.ts";

/** A new connection, a new stream, a registration and its answer, with some room. */
const returnRoundTrips = 5;
/** Of its patience, for a PNode that lives and has lost its stream: to attach again takes several turns of a busy thread. */
const busyFactor = 5;
/** PNodes measure their latency themselves; nobody is waited for longer than half around the world. */
const latencyMsMax = 300;
/** Of the silence after which a PNode is lost: two heartbeats in a row are missing. */
const doubtShare = 0.7;
/** Without the store nothing can be re-placed either: what must be written is tried until it is back. */
const retryMs = 1_000;

export function step(standing: Standing | undefined, event: StandingEvent, nowMs: number, rules: Rules): Decided {
  if (event.kind === "registered") return registered(standing, event, nowMs, rules);
  if (standing === undefined || ("nonce" in event && event.nonce !== standing.nonce))
    return { standing, effects: belated(event) };
  switch (event.kind) {
    case "heartbeat":
      return heartbeat(standing, event, nowMs, rules);
    case "pulseBegan":
      return { standing: { ...standing, pulses: standing.pulses + 1 }, effects: [] };
    case "pulse":
      return { standing: heard(standing, nowMs, rules), effects: [] };
    case "pulseEnded": {
      const left = { ...standing, pulses: standing.pulses - 1 };
      // It was waited for because it pulsed.
      return left.pulses === 0 && left.phase.kind === "suspect"
        ? loseLater(left, left.phase, nowMs, rules)
        : same(left);
    }
    case "measured":
      return toldMeasured(standing, event.measured);
    case "leave":
      return leave(standing, event.reason, nowMs);
    case "broken":
      return broken(standing, nowMs, rules);
    case "graceOver": {
      // Unless it was granted another time meanwhile.
      const isDue = standing.phase.kind === "suspect" && standing.phase.lostAtMs === event.lostAtMs;
      return isDue ? lose(standing, "its stream broke", nowMs) : same(standing);
    }
    case "gone":
      // One that pulses lives, wherever it listens now.
      return standing.phase.kind === "suspect" && standing.pulses === 0
        ? lose(standing, "its process is gone", nowMs)
        : same(standing);
    case "revoked":
      return standing.phase.kind === "lost"
        ? same(standing)
        : lose(standing, "the network's operators sent it away", nowMs);
    case "looked":
      return looked(standing, event.stoodStillMs, nowMs);
    case "recorded":
      return compared(standing, event.recorded, nowMs);
    case "handedOver":
      return isLeaving(standing) ? writeStatus(standing, "left", "", nowMs) : same(standing);
    case "written":
      return written(standing, event.change, event.changed);
    case "notWritten":
      return notWritten(standing, event.change);
    case "retry":
      return retry(standing, event.change, nowMs);
    case "uptime": {
      const onlineMs = nowMs - standing.onlineSinceMs;
      if (onlineMs < event.leastMs) return same(standing);
      return write({ ...standing, onlineSinceMs: nowMs }, { kind: "uptime", onlineMs });
    }
    default:
      return unreachable(event, "event of an attachment");
  }
}

/** A copy of a PNode's directory would fight with the original for its VNodes, if that is alive. */
export function isAlive(standing: Standing, nowMs: number, { heartbeatIntervalMs }: Rules): boolean {
  const { kind } = standing.phase;
  return kind !== "suspect" && kind !== "lost" && nowMs - standing.lastSeenMs <= 2 * heartbeatIntervalMs;
}

/** No PNode is in doubt that was heard within this time, whatever is known of it. */
export function neverInDoubtMs({ silentMs }: Rules): number {
  return doubtShare * silentMs;
}

function registered(
  before: Standing | undefined,
  { nonce, incarnation, patienceMs }: Extract<StandingEvent, { kind: "registered" }>,
  nowMs: number,
  { silentMs }: Rules,
): Decided {
  const standing: Standing = {
    nonce,
    incarnation,
    phase: { kind: "online" },
    lastSeenMs: nowMs,
    patience: new Patience(silentMs, patienceMs),
    latencyMs: 0,
    pulses: 0,
    inDoubt: false,
    onlineSinceMs: nowMs,
    writing: { return: false, hours: false },
    measured: { isWriting: false, waiting: undefined },
  };
  const closing: StandingEffect[] = before ? [{ kind: "close", nonce: before.nonce }] : [];
  return { standing, effects: [...closing, { kind: "fleetChanged", urgent: false }] };
}

/** What still counts when the attachment that it is about has ended: a loss that stands in the record. */
function belated(event: StandingEvent): StandingEffect[] {
  return event.kind === "written" && event.change.kind === "status" && event.change.status === "lost"
    ? lossTold(event.change.detail, event.changed)
    : [];
}

function lossTold(reason: string, changed: boolean): StandingEffect[] {
  const said: StandingEffect[] = changed
    ? [{ kind: "say", level: "warn", event: "pnode.lost", words: `is lost: ${reason}` }]
    : [];
  return [...said, { kind: "fleetChanged", urgent: true }];
}

/** Any sign of life, which was due one interval after the last one. */
function heard(standing: Standing, nowMs: number, { heartbeatIntervalMs }: Rules): Standing {
  const patience = standing.patience.heard(nowMs - standing.lastSeenMs - heartbeatIntervalMs);
  return { ...standing, patience, lastSeenMs: nowMs, inDoubt: false };
}

function heartbeat(
  before: Standing,
  { accepting, latencyMs, recorded }: Extract<StandingEvent, { kind: "heartbeat" }>,
  nowMs: number,
  rules: Rules,
): Decided {
  const decided = compared({ ...heard(before, nowMs, rules), latencyMs }, recorded, nowMs);
  const { standing, effects } = decided;
  const isNews = recorded?.attachment === before.nonce && recorded.closed === accepting;
  if (!isNews || standing?.phase.kind !== "online" || standing.writing.hours) return decided;
  const noted = write(
    { ...standing, writing: { ...standing.writing, hours: true } },
    { kind: "hours", closed: !accepting },
  );
  return { ...noted, effects: [...effects, ...noted.effects] };
}

/** Looked at with every heartbeat too: a write may have failed, or its answer may have come after another's news. */
function compared(standing: Standing, recorded: Recorded | undefined, nowMs: number): Decided {
  if (recorded === undefined) return same(standing);
  if (recorded.attachment !== standing.nonce) {
    if (recorded.isBeingMade) return same(standing);
    const words = `attached to ${recorded.orchestrator}`;
    return {
      standing: undefined,
      effects: [
        { kind: "log", words },
        { kind: "close", nonce: standing.nonce },
      ],
    };
  }
  // Others took this orchestrator for dead; the PNode is well.
  if (recorded.status !== "lost" || standing.phase.kind !== "online" || standing.writing.return) return same(standing);
  return writeStatus({ ...standing, writing: { ...standing.writing, return: true } }, "online", "", nowMs);
}

function leave(standing: Standing, reason: string, nowMs: number): Decided {
  if (standing.phase.kind !== "online") return same(standing);
  const leaving = writeStatus({ ...standing, phase: { kind: "leaving" } }, "leaving", "", nowMs);
  const words = `leaves${reason ? `: ${reason}` : ""}`;
  return { ...leaving, effects: [{ kind: "say", level: "info", event: "pnode.leaving", words }, ...leaving.effects] };
}

/** Still to be handed over, with its stream or without. */
function isLeaving({ phase }: Standing): boolean {
  return phase.kind === "leaving" || (phase.kind === "suspect" && phase.wasLeaving);
}

function broken(standing: Standing, nowMs: number, rules: Rules): Decided {
  const { kind } = standing.phase;
  if (kind === "left") return closed(standing);
  if (kind === "suspect" || kind === "lost") return same(standing);
  const suspicion = { sinceMs: nowMs, wasLeaving: kind === "leaving" };
  const { effects, ...suspected } = loseLater(standing, suspicion, nowMs, rules);
  const waitedMs = graceMs(standing, rules).toFixed(0);
  const words = `lost its stream, and is given up in ${waitedMs} ms unless it is back`;
  return {
    ...suspected,
    effects: [{ kind: "say", level: "warn", event: "pnode.suspect", words }, ...effects, { kind: "doubt" }],
  };
}

function loseLater(
  standing: Standing,
  { sinceMs, wasLeaving }: { readonly sinceMs: number; readonly wasLeaving: boolean },
  nowMs: number,
  rules: Rules,
): Decided {
  const afterMs = graceMs(standing, rules);
  const lostAtMs = nowMs + afterMs;
  return {
    standing: { ...standing, phase: { kind: "suspect", sinceMs, lostAtMs, wasLeaving } },
    effects: [
      { kind: "later", afterMs, event: { kind: "graceOver", nonce: standing.nonce, lostAtMs } },
      ...(standing.pulses === 0 ? [{ kind: "dial", nonce: standing.nonce } as const] : []),
    ],
  };
}

/**
 * A process that pulses lives and will attach again when it comes to it; one that does not is soon taken for dead, and at once if
 * its machine says that nobody listens there.
 */
function graceMs({ pulses, patience, latencyMs }: Standing, rules: Rules): number {
  return pulses > 0
    ? Math.min(patienceMsMax, busyFactor * patience.limitMs)
    : rules.graceMs + returnRoundTrips * Math.min(latencyMs, latencyMsMax);
}

function looked(before: Standing, stoodStillMs: number, nowMs: number): Decided {
  // What came while the observer stood still is still to be read, so nobody was silent for that time.
  const standing = { ...before, lastSeenMs: Math.min(nowMs, before.lastSeenMs + stoodStillMs) };
  const { phase, patience, inDoubt } = standing;
  const silentMs = nowMs - standing.lastSeenMs;
  if (phase.kind === "suspect" || phase.kind === "lost" || silentMs < doubtShare * patience.limitMs)
    return same(standing);
  // It said goodbye, and nothing of anybody's is left there.
  if (phase.kind === "left") return closed(standing);
  const doubt: StandingEffect[] = inDoubt ? [] : [{ kind: "doubt" }];
  const doubted = { ...standing, inDoubt: true };
  if (silentMs < patience.limitMs) return { standing: doubted, effects: doubt };
  const { effects, ...lost } = lose(doubted, `silent for ${(silentMs / 1000).toFixed(1)} s`, nowMs);
  return { ...lost, effects: [...doubt, ...effects] };
}

function lose(standing: Standing, reason: string, nowMs: number): Decided {
  return writeStatus({ ...standing, phase: { kind: "lost", sinceMs: nowMs, reason } }, "lost", reason, nowMs);
}

function written(standing: Standing, change: RecordChange, changed: boolean): Decided {
  switch (change.kind) {
    case "hours": {
      const noted = { ...standing, writing: { ...standing.writing, hours: false } };
      return { standing: noted, effects: changed ? hoursTold(change.closed) : [] };
    }
    case "measured":
      return measuredWritten(standing, change.measured, changed);
    case "uptime":
      return same(standing);
    case "status":
      return statusWritten(standing, change, changed);
    default:
      return unreachable(change, "change of a record");
  }
}

function statusWritten(
  standing: Standing,
  { status, detail }: Extract<RecordChange, { kind: "status" }>,
  changed: boolean,
): Decided {
  const { nonce } = standing;
  switch (status) {
    case "online":
      return same({ ...standing, writing: { ...standing.writing, return: false } });
    case "leaving":
      return { standing, effects: isLeaving(standing) ? [{ kind: "handOver", nonce }] : [] };
    case "left": {
      const words = "has left, all its VNodes were handed over";
      const said: StandingEffect = { kind: "say", level: "info", event: "pnode.left", words };
      if (standing.phase.kind !== "leaving") return { standing: undefined, effects: [said, { kind: "close", nonce }] };
      return { standing: { ...standing, phase: { kind: "left" } }, effects: [said, { kind: "grantLeave", nonce }] };
    }
    case "lost": {
      return { standing: undefined, effects: [{ kind: "close", nonce }, ...lossTold(detail, changed)] };
    }
    default:
      return unreachable(status, "status that is written");
  }
}

function hoursTold(isClosed: boolean): StandingEffect[] {
  const words = isClosed ? "takes no work for now: its owner's hours or limits say so" : "takes work again";
  return [
    { kind: "say", level: "info", event: isClosed ? "pnode.closed" : "pnode.open", words },
    { kind: "fleetChanged", urgent: true },
  ];
}

/** What heartbeats repeat waits for the next one; the rest is tried again. */
function notWritten(standing: Standing, change: RecordChange): Decided {
  if (change.kind === "hours") return same({ ...standing, writing: { ...standing.writing, hours: false } });
  if (change.kind === "measured") return measuredNotWritten(standing, change.measured);
  if (change.kind !== "status") return same(standing);
  if (change.status === "online") return same({ ...standing, writing: { ...standing.writing, return: false } });
  const event: StandingEvent = { kind: "retry", nonce: standing.nonce, change };
  return { standing, effects: [{ kind: "later", afterMs: retryMs, event }] };
}

function retry(standing: Standing, change: RecordChange, nowMs: number): Decided {
  if (change.kind === "measured") return retryMeasured(standing);
  if (change.kind !== "status") return same(standing);
  const isWanted = change.status === "lost" ? standing.phase.kind === "lost" : isLeaving(standing);
  return isWanted ? writeStatus(standing, change.status, change.detail, nowMs) : same(standing);
}

/** The time online until now goes along: whoever reads the status sees the history that belongs to it. */
function writeStatus(
  standing: Standing,
  status: "online" | "leaving" | "left" | "lost",
  detail: string,
  nowMs: number,
): Decided {
  const onlineMs = nowMs - standing.onlineSinceMs;
  return write({ ...standing, onlineSinceMs: nowMs }, { kind: "status", status, detail, onlineMs });
}

function write(standing: Standing, change: RecordChange): Decided {
  return { standing, effects: [{ kind: "write", nonce: standing.nonce, change }] };
}

function closed({ nonce }: Standing): Decided {
  return { standing: undefined, effects: [{ kind: "close", nonce }] };
}

function same(standing: Standing): Decided {
  return { standing, effects: [] };
}
