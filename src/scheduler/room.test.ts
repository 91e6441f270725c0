// Claims against a model too simple to be wrong: a list of who has what, added up anew each time.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SessionId, VNodeId } from "../core/ids.ts";
import { seeded } from "./placement.testing.ts";
import { type Claim, claimedIn, claimState, claimsMax, granted, type Room, withoutClaims } from "./room.ts";

const claim = (session: string, memoryBytes: number, gpus = 0): Claim => ({
  session: session as SessionId,
  vnode: "v" as VNodeId,
  epoch: 1,
  memoryBytes,
  gpus,
});
const group = (workload: string, claims: Record<string, Claim>) => ({ workload: workload as SessionId, claims });
const lent = { memoryBytes: 10, gpus: 2 };

describe("the room on a PNode", () => {
  it("is granted in order, to each session whole or not at all, and never beyond what is lent", () => {
    const { room, workloads } = granted(undefined, { life: 1, lent }, [
      group("a", { a1: claim("a", 4), a2: claim("a", 3) }),
      group("b", { b1: claim("b", 2), b2: claim("b", 2) }),
      group("c", { c1: claim("c", 3) }),
    ]);
    assert.deepEqual([...workloads], ["a", "c"]);
    assert.deepEqual(Object.keys(room?.claims ?? {}), ["a1", "a2", "c1"]);
    assert.equal(claimedIn(room, 1).memoryBytes, 10);
    assert.equal(granted(room, { life: 1, lent }, [group("d", { d1: claim("d", 1) })]).room, undefined);
  });

  it("counts the GPUs of a session once, however many of its VNodes are there", () => {
    const both = group("a", { a1: claim("a", 1, 1), a2: claim("a", 1, 1) });
    const { room } = granted(undefined, { life: 1, lent }, [both, group("b", { b1: claim("b", 1, 1) })]);
    assert.equal(claimedIn(room, 1).gpus, 2);
    assert.deepEqual(claimedIn(room, 1).workloads.get("a"), 2);
    assert.equal(granted(room, { life: 1, lent }, [group("c", { c1: claim("c", 1, 1) })]).workloads.size, 0);
  });

  it("is whole again in the PNode's next life, and refuses who has not heard of that life", () => {
    const full: Room = { life: 2, claims: { a1: claim("a", 10) } };
    const wanted = [group("b", { b1: claim("b", 10) })];
    assert.equal(granted(full, { life: 2, lent }, wanted).workloads.size, 0);
    assert.deepEqual(Object.keys(granted(full, { life: 3, lent }, wanted).room?.claims ?? {}), ["b1"]);
    assert.equal(granted({ life: 2, claims: {} }, { life: 1, lent }, wanted).workloads.size, 0);
    assert.equal(claimedIn(full, 3).memoryBytes, 0);
  });

  it("holds a bounded number of claims, since a record of the store does", () => {
    const many = Object.fromEntries(Array.from({ length: claimsMax }, (_, i) => [`a${i}`, claim("a", 0)]));
    const { room } = granted(undefined, { life: 1, lent }, [group("a", many)]);
    assert.equal(granted(room, { life: 1, lent }, [group("b", { b: claim("b", 0) })]).workloads.size, 0);
  });

  it("is never overdrawn by any sequence of claims and returns", () => {
    const random = seeded(7);
    let room: Room | undefined;
    const model = new Map<string, number>();
    for (let i = 0; i < 2_000; i++) {
      if (random() < 0.5) {
        const id = `c${i}`;
        const size = Math.floor(random() * 6);
        const free = lent.memoryBytes - [...model.values()].reduce((sum, one) => sum + one, 0);
        const { room: next } = granted(room, { life: 1, lent }, [group(id, { [id]: claim(id, size) })]);
        assert.equal(next !== undefined, size <= free);
        if (!next) continue;
        room = next;
        model.set(id, size);
      } else {
        const some = new Set([...model.keys()].filter(() => random() < 0.3));
        room = withoutClaims(room, some) ?? room;
        for (const id of some) model.delete(id);
      }
      assert.deepEqual(Object.keys(room?.claims ?? {}).sort(), [...model.keys()].sort());
    }
  });
});

describe("a claim", () => {
  const open = claim("a", 1);

  it("is open until the VNode passes its epoch, then held by an owner or void", () => {
    assert.equal(claimState("c", open, undefined), "open");
    assert.equal(claimState("c", open, { epoch: 0, members: [] }), "open");
    assert.equal(claimState("c", open, { epoch: 1, members: [{ claim: "c" }] }), "held");
    assert.equal(claimState("c", open, { epoch: 9, members: [{ claim: "other" }, { claim: "c" }] }), "held");
    assert.equal(claimState("c", open, { epoch: 1, members: [{ claim: "other" }] }), "void");
  });
});
