// Decisions about one attached PNode, and two orchestrators that decide about the same one in every order there is.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Patience } from "../../../core/patience.ts";
import type { Measured, RecordChange } from "./record-changes.ts";
import type { Decided, Recorded, Standing, StandingEffect, StandingEvent } from "./standing.ts";
import { isAlive, neverInDoubtMs, step } from "./standing-step.ts";

const rules = { heartbeatIntervalMs: 1_000, silentMs: 3_000, graceMs: 400 };
const nonce = "here.1";

function attached(nowMs = 0, patienceMs?: number): Standing {
  const { standing } = step(undefined, { kind: "registered", nonce, incarnation: "p.1", patienceMs }, nowMs, rules);
  assert.ok(standing);
  return standing;
}

const told = (recorded: Partial<Recorded> = {}): Recorded => ({
  attachment: nonce,
  isBeingMade: false,
  orchestrator: "here",
  status: "online",
  closed: false,
  ...recorded,
});

const beat = (recorded: Partial<Recorded> = {}, accepting = true): StandingEvent => ({
  kind: "heartbeat",
  nonce,
  accepting,
  latencyMs: 0,
  recorded: told(recorded),
});

/** Feeds events one after the other; each begins when the one before was decided. */
function after(standing: Standing | undefined, ...events: readonly (readonly [number, StandingEvent])[]): Decided {
  let decided: Decided = { standing, effects: [] };
  for (const [nowMs, event] of events) decided = step(decided.standing, event, nowMs, rules);
  return decided;
}

const kinds = (effects: readonly StandingEffect[]) => effects.map((effect) => effect.kind);

function theWrite(effects: readonly StandingEffect[]): RecordChange {
  const writes = effects.flatMap((effect) => (effect.kind === "write" ? [effect.change] : []));
  assert.equal(writes.length, 1);
  return writes[0] as RecordChange;
}

function theTimer(effects: readonly StandingEffect[]): { readonly afterMs: number; readonly event: StandingEvent } {
  const timers = effects.flatMap((effect) => (effect.kind === "later" ? [effect] : []));
  assert.equal(timers.length, 1);
  return timers[0] as { afterMs: number; event: StandingEvent };
}

const written = (change: RecordChange, changed = true): StandingEvent => ({ kind: "written", nonce, change, changed });
const notWritten = (change: RecordChange): StandingEvent => ({ kind: "notWritten", nonce, change });
const statusOf = (change: RecordChange) => (change.kind === "status" ? change.status : change.kind);

