// The Python client against a live network, if there is a Python: the notebook-like example runs whole, and what it stores
// is what our own client stores.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { addSamples } from "../src/client/samples.ts";
import { withNetwork } from "./e2e/world.ts";

const run = promisify(execFile);
const python = process.env["DCNR_TEST_PYTHON"] ?? "python3";
const environment = { ...process.env, PYTHONPATH: "python", PYTHONDONTWRITEBYTECODE: "1" };

const found = spawnSync(python, ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]).status === 0;
const skip = !found && `SKIPPED: ${python} is no Python 3.9 or newer, so its client was not tried`;
if (skip) console.log(`\n!! ${skip}; DCNR_TEST_PYTHON names another interpreter\n`);

describe("the Python client", { skip }, () => {
  test("cuts arrays into datasets", async () => {
    await run(python, ["-m", "unittest", "discover", "-s", "python/tests"], { env: environment, timeout: 120_000 });
  });

  test("trains and asks on a live network, and stores datasets as ours does", async () => {
    await withNetwork(1, async ({ client, local }) => {
      const { address } = local.orchestrator;
      const { stdout } = await run(python, ["python/examples/circle.py", address], {
        env: environment,
        timeout: 300_000,
      });
      assert.match(stdout, /maple is online/);
      assert.match(stdout, /400 samples, splits train, validation/);
      const root = /step root ([0-9a-f]{64})/.exec(stdout)?.[1];
      const session = (await client.sessions.list()).find(({ settings }) => settings?.dataset === "python-circle");
      assert.equal(session?.stepRoot, root);
      assert.match(stdout, /\[0, 0\] is inside/);
      assert.match(stdout, /\[0.95, 0.95\] is outside/);
      const inputs = Array.from({ length: 400 }, (_, i) => [((i % 20) - 9.5) / 10, (Math.floor(i / 20) - 9.5) / 10]);
      const labels = inputs.map(([x = 0, y = 0]) => (x * x + y * y < 0.8 ? "inside" : "outside"));
      const ours = await addSamples(client, "our-circle", { inputs, labels }, { validationShare: 0.2 });
      const theirs = (await client.datasets.list()).find(({ name }) => name === "python-circle");
      assert.equal(theirs?.hash, ours.hash, "one content, one dataset, whoever stores it");
    });
  });

  test("says in a sentence what is wrong", async () => {
    const script =
      "import dcnr\ntry: dcnr.connect('127.0.0.1:1').pnodes()\nexcept dcnr.DcnrError as e: print(e.code, e)";
    const { stdout } = await run(python, ["-c", script], { env: environment });
    assert.match(stdout, /^unavailable no orchestrator answers at 127.0.0.1:1 .*dcnr up/);
  });
});
