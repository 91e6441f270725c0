import assert from "node:assert/strict";
import { test } from "node:test";
import { virtualWorld } from "../core/virtual-world.testing.ts";
import { NoRoom, Room } from "./room.ts";

const { signal } = new AbortController();

test("what fits is taken, what does not is refused after a while, and room that is given back counts", async () => {
  const { world, until } = virtualWorld();
  const room = new Room(world.timers, 10);
  await room.take("a", 6, signal);
  await room.take("b", 4, signal);
  let outcome: unknown;
  room.take("c", 1, signal).catch((error: unknown) => {
    outcome = error;
  });
  await until(() => outcome !== undefined);
  assert.ok(outcome instanceof NoRoom && outcome.outlook === "elsewhere");
  room.giveBack("b");
  await room.take("c", 4, signal);
});

test("one that begins anew does not count twice, and room that comes free in time is waited for", async () => {
  const { world, until } = virtualWorld();
  const room = new Room(world.timers, 10);
  await room.take("a", 10, signal);
  await room.take("a", 10, signal);
  let taken = false;
  void room.take("b", 5, signal).then(() => {
    taken = true;
  });
  world.timers.after(3_000, () => room.giveBack("a"));
  await until(() => taken);
  await assert.rejects(async () => room.takeAhead("c", 6), NoRoom);
});

test("several fit together, and beside those that wait for room already, or not at all", async () => {
  const { world } = virtualWorld();
  const room = new Room(world.timers, 10);
  await room.take("a", 4, signal);
  assert.equal(room.fits(new Map([["a", 4]])), true, "what is held does not count twice");
  assert.equal(
    room.fits(
      new Map([
        ["b", 3],
        ["c", 3],
      ]),
    ),
    true,
  );
  assert.equal(
    room.fits(
      new Map([
        ["b", 3],
        ["c", 4],
      ]),
    ),
    false,
  );
  const leaving = new AbortController();
  const waiting = room.take("d", 7, leaving.signal);
  assert.equal(room.fits(new Map([["b", 3]])), false);
  leaving.abort();
  await waiting;
  assert.equal(room.fits(new Map([["b", 3]])), true);
});

test("what is loaded ahead needs free room and never stands in the way of what is assigned", async () => {
  const { world } = virtualWorld();
  const room = new Room(world.timers, 10);
  room.takeAhead("a", 6);
  assert.throws(() => room.takeAhead("b", 5), NoRoom);
  await room.take("b", 5, signal);
  room.giveBackAhead("a");
  room.takeAhead("a", 5);
  await room.take("a", 5, signal);
  assert.throws(() => room.takeAhead("c", 1), NoRoom);
});

test("whoever is stopped while it waits takes nothing", async () => {
  const { world } = virtualWorld();
  const room = new Room(world.timers, 1);
  const stopping = new AbortController();
  const waiting = room.take("a", 2, stopping.signal);
  stopping.abort();
  await waiting;
  await room.take("b", 1, signal);
});
