// Worlds in which machines lie, and whose session once waited for ever for something that nobody was left to give.

import { strict as assert } from "node:assert";
import { test } from "node:test";
import { runSeed } from "../run.ts";

for (const { seed, scenario, what } of [
  {
    seed: 40063,
    scenario: "branch",
    what: "two that lie alike, where two strangers check, send no honest owner away until nobody is left who could check",
  },
  {
    seed: 210004,
    scenario: "residual",
    what: "nobody has to outweigh what a machine said that was found wrong elsewhere since",
  },
  {
    seed: 134,
    scenario: "tied",
    what: "who withholds what others need does not get its VNode back at once because a further copy of it finds no place",
  },
  {
    seed: 406,
    scenario: "chain",
    what: "two owners who come to the same do not wait for somebody to outweigh whoever was found wrong since and came to something else",
  },
  {
    seed: 1106,
    scenario: "tie",
    what: "whoever is shut out of a class has no part left, though the orchestrator died that was about to doubt it",
  },
  {
    seed: 1961,
    scenario: "residual",
    what: "who could not repeat something is asked again, though it heard that its answer is known before the reply to it came",
  },
  {
    seed: 2019,
    scenario: "tie",
    what: "an interval that all trusted machines have owned, one after the other, is repeated by one of them",
  },
  {
    seed: 2593,
    scenario: "residual",
    what: "between a trusted owner and a stranger its own repetition decides where nobody else has room",
  },
  {
    seed: 210186,
    scenario: "branch",
    what: "a VNode without an owner gets the room that is kept for checks, although as many further copies have none then",
  },
])
  test(`${what} (seed ${seed})`, async () => {
    const { violations, scenario: drawn } = await runSeed(seed, { byzantine: true });
    assert.ok(drawn.startsWith(`${scenario} `), "otherwise seeds draw other worlds by now");
    assert.deepEqual(violations, []);
  });
