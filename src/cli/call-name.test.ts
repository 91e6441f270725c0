import assert from "node:assert/strict";
import { test } from "node:test";
import { asCalled, callName } from "./call-name.ts";

test("commands are named as this person calls them", () => {
  const told = (environment: NodeJS.ProcessEnv) =>
    asCalled("Try dcnr status, or `dcnr train NETWORK`: dcnr --help", callName(environment));
  assert.equal(told({}), "Try dcnr status, or `dcnr train NETWORK`: dcnr --help");
  for (const npm_command of ["exec", "start"])
    assert.equal(told({ npm_command }), "Try npx dcnr status, or `npx dcnr train NETWORK`: npx dcnr --help");
  assert.equal(told({ npm_command: "test" }), told({}));
  assert.match(told({ DCNR_SINGLE_FILE: "/home/a/dcnr-linux" }), /^Try \/home\/a\/dcnr-linux status/);
});

test("nothing else that has the name in it is changed", () => {
  for (const text of ["dcnr: no", "dcnr 0.1.0", "npx dcnr up", "/usr/bin/dcnr up", "a-dcnr up", "see docs/dcnr up"])
    assert.equal(asCalled(text, "npx dcnr"), text);
});
