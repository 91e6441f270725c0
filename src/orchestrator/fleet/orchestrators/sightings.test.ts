import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { OrchestratorId } from "../../../core/ids.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { type Orphaned, seenOrphans } from "./orphans.ts";
import {
  afterOutage,
  afterRead,
  afterRefusal,
  isDead,
  isForgettable,
  nobodySeen,
  type Sighting,
  type Sightings,
  somebodyWent,
  worthCalling,
} from "./sightings.ts";

const expiryMs = 2_500;

function listing(...versions: readonly (readonly [string, number])[]) {
  return versions.map(([id, version]) => {
    const record = { id: id as OrchestratorId, incarnation: "1", address: `${id}.test:1`, beat: version };
    return { record, version };
  });
}

const of = (sightings: Sightings, id: string) => sightings.byId.get(id) as Sighting;
const dead = (sightings: Sightings, id: string) => isDead(sightings, of(sightings, id), expiryMs);

describe("an orchestrator whose record stands still", () => {
  const first = afterRead(nobodySeen, listing(["a", 1], ["b", 1]), 0);
  const second = afterRead(first, listing(["a", 2], ["b", 1]), 1_000);
  const third = afterRead(second, listing(["a", 3], ["b", 1]), 2_500);

  it("is dead after a while and several reads, and not before", () => {
    assert.deepEqual([dead(second, "b"), dead(third, "b"), dead(third, "a")], [false, true, false]);
    assert.equal(somebodyWent(first, second, expiryMs), false);
    assert.equal(somebodyWent(second, third, expiryMs), true);
    const fourth = afterRead(third, listing(["a", 4], ["b", 1]), 3_500);
    assert.equal(somebodyWent(third, fourth, expiryMs), false, "told once");
    assert.equal(dead(afterRead(third, listing(["a", 4], ["b", 2]), 3_500), "b"), false, "it may be back");
  });

  it("is not dead because the reader's clock leapt ahead", () => {
    const leapt = afterRead(first, listing(["a", 1], ["b", 1]), 3_600_000);
    assert.equal(dead(leapt, "b"), false);
  });

  it("is not dead because nobody could read or write for a while", () => {
    const back = afterRead(afterOutage(second), listing(["a", 2], ["b", 1]), 60_000);
    assert.deepEqual([dead(back, "a"), dead(back, "b")], [false, false]);
  });

  it("is called a few times, and dead at once if it refuses, unless it has moved meanwhile", () => {
    assert.deepEqual([worthCalling(of(first, "b")), worthCalling(of(second, "b"))], [false, true]);
    const refused = afterRefusal(second, of(second, "b"));
    assert.equal(dead(refused, "b"), true);
    assert.equal(worthCalling(of(refused, "b")), false);
    const moved = afterRead(second, listing(["a", 3], ["b", 2]), 1_100);
    assert.equal(dead(afterRefusal(moved, of(second, "b")), "b"), false);
    let standing = second;
    for (let i = 0; i < 10; i++) standing = afterRead(standing, listing(["a", 2], ["b", 1]), 1_000 + i);
    assert.equal(worthCalling(of(standing, "b")), false, "whoever does not answer is not called for ever");
  });

  it("goes at once when it says goodbye, and its record is removed after long", () => {
    assert.equal(somebodyWent(second, afterRead(second, listing(["a", 3]), 2_000), expiryMs), true);
    assert.equal(isForgettable(third, of(third, "b")), false);
    const late = afterRead(third, listing(["a", 4], ["b", 1]), 600_000);
    assert.deepEqual([isForgettable(late, of(late, "b")), isForgettable(late, of(late, "a"))], [true, false]);
  });
});

describe("a PNode that nobody looks after", () => {
  const graceMs = 2_500;
  const pnode = { id: "p", attachment: "gone.1" } as PNodeRecord;
  const look = (before: Orphaned, nowMs: number, goneMs?: number) =>
    seenOrphans(before, [{ pnode, goneMs }], nowMs, graceMs);

  it("is found once and lost after its grace, not by one look alone", () => {
    const first = look(new Map(), 0);
    assert.deepEqual([first.found, first.lost], [[pnode], []]);
    const due = look(first.orphaned, 2_500);
    assert.deepEqual([due.found, due.lost], [[], []], "the clock may have leapt");
    assert.deepEqual(look(due.orphaned, 2_750).lost, [pnode]);
  });

  it("has had its time already if its orchestrator is known to be gone for as long", () => {
    const first = look(new Map(), 0, 3_000);
    assert.deepEqual(look(first.orphaned, 250, 3_250).lost, [pnode]);
  });

  it("begins anew after somebody looked after it for a moment", () => {
    const due = look(look(new Map(), 0).orphaned, 2_500);
    const attached = seenOrphans(due.orphaned, [], 2_600, graceMs);
    const again = look(attached.orphaned, 2_700);
    assert.deepEqual([again.found, again.lost], [[pnode], []]);
  });
});
