import assert from "node:assert/strict";
import { test } from "node:test";
import type { BlobAllowance } from "../../core/blobs.ts";
import { hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId } from "../../core/ids.ts";
import { UploadAllowance } from "./upload-allowance.ts";

const maple = "maple" as PNodeId;
const limits: BlobAllowance = {
  grantLifetimeMs: 0,
  unrecordedTimes: 2,
  unrecordedBytesLeast: 100,
  countedBytesLeast: 10,
};
const exhausted = (error: unknown) => hasCode(error, "resource_exhausted");

test("a PNode may have uploaded some times what its VNodes need, and at least a little, without having recorded it", () => {
  const allowance = new UploadAllowance({ wallMs: () => 0, monotonicMs: () => 0 }, 1_000, limits);
  for (let i = 0; i < 10; i++) allowance.take(maple, sha256(`${i}`), 1, 0);
  assert.throws(() => allowance.take(maple, sha256("10"), 1, 0), exhausted);
  allowance.take(maple, sha256("10"), 100, 100);
  assert.throws(() => allowance.take(maple, sha256("11"), 1, 100), exhausted);
  allowance.take("birch" as PNodeId, sha256("11"), 100, 0);
});

test("what is asked for again counts once, what is recorded or a day old no longer", () => {
  let nowMs = 0;
  const allowance = new UploadAllowance({ wallMs: () => 0, monotonicMs: () => nowMs }, 1_000, limits);
  for (let i = 0; i < 50; i++) allowance.take(maple, sha256("same"), 60, 0);
  assert.equal(allowance.unrecordedBytes(maple), 60);
  assert.throws(() => allowance.take(maple, sha256("other"), 60, 0), exhausted);
  allowance.recorded(maple, [sha256("same"), sha256("never seen")]);
  assert.equal(allowance.unrecordedBytes(maple), 0);
  allowance.take(maple, sha256("lost"), 60, 0);
  nowMs = 1_000;
  allowance.take(maple, sha256("other"), 60, 0);
  assert.equal(allowance.unrecordedBytes(maple), 60);
});
