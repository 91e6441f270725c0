import assert from "node:assert/strict";
import { test } from "node:test";
import { byOwner } from "./owners.ts";

const balance = (pnode: string, owner: string, earned: bigint, name = "") => ({
  ...{ pnode, owner, name, earned },
  ...{ available: earned / 2n, escrow: earned - earned / 2n, bond: 1n, outside: 0n },
});

test("what machines earned is their owners', nothing is lost on the way, and the most comes first", () => {
  const all = [
    balance("p1", "ada", 5n),
    balance("p2", "", 100n, "maple"),
    balance("p3", "ada", 7n),
    balance("p4", "", 0n),
  ];
  const owners = byOwner(all);
  assert.deepEqual(
    owners.map(({ owner, machines, earned }) => [owner, machines, earned]),
    [
      ["maple", 1, 100n],
      ["ada", 2, 12n],
      ["p4", 1, 0n],
    ],
  );
  const sum = (rows: readonly { available: bigint; escrow: bigint }[]) =>
    rows.reduce((total, row) => total + row.available + row.escrow, 0n);
  assert.equal(sum(owners), sum(all));
});
