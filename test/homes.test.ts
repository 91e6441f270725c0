// Machines behind home routers, where the machine that tests allows network namespaces. All kinds of routers: npm run homes.

import assert from "node:assert/strict";
import { it } from "node:test";
import { hindrance, runCase } from "./homes/run.ts";

it("two machines behind routers that let nothing in train together, and their relay is killed in the middle", (test) => {
  const why = hindrance();
  if (why !== undefined) return test.skip(why);
  assert.equal(runCase("the relay is killed in the middle"), "");
});