describe("a stream that breaks", () => {
  it("leaves the PNode its grace, and nothing happens to one that is back in time", () => {
    const suspect = after(attached(), [5_000, { kind: "broken", nonce }]);
    assert.deepEqual(kinds(suspect.effects), ["say", "later", "dial", "doubt"]);
    const timer = theTimer(suspect.effects);
    assert.equal(timer.afterMs, rules.graceMs);
    const back = after(suspect.standing, [
      5_200,
      { kind: "registered", nonce: "here.2", incarnation: "p.1", patienceMs: undefined },
    ]);
    assert.deepEqual(kinds(back.effects), ["close", "fleetChanged"], "the broken stream is closed");
    const late = after(back.standing, [5_400, timer.event]);
    assert.deepEqual(late, { standing: back.standing, effects: [] }, "the old attachment's grace is over: no loss");
  });

  it("costs it its place at once if nobody listens there any more, unless its process pulses or is back", () => {
    const gone: StandingEvent = { kind: "gone", nonce };
    const suspect = after(attached(), [5_000, { kind: "broken", nonce }]);
    const lost = after(suspect.standing, [5_010, gone]);
    const detail = "its process is gone";
    assert.deepEqual(theWrite(lost.effects), { kind: "status", status: "lost", detail, onlineMs: 5_010 });
    const over = after(lost.standing, [5_400, theTimer(suspect.effects).event]);
    assert.deepEqual(over.effects, [], "it is lost once");

    const pulsing = after(attached(), [4_000, { kind: "pulseBegan", nonce }], [5_000, { kind: "broken", nonce }]);
    assert.ok(!kinds(pulsing.effects).includes("dial"));
    assert.deepEqual(after(pulsing.standing, [5_010, gone]).effects, []);
    const silent = after(pulsing.standing, [5_020, { kind: "pulseEnded", nonce }]);
    assert.ok(kinds(silent.effects).includes("dial"), "its process may have ended after all");
    const again: StandingEvent = { kind: "registered", nonce: "here.2", incarnation: "p.1", patienceMs: undefined };
    assert.deepEqual(after(suspect.standing, [5_005, again], [5_010, gone]).effects, [], "it is another's news");
    assert.deepEqual(after(attached(), [5_000, gone]).effects, [], "its stream stands");
  });

  it("costs the PNode its place when the grace is over: written, told, forgotten", () => {
    const suspect = after(attached(), [5_000, { kind: "broken", nonce }]);
    const lost = after(suspect.standing, [5_400, theTimer(suspect.effects).event]);
    const change = theWrite(lost.effects);
    assert.deepEqual(change, { kind: "status", status: "lost", detail: "its stream broke", onlineMs: 5_400 });
    const end = after(lost.standing, [5_450, written(change)]);
    assert.equal(end.standing, undefined);
    assert.deepEqual(kinds(end.effects), ["close", "say", "fleetChanged"]);
  });

  it("is waited for longer while the process pulses, and shortly once the pulse ends too", () => {
    const suspect = after(attached(), [100, { kind: "pulseBegan", nonce }], [5_000, { kind: "broken", nonce }]);
    const long = theTimer(suspect.effects);
    assert.equal(long.afterMs, 5 * rules.silentMs);
    const silent = after(suspect.standing, [6_000, { kind: "pulseEnded", nonce }]);
    const short = theTimer(silent.effects);
    assert.equal(short.afterMs, rules.graceMs);
    assert.deepEqual(after(silent.standing, [5_000 + long.afterMs, long.event]).effects, [], "the long wait is void");
    assert.equal(statusOf(theWrite(after(silent.standing, [6_400, short.event]).effects)), "lost");
  });

  it("has the round trips of a PNode far away added, up to a bound", () => {
    const far = (latencyMs: number) =>
      after(
        attached(),
        [1_000, { kind: "heartbeat", nonce, accepting: true, latencyMs, recorded: told() }],
        [1_500, { kind: "broken", nonce }],
      );
    assert.equal(theTimer(far(100).effects).afterMs, rules.graceMs + 500);
    assert.equal(theTimer(far(1e9).effects).afterMs, rules.graceMs + 1_500);
  });

  it("is lost again and again until the store takes it, but not once the PNode is back", () => {
    const suspect = after(attached(), [5_000, { kind: "broken", nonce }]);
    const lost = after(suspect.standing, [5_400, theTimer(suspect.effects).event]);
    const failed = after(lost.standing, [10_000, notWritten(theWrite(lost.effects))]);
    const again = theTimer(failed.effects);
    assert.equal(statusOf(theWrite(after(failed.standing, [11_000, again.event]).effects)), "lost");
    const event = { kind: "registered", nonce: "here.2", incarnation: "p.1", patienceMs: undefined } as const;
    const back = after(failed.standing, [10_500, event]);
    assert.deepEqual(after(back.standing, [11_000, again.event]).effects, []);
  });

  it("tells of a loss that was written although the PNode has registered anew meanwhile", () => {
    const suspect = after(attached(), [5_000, { kind: "broken", nonce }]);
    const lost = after(suspect.standing, [5_400, theTimer(suspect.effects).event]);
    const event = { kind: "registered", nonce: "here.2", incarnation: "p.1", patienceMs: undefined } as const;
    const back = after(lost.standing, [5_401, event], [5_402, written(theWrite(lost.effects))]);
    assert.deepEqual(kinds(back.effects), ["say", "fleetChanged"]);
    assert.equal(back.standing?.nonce, "here.2", "and the new attachment stays");
  });
});

