// Machines on demand from a real Docker engine, with the image that deploy/Dockerfile makes. Runs where docker.io and debootstrap
// are installed and we are root.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { providerConformance } from "../../src/providers/conformance.ts";
import { nothing, smallOffer } from "../../src/providers/fakes.testing.ts";
import { openProvider } from "../../src/providers/kinds.ts";
import { httpCall } from "../../src/system/wires/http-call.ts";
import { buildImage, type DockerEngine, dockerMissing, startDocker } from "./docker-engine.ts";

const missing = await dockerMissing();
const image = "dcnr:test";
/** The same, with something in its place that waits to be ended: the suite's links lead nowhere. */
const standIn = "dcnr:stand-in";
const waiting = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"];

describe("a real Docker engine", { skip: missing ?? false }, () => {
  let folder: string;
  let engine: DockerEngine;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "dcnr-docker-"));
    engine = await startDocker(folder);
    await buildImage(engine, folder, image);
    const container = await engine.docker("create", image);
    await engine.docker("commit", "--change", `ENTRYPOINT ${JSON.stringify(waiting)}`, container, standIn);
    await engine.docker("rm", container);
  });
  after(async () => {
    await engine?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it("has built an image that runs as a user without rights on a file system that cannot be written", async () => {
    const { docker } = engine;
    const confined = ["run", "--rm", "--read-only", "--cap-drop", "ALL", "--network", "none"];
    assert.match(await docker(...confined, image, "version"), /0\.1\.0/);
    assert.equal(await docker(...confined, "--entrypoint", "id", image, "-u"), "10001");
    const engines = await docker(...confined, image, "engine", "list", "--json");
    assert.doesNotMatch(engines, /not here/, "that user reads what was added to the image");
    await assert.rejects(docker(...confined, "--entrypoint", "touch", image, "/app/x"), /Read-only file system/);
    const writable = ["run", "--rm", "--network", "none", "--entrypoint", "touch", image];
    await assert.rejects(docker(...writable, "/app/x"), /Permission denied/);
  });

  describe("as every provider", () => {
    const settings = (cluster: string) => ({
      ...{ kind: "docker", parameters: { socket: engine.socket, image: standIn }, cluster, provider: "lab" },
      offers: [smallOffer],
    });
    const tools = { ...nothing, http: httpCall };
    providerConformance(async () => ({
      provider: openProvider(settings("net1"), tools),
      foreign: openProvider(settings("net2"), tools),
      kill: async ({ handle }) => void (await engine.docker("kill", handle)),
      close: async () => {},
    }));
  });

  it("runs PNodes that train, loses one, and has none left at the end", async () => {
    const script = resolve(import.meta.dirname, "docker-training.ts");
    const [program, args] = engine.inside([process.execPath, script, engine.socket, image]);
    await promisify(execFile)(program, args);
    assert.equal(await engine.docker("ps", "-aq"), "");
  });
});
