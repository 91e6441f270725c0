import assert from "node:assert/strict";
import { test } from "node:test";
import { fail } from "../../core/errors.ts";
import { NoRoom } from "../room.ts";
import type { Life } from "../training/life.ts";
import { type CrewCheckpointOptions, persistWithCrew } from "./crew-checkpoints.ts";

const never = () => new Promise<never>(() => {});

function stage(take: () => Promise<object>, keepOwn: () => Promise<void> = never) {
  const life = {
    ...{ compute: { state: { take } }, hashes: [], start: 0, turn: 0, persisting: Promise.resolve() },
    context: { schedule: { steps: 100 } },
  } as unknown as Life;
  const ending = new AbortController();
  const crew = { keeping: { keepOwn }, untilAlone: never, isPast: () => false, mayRecord: () => true };
  const options = { crew, vnode: "front", signal: ending.signal } as unknown as CrewCheckpointOptions;
  return { life, ending, persist: () => persistWithCrew(options, life, 6) };
}

test("a state that cannot be read fails its checkpoint, not the process", async () => {
  const { life, persist } = stage(async () => fail("internal", "the worker is gone"));
  assert.deepEqual(await persist(), {
    ...{ kind: "failed", noRoom: false },
    reason: "checkpoint at step 6: the worker is gone",
  });
  await life.persisting;
});

test("where the disk has no room for a state, its VNode has none", async () => {
  let released = 0;
  const taken = { release: async () => void released++ };
  const { persist } = stage(
    async () => taken,
    async () => Promise.reject(new NoRoom("the disk is full")),
  );
  assert.deepEqual(
    [(await persist())?.kind === "failed", (await persist()) as object],
    [true, { kind: "failed", noRoom: true, reason: "checkpoint at step 6: the disk is full" }],
  );
  assert.equal(released, 2);
});

test("a life that ends while its state is read has no checkpoint", async () => {
  const { ending, persist } = stage(async () => {
    ending.abort();
    return fail("cancelled", "it ended");
  });
  assert.equal(await persist(), undefined);
});