describe("silence", () => {
  const look = (stoodStillMs = 0): StandingEvent => ({ kind: "looked", stoodStillMs });

  it("brings a PNode into doubt once, then costs it its place", () => {
    const standing = attached();
    assert.deepEqual(after(standing, [neverInDoubtMs(rules) - 1, look()]).effects, []);
    const doubted = after(standing, [2_200, look()]);
    assert.deepEqual(kinds(doubted.effects), ["doubt"]);
    assert.deepEqual(after(doubted.standing, [2_500, look()]).effects, [], "told once");
    const lost = after(doubted.standing, [3_000, look()]);
    assert.deepEqual(theWrite(lost.effects), {
      kind: "status",
      status: "lost",
      detail: "silent for 3.0 s",
      onlineMs: 3_000,
    });
    assert.deepEqual(after(lost.standing, [3_100, look()]).effects, [], "and lost once");
    const heardAgain = after(doubted.standing, [2_600, beat()], [9_000, look()]);
    assert.deepEqual(kinds(heardAgain.effects), ["doubt"], "who was heard again is doubted anew");
  });

  it("does not count while the observer itself stood still", () => {
    const standing = attached(10_000);
    // The scan was due at 10.5 s and came at 70.5 s.
    const woken = after(standing, [70_500, look(60_000)]);
    assert.deepEqual(woken.effects, []);
    assert.equal(70_500 - (woken.standing?.lastSeenMs ?? 0), 500);
    assert.deepEqual(kinds(after(woken.standing, [72_600, look()]).effects), ["doubt"], "then time counts again");
    const heardMeanwhile = after(standing, [70_400, beat()], [70_500, look(60_000)]).standing;
    assert.equal(heardMeanwhile?.lastSeenMs, 70_500, "nobody is heard in the future");
  });

  it("is borne as long as the PNode's own delays taught", () => {
    const patient = after(attached(0, 12_000), [11_000, look()]);
    assert.equal(patient.standing?.phase.kind, "online");
    const late = after(attached(), [2_900, beat()]).standing;
    assert.ok((late?.patience.limitMs ?? 0) > new Patience(rules.silentMs).limitMs);
  });

  it("of a PNode that has said goodbye is no loss", () => {
    const left = { ...attached(), phase: { kind: "left" } } as const;
    assert.deepEqual(kinds(after(left, [60_000, look()]).effects), ["close"]);
  });
});

describe("a PNode that leaves", () => {
  function leaving(): Decided {
    return after(attached(), [1_000, { kind: "leave", nonce, reason: "night" }]);
  }

  it("is recorded, handed over, recorded again and let go", () => {
    const first = leaving();
    assert.equal(statusOf(theWrite(first.effects)), "leaving");
    const moving = after(first.standing, [1_010, written(theWrite(first.effects))]);
    assert.deepEqual(moving.effects, [{ kind: "handOver", nonce }]);
    const moved = after(moving.standing, [2_000, { kind: "handedOver", nonce }]);
    const left = after(moved.standing, [2_010, written(theWrite(moved.effects))]);
    assert.deepEqual(kinds(left.effects), ["say", "grantLeave"]);
    assert.deepEqual(
      kinds(after(left.standing, [2_100, { kind: "broken", nonce }]).effects),
      ["close"],
      "no suspicion",
    );
  });

  it("asks once, and is not forgotten while the store is away", () => {
    const first = leaving();
    assert.deepEqual(after(first.standing, [1_500, { kind: "leave", nonce, reason: "" }]).effects, []);
    const failed = after(first.standing, [6_000, notWritten(theWrite(first.effects))]);
    const again = after(failed.standing, [7_000, theTimer(failed.effects).event]);
    assert.equal(statusOf(theWrite(again.effects)), "leaving");
  });

  it("has left if all was handed over within the grace of its broken stream, and is lost otherwise", () => {
    const first = leaving();
    const broken = after(first.standing, [1_010, written(theWrite(first.effects))], [1_100, { kind: "broken", nonce }]);
    const moved = after(broken.standing, [1_200, { kind: "handedOver", nonce }]);
    const left = after(moved.standing, [1_210, written(theWrite(moved.effects))]);
    assert.equal(left.standing, undefined);
    assert.deepEqual(kinds(left.effects), ["say", "close"]);
    const lost = after(broken.standing, [1_500, theTimer(broken.effects).event]);
    assert.equal(statusOf(theWrite(lost.effects)), "lost");
    assert.deepEqual(after(lost.standing, [1_600, { kind: "handedOver", nonce }]).effects, [], "then it has not left");
  });
});

