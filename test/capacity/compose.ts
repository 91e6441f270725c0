// deploy/compose.yaml as it stands: two orchestrators on PostgreSQL and S3 and three PNodes come up as containers, train, lose a
// PNode and an orchestrator in the middle, come to the undisturbed root, and leave nothing behind. Runs where docker.io,
// docker-compose and debootstrap are installed and we are root; images of others are stood in for (compose-images.ts).

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { runCommand } from "../../src/system/commands.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { makeStandIns } from "./compose-images.ts";
import { buildImage, type DockerEngine, dockerMissing, startDocker } from "./docker-engine.ts";
import { until } from "./scenario.ts";

const missing = (await dockerMissing()) ?? (await composeMissing());
const buildStage = "dcnr:build-stage";

async function composeMissing(): Promise<string | undefined> {
  const { code } = await runCommand("sh", ["-c", "command -v docker-compose"]);
  return code === 0 ? undefined : "docker-compose is not installed here (Debian: docker-compose)";
}

interface Session {
  readonly id: string;
  readonly status: string;
  readonly line: number;
  readonly stepRoot: string;
}

describe("deploy/compose.yaml", { skip: missing ?? false }, () => {
  let folder: string;
  let engine: DockerEngine;
  let file: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "dcnr-compose-"));
    engine = await startDocker(folder);
    await buildImage(engine, folder, "dcnr:0.1.0");
    await buildImage(engine, folder, buildStage, "build");
    await makeStandIns(engine, folder, buildStage);
    // Debian's docker-compose is older than the file's `name`, which is said on the command line instead.
    file = join(folder, "compose.yaml");
    await writeFile(file, (await readFile("deploy/compose.yaml", "utf8")).replace(/^name: dcnr$/m, ""));
  });
  after(async () => {
    await engine?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const compose = async (words: readonly string[], input = "") => {
    const common = [
      "-H",
      `unix://${engine.socket}`,
      "--project-name",
      "dcnr",
      "--project-directory",
      resolve("deploy"),
    ];
    const options = { input, timeoutMs: 300_000 };
    const { code, out, err } = await runCommand("docker-compose", [...common, "-f", file, ...words], options);
    assert.equal(code, 0, `docker-compose ${words.join(" ")}: ${err}`);
    return out.trim();
  };
  const inside = (words: readonly string[], input = "") => compose(["exec", "-T", "orchestrator-a", ...words], input);
  const session = async (...words: string[]) => JSON.parse(await inside(["dcnr", ...words, "--json"])) as Session;

  it("comes up, trains through kills to the undisturbed root, and goes without a trace", async () => {
    await compose(["up", "-d", "--no-build"]);
    try {
      await until("all three PNodes are here", async () => {
        const nodes = JSON.parse(await inside(["dcnr", "nodes", "--json"]).catch(() => "[]")) as { status: string }[];
        return nodes.filter(({ status }) => status === "online").length === 3;
      });
      const { inputs, labels } = smallSamples();
      const rows = inputs.map((one, index) => JSON.stringify({ inputs: one, labels: labels[index] })).join("\n");
      await inside(["sh", "-c", "cat > /tmp/small.yaml"], smallNetwork);
      await inside(["sh", "-c", "cat > /tmp/pairs.jsonl"], rows);
      await inside(["dcnr", "network", "create", "/tmp/small.yaml"]);
      await inside(["dcnr", "dataset", "add", "pairs", "/tmp/pairs.jsonl"]);
      const words = ["train", "small", "--dataset", "pairs", "--split", "all", "--batch", "8", "--steps", "600"];
      const calm = await session(...words, "--spread", "3");
      assert.equal(calm.status, "done");
      const { id } = await session(...words, "--spread", "2", "--detach");
      await until("it trains", async () => (await session("session", "show", id)).line >= 20);
      await compose(["kill", "birch", "orchestrator-b"]);
      const troubled = await session("session", "watch", id);
      assert.deepEqual([troubled.status, troubled.stepRoot], ["done", calm.stepRoot]);
    } catch (thrown) {
      console.error(await compose(["logs", "--tail", "30"]));
      throw thrown;
    } finally {
      await compose(["down", "--volumes"]);
    }
    assert.equal(await engine.docker("ps", "-aq"), "");
    assert.equal(await engine.docker("volume", "ls", "-q"), "");
  });
});
