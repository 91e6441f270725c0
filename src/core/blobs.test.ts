import assert from "node:assert/strict";
import { test } from "node:test";
import { codeOfBlobRefusal } from "./blobs.ts";
import { DcnrError } from "./errors.ts";

test("an address that is no longer good is asked for again, a blob that is not there is not", () => {
  const outlook = (status: number) => new DcnrError(codeOfBlobRefusal(status, "not_found"), "no").outlook;
  for (const status of [401, 403, 500, 503]) assert.equal(outlook(status), "passing", `${status}`);
  assert.equal(outlook(404), "final");
  assert.equal(codeOfBlobRefusal(404, "unavailable"), "unavailable");
  assert.equal(codeOfBlobRefusal(422, "unavailable"), "data_loss");
});
