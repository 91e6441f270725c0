// The tests of ray.ts, in a namespace with nothing but loopback.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { providerConformance } from "../../src/providers/conformance.ts";
import { nothing, smallOffer } from "../../src/providers/fakes.testing.ts";
import { openProvider } from "../../src/providers/kinds.ts";
import { httpCall } from "../../src/system/wires/http-call.ts";
import { comeTrainDieAndGo, freePort, pidsOf, withOrchestrator } from "./scenario.ts";

const run = promisify(execFile);
const ray = process.env["RAY"] || "ray";
const token = "a-token-of-a-test-that-nobody-else-has";

describe("a real Ray", () => {
  let folder: string;
  let address: string;
  let parameters: Record<string, string>;
  before(async () => {
    // Ray's sockets have long names, and the kernel takes 107 characters.
    folder = await mkdtemp("/tmp/ray-");
    await writeFile(join(folder, "token"), token, { mode: 0o600 });
    const port = await freePort();
    address = `http://127.0.0.1:${port}`;
    parameters = { address, "token-file": join(folder, "token"), program: resolve("bin/dcnr.js") };
    const auth = { RAY_AUTH_MODE: "token", RAY_AUTH_TOKEN: token };
    await run(
      ray,
      [
        ...["start", "--head", "--node-ip-address", "127.0.0.1", "--port", String(await freePort())],
        ...["--dashboard-host", "127.0.0.1", "--dashboard-port", String(port), "--num-cpus", "4", "--num-gpus", "2"],
        ...["--object-store-memory", "100000000", "--temp-dir", folder, "--disable-usage-stats"],
      ],
      { env: { ...process.env, ...auth } },
    );
  });
  after(async () => {
    await run(ray, ["stop", "--force"]);
    await rm(folder, { recursive: true, force: true });
  });
  const tools = { ...nothing, http: httpCall, readFile: (path: string) => readFile(path, "utf8") };
  const settings = (cluster: string, more: Record<string, string> = {}) => ({
    ...{ kind: "ray", parameters: { ...parameters, ...more }, cluster, provider: "lab" },
    offers: [smallOffer],
  });

  describe("as every provider", () => {
    providerConformance(async () => {
      const program = join(folder, "dcnr");
      await writeFile(program, "#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 1; done\n");
      await chmod(program, 0o755);
      return {
        provider: openProvider(settings("net1", { program }), tools),
        foreign: openProvider(settings("net2", { program }), tools),
        kill: async ({ instance }) => {
          for (const pid of await pidsOf(`lab-${instance}`)) process.kill(pid, "SIGKILL");
        },
        close: async () => {},
      };
    });
  });

  it("says so when the token is another", async () => {
    await writeFile(join(folder, "other"), "another-token");
    const [, finding] = await openProvider(settings("net1", { "token-file": join(folder, "other") }), tools).test();
    assert.match(finding?.sentence ?? "", /does not take the token/);
  });

  it("runs PNodes that train, loses one, and has none left at the end", () =>
    withOrchestrator("ray", (world) =>
      comeTrainDieAndGo(
        world,
        {
          ...{ name: "far", kind: "ray", parameters },
          offers: [{ name: "small", cores: 1, memoryBytes: 1n << 30n, most: 2, bootSeconds: 60 }],
        },
        async ({ id }) => {
          for (const pid of await pidsOf(`-far-${id}`)) process.kill(pid, "SIGKILL");
        },
        async () => (await pidsOf("--provider far")).length,
      ),
    ));
});