describe("an owner's hours", () => {
  it("are written when they change, one write at a time, and told when the record has changed", () => {
    const closing = after(attached(), [1_000, beat({}, false)]);
    const change = theWrite(closing.effects);
    assert.deepEqual(change, { kind: "hours", closed: true });
    assert.deepEqual(
      after(closing.standing, [2_000, beat({}, false)]).effects,
      [],
      "a second write could overtake the first",
    );
    const noted = after(closing.standing, [2_100, written(change)]);
    assert.deepEqual(kinds(noted.effects), ["say", "fleetChanged"]);
    assert.deepEqual(after(noted.standing, [3_000, beat({ closed: true }, false)]).effects, []);
    const opening = after(noted.standing, [3_000, beat({ closed: true }, true)]);
    assert.deepEqual(theWrite(opening.effects), { kind: "hours", closed: false });
  });

  it("that could not be written are written at the next heartbeat", () => {
    const closing = after(attached(), [1_000, beat({}, false)]);
    const failed = after(closing.standing, [6_000, notWritten(theWrite(closing.effects))]);
    assert.deepEqual(failed.effects, []);
    assert.deepEqual(theWrite(after(failed.standing, [6_500, beat({}, false)]).effects), {
      kind: "hours",
      closed: true,
    });
  });

  it("of a PNode that leaves change nothing", () => {
    const leaving = after(attached(), [1_000, { kind: "leave", nonce, reason: "" }]);
    assert.deepEqual(after(leaving.standing, [2_000, beat({}, false)]).effects, []);
  });
});

describe("what a machine was measured to be", () => {
  const nothing = { gflops: 0, bandwidthBytesPerSecond: 0, latencyMs: 0, memoryBytes: 0n, numerics: [] };
  const native = { engine: "native", class: "a" };
  const portable = { engine: "portable", class: "b" };
  const tell = (measured: Partial<Measured>): StandingEvent => ({
    kind: "measured",
    nonce,
    measured: { ...nothing, ...measured },
  });

  it("is written in its order: what is told meanwhile waits, all of it", () => {
    const first = after(attached(), [1_000, tell({ numerics: [native] })]);
    const waiting = after(
      first.standing,
      [1_010, tell({ gflops: 40, numerics: [native, portable] })],
      [1_020, tell({ memoryBytes: 9n })],
    );
    assert.deepEqual(waiting.effects, [], "a second write could overtake the first");
    const second = after(waiting.standing, [1_100, written(theWrite(first.effects))]);
    assert.deepEqual(kinds(second.effects), ["fleetChanged", "write"]);
    const measured = { ...nothing, gflops: 40, memoryBytes: 9n, numerics: [native, portable] };
    assert.deepEqual(theWrite(second.effects), { kind: "measured", measured });
    const end = after(second.standing, [1_200, written(theWrite(second.effects), false)]);
    assert.deepEqual(end.effects, []);
    assert.equal(kinds(after(end.standing, [1_300, tell({ gflops: 50 })]).effects).length, 1);
  });

  it("is not forgotten while the store is away: nobody says it twice", () => {
    const first = after(attached(), [1_000, tell({ numerics: [native] })]);
    const failed = after(first.standing, [6_000, notWritten(theWrite(first.effects))]);
    const { event } = theTimer(failed.effects);
    assert.deepEqual(theWrite(after(failed.standing, [7_000, event]).effects), theWrite(first.effects));
    const more = after(failed.standing, [6_500, tell({ gflops: 40 })]);
    const measured = { ...nothing, gflops: 40, numerics: [native] };
    assert.deepEqual(theWrite(more.effects), { kind: "measured", measured });
    assert.deepEqual(after(more.standing, [7_000, event]).effects, [], "it went along");
  });
});

