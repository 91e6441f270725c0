// Machines on demand from a real Slurm with two nodes and fake GPUs. Runs where Slurm and munge are installed and we are root.

import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { providerConformance } from "../../src/providers/conformance.ts";
import { nothing, smallOffer } from "../../src/providers/fakes.testing.ts";
import { openProvider } from "../../src/providers/kinds.ts";
import { runCommand } from "../../src/system/commands.ts";
import { bounds, comeTrainDieAndGo, freePort, until, withOrchestrator } from "./scenario.ts";
import { type SlurmCluster, slurmMissing, startSlurm } from "./slurm-cluster.ts";

const missing = await slurmMissing();
const folder = await mkdtemp(join(tmpdir(), "dcnr-slurm-"));
const parameters = { partition: "lab", program: resolve("bin/dcnr.js"), folder };

async function queued(): Promise<string[]> {
  const { out } = await runCommand("squeue", ["--noheader", "--array", "--format=%i|%j"]);
  return out.split("\n").filter(Boolean);
}

describe("a real Slurm", { skip: missing ?? false }, () => {
  let cluster: SlurmCluster;
  before(async () => {
    cluster = await startSlurm(folder, await freePort());
    Object.assign(process.env, cluster.environment);
  });
  after(async () => {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  });

  describe("as every provider", () => {
    const program = join(folder, "dcnr");
    const offers = [{ ...smallOffer, gpus: 1, gpuType: "fake" }];
    const settings = (name: string) => ({
      kind: "slurm",
      parameters: { ...parameters, program },
      cluster: name,
      provider: "lab",
      offers,
    });
    const tools = { ...nothing, command: runCommand };
    providerConformance(async () => {
      await writeFile(program, "#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 1; done\n");
      await chmod(program, 0o755);
      return {
        provider: openProvider(settings("net1"), tools),
        foreign: openProvider(settings("net2"), tools),
        kill: async ({ handle }) => void (await runCommand("scancel", ["--signal=KILL", "--full", handle])),
        close: async () => {},
      };
    });
  });

  it("runs PNodes that train, loses one, and has none left at the end", () =>
    withOrchestrator("slurm", (world) =>
      comeTrainDieAndGo(
        world,
        {
          ...{ name: "lab", kind: "slurm", parameters },
          offers: [{ name: "small", cores: 1, memoryBytes: 1n << 30n, most: 2, bootSeconds: 30 }],
        },
        async ({ id }) => {
          const [batch, index] = id.split("-");
          const line = (await queued()).find(
            (one) => one.endsWith(`.${batch}`) && one.split("|")[0]?.endsWith(`_${index}`),
          );
          await runCommand("scancel", ["--signal=KILL", "--full", line?.split("|")[0] ?? ""]);
        },
        async () => (await queued()).length,
      ),
    ));

  it("is found out when its GPUs are not what it says", () =>
    withOrchestrator("slurm", async ({ client }) => {
      // A GPU that is a file computes nothing, and the PNode there finds none.
      const liar = {
        name: "gpu",
        cores: 1,
        memoryBytes: 1n << 30n,
        gpus: 1,
        gpuType: "fake",
        most: 1,
        bootSeconds: 30,
      };
      const limits = { ...bounds, least: 1 };
      await client.providers.add({ name: "lab", kind: "slurm", parameters, offers: [liar], limits });
      await until("the offer is blocked", async () => {
        const [lab] = await client.providers.list();
        return /1 GPU\(s\) were offered, 0 came/.test(lab?.offers[0]?.blocked ?? "");
      });
      await until("it is gone", async () => (await queued()).length === 0);
      assert.deepEqual(await queued(), []);
    }));
});
