import assert from "node:assert/strict";
import { test } from "node:test";
import { type Crowded, unitsForOneOwner } from "./crowd-limit.ts";

const machines = (count: number, vnodes: number, kept: number) =>
  Array.from({ length: count }, () => ({ vnodes, kept }));
const seven = Array.from({ length: 7 }, () => 1);

test("one owner gets one unit while others have room for the rest beside checks", () => {
  const crowded: Crowded = { units: seven, own: machines(5, 2, 0), others: machines(6, 2, 1), needsChecks: true };
  assert.equal(unitsForOneOwner(crowded), 1);
});

test("it gets more where they have not, by and by, and only so much where samples are checked", () => {
  const crowded = { units: seven, own: machines(5, 2, 1) };
  const allowed = (others: number, needsChecks: boolean) =>
    unitsForOneOwner({ ...crowded, others: machines(others, 2, 1), needsChecks });
  assert.deepEqual([allowed(5, true), allowed(4, true)], [2, 7]);
  assert.deepEqual([allowed(5, false), allowed(4, false), allowed(2, false)], [1, 1, 7]);
});

test("where nobody can keep room for checks it gets one unit again", () => {
  const pair: Crowded = { units: [2, 1], own: machines(2, 2, 2), others: machines(8, 2, 2), needsChecks: true };
  assert.equal(unitsForOneOwner(pair), 1);
});

test("copies of one unit are on different machines, whoever has room for both", () => {
  const twice: Crowded = {
    units: [2, 1],
    copies: 2,
    own: machines(4, 2, 0),
    others: machines(2, 2, 0),
    needsChecks: true,
  };
  assert.equal(unitsForOneOwner(twice), 4, "a machine with room for two has room for one copy");
  assert.equal(unitsForOneOwner({ ...twice, others: machines(3, 2, 0) }), 1);
});

test("the room that is kept for checks is given up for who would have no place at all, and not for further copies", () => {
  const crowded: Crowded = { units: seven, own: machines(2, 2, 1), others: machines(6, 2, 1), needsChecks: false };
  assert.equal(unitsForOneOwner({ ...crowded, others: machines(4, 2, 1) }), 1, "seven fit if it is given up");
  assert.equal(unitsForOneOwner({ ...crowded, copies: 2, others: machines(13, 2, 1) }), 1);
  assert.equal(unitsForOneOwner({ ...crowded, copies: 2, others: machines(12, 2, 1) }), 4, "two lack a place");
  assert.equal(unitsForOneOwner({ ...crowded, copies: 2, others: machines(9, 2, 1) }), 14);
});