describe("what the record says", () => {
  it("takes a PNode away that is attached to another orchestrator, also from one who waits for it", () => {
    const elsewhere = {
      kind: "recorded",
      recorded: told({ attachment: "there.1", orchestrator: "there" }),
    };
    for (const standing of [attached(), after(attached(), [5_000, { kind: "broken", nonce }]).standing]) {
      const gone = after(standing, [5_100, elsewhere as StandingEvent]);
      assert.equal(gone.standing, undefined);
      assert.deepEqual(kinds(gone.effects), ["log", "close"]);
    }
    assert.deepEqual(kinds(after(attached(), [1_000, beat({ attachment: "there.1" })]).effects), ["log", "close"]);
  });

  it("changes nothing when it names another attachment that is being made here", () => {
    const standing = attached();
    const event = { kind: "recorded", recorded: told({ attachment: "here.2", isBeingMade: true }) } as const;
    assert.deepEqual(after(standing, [10, event]), { standing, effects: [] });
    const neverMade = after(standing, [20, beat({ attachment: "here.2" })]);
    assert.deepEqual(kinds(neverMade.effects), ["log", "close"], "a record that nobody stands for: register again");
  });

  it("is corrected when it calls a living PNode lost, at every heartbeat until that is written", () => {
    const wrong = { kind: "recorded", recorded: told({ status: "lost" }) } as const;
    const first = after(attached(), [1_000, wrong]);
    const change = theWrite(first.effects);
    assert.equal(statusOf(change), "online");
    assert.deepEqual(after(first.standing, [1_100, beat({ status: "lost" })]).effects, [], "one write at a time");
    const failed = after(first.standing, [6_000, notWritten(change)]);
    assert.equal(statusOf(theWrite(after(failed.standing, [6_100, beat({ status: "lost" })]).effects)), "online");
    const suspect = after(attached(), [5_000, { kind: "broken", nonce }]);
    assert.deepEqual(after(suspect.standing, [5_100, wrong]).effects, [], "a suspect is not defended");
  });
});

describe("a copy of a PNode's directory", () => {
  it("is known by the original's being alive", () => {
    assert.equal(isAlive(attached(), 2_000, rules), true);
    assert.equal(isAlive(attached(), 2_001, rules), false, "too quiet to be sure");
    const suspect = after(attached(), [1_000, { kind: "broken", nonce }]).standing as Standing;
    assert.equal(isAlive(suspect, 1_001, rules), false, "a restarted process may take over at once");
  });
});

describe("uptime", () => {
  it("is written after long enough, and counted once", () => {
    const saved = after(attached(), [900_000, { kind: "uptime", leastMs: 900_000 }]);
    assert.deepEqual(theWrite(saved.effects), { kind: "uptime", onlineMs: 900_000 });
    const left = after(saved.standing, [900_500, { kind: "leave", nonce, reason: "" }]);
    const change = theWrite(left.effects);
    assert.ok(change.kind === "status" && change.onlineMs === 500);
    assert.deepEqual(after(attached(), [899_999, { kind: "uptime", leastMs: 900_000 }]).effects, []);
  });
});
