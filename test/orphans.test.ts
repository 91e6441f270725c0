import assert from "node:assert/strict";
import { test } from "node:test";
import { orphans } from "./orphans/orphans.ts";

test("with all orchestrators killed, and a PNode after them, a session ends with the undisturbed root", async (context) => {
  const report = await orphans({
    ...{ pnodes: 4, orchestrators: 1, steps: 60, rounds: 1, seed: 2 },
    print: (line) => context.diagnostic(line),
  });
  assert.deepEqual(report.wrongRoots, []);
  assert.ok(report.keptBytes > 0, "what autonomy costs is shown");
});
