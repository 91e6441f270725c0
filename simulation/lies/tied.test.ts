// VNodes that share weights on one machine state nothing of what passes between them: they are repeated together, liars among their owners are found
// all the same, and a group that was parted in the middle of an interval computes it again without anybody being blamed.

import { strict as assert } from "node:assert";
import { test } from "node:test";
import { silentRoot } from "../../src/trust/silent.ts";
import { runSeed } from "../run.ts";

for (const { seed, what, story } of [
  { seed: 79, what: "in a proven session with a slanderer and a machine of another class", story: '"beside":[{' },
  { seed: 191, what: "that were parted on the way", story: "was parted from one that shares its weights" },
])
  test(`VNodes that share weights, ${what}: the honest root, and nobody honest is blamed`, async () => {
    const { trace = "", violations, scenario } = await runSeed(seed, { byzantine: true, readable: true });
    assert.match(scenario, /^tied /);
    assert.deepEqual(violations, []);
    // Otherwise the world shows something else by now: another seed will do.
    assert.ok(trace.includes(silentRoot) && trace.includes(story));
  });
