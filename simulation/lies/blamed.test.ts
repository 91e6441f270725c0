// Worlds in which machines lie, and in which somebody was once blamed who had done nothing: an honest machine by the network, or the network by its checker.

import { strict as assert } from "node:assert";
import { test } from "node:test";
import { runSeed } from "../run.ts";

for (const { seed, scenario, what } of [
  {
    seed: 40,
    scenario: "residual",
    what: "a machine of another class is no liar because it rounds otherwise what it sends on, where its weights do not move",
  },
  {
    seed: 348,
    scenario: "residual",
    what: "nobody is silent who was not asked, because an orchestrator died between finding a contradiction and telling of it",
  },
  {
    seed: 60039,
    scenario: "branch",
    what: "nobody was silent for a minute because the clock of an orchestrator went on by a minute at once",
  },
  {
    seed: 352,
    scenario: "branch",
    what: "whoever withheld something and went back with its session since may say that it has lost it",
  },
  {
    seed: 196,
    scenario: "residual",
    what: "a session of which samples are checked does not promise what nobody was there to repeat",
  },
])
  test(`${what} (seed ${seed})`, async () => {
    const { violations, scenario: drawn } = await runSeed(seed, { byzantine: true });
    assert.ok(drawn.startsWith(`${scenario} `), "otherwise seeds draw other worlds by now");
    assert.deepEqual(violations, []);
  });
