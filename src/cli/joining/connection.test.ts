import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { orchestratorDefault, withRemedy } from "./connection.ts";

test("where nobody answers at the usual address, the command that starts a network is named", () => {
  const away = new DcnrError("unavailable", "nothing answers");
  assert.match((withRemedy(away, orchestratorDefault) as Error).message, /^nothing answers\. dcnr up starts/);
  assert.equal(withRemedy(away, "lab.example:7700"), away);
  const other = new DcnrError("not_found", "there is no session");
  assert.equal(withRemedy(other, orchestratorDefault), other);
});
