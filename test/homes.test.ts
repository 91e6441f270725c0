// Machines behind home routers, where the machine that tests allows network namespaces. All kinds of routers, with the demo's GPT: npm run homes.

import assert from "node:assert/strict";
import { it } from "node:test";
import { carriedBetween, hindrance, runCase } from "./homes/run.ts";

const why = hindrance();

it("two machines behind routers that let nothing in train together, and their relay is killed in the middle", (test) => {
  if (why !== undefined) return test.skip(why);
  assert.equal(runCase("the relay is killed in the middle", "small").trouble, "");
});

it("a way is made through two routers that show a port alike to everybody, and by the relay where they do not", (test) => {
  if (why !== undefined) return test.skip(why);
  assert.ok(carriedBetween("cone", "cone") < 5e6, "the relay carries only the beginning");
  assert.ok(carriedBetween("cone", "symmetric") > 15e6, "nothing leads through");
});
