// A Docker engine of our own in a network namespace that nothing leaves, and the image of deploy/Dockerfile, built there. No
// image is pulled: the base is a Debian made on this machine, with this machine's Node and npm. For root.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { chmod, copyFile, cp, mkdir, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { runCommand } from "../../src/system/commands.ts";
import { openDoor } from "./door.ts";
import { until } from "./scenario.ts";

const run = promisify(execFile);
const programs = ["dockerd", "docker", "debootstrap", "nsenter", "ip"];
const certificates = "/etc/ssl/certs/ca-certificates.crt";
/** Of the bridge in the namespace: containers call the orchestrator there. */
export const bridgeAddress = "10.78.0.1";
const bridge = `${bridgeAddress}/24`;
const doorPort = 3128;
const rawBytesMax = 64 << 20;
/** Layers can be kept between runs: a first build takes minutes. */
const keptData = process.env["DOCKER_DATA"];

/** Why it cannot be had here; undefined if it can. */
export async function dockerMissing(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "a Docker engine of our own needs root";
  for (const program of programs) {
    const { code } = await runCommand("sh", ["-c", `command -v ${program}`]);
    if (code !== 0) return `${program} is not installed here (Debian: docker.io, debootstrap, iproute2)`;
  }
  return undefined;
}

export interface DockerEngine {
  readonly socket: string;
  /** A command that runs in the engine's namespace. */
  inside(words: readonly string[]): [program: string, args: string[]];
  /** What `docker` prints. */
  docker(...words: string[]): Promise<string>;
  stop(): Promise<void>;
}

export async function startDocker(folder: string): Promise<DockerEngine> {
  const namespace = `dcnr-docker-${process.pid}`;
  const socket = join(folder, "docker.sock");
  const inside = (words: readonly string[]): [string, string[]] => [
    "nsenter",
    [`--net=/run/netns/${namespace}`, ...words],
  ];
  await run("ip", ["netns", "add", namespace]);
  await run("ip", ["-n", namespace, "link", "set", "lo", "up"]);
  const [program, args] = inside([
    ...["dockerd", "--data-root", keptData ?? join(folder, "data"), "--exec-root", join(folder, "exec")],
    ...["--pidfile", join(folder, "dockerd.pid"), "-H", `unix://${socket}`, "--bip", bridge],
    // There is nobody to be kept apart from in the namespace, and no way out of it.
    ...["--iptables=false", "--ip6tables=false", "--userland-proxy=false"],
  ]);
  const daemon = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const log = createWriteStream(join(folder, "dockerd.log"));
  daemon.stdout.pipe(log);
  daemon.stderr.pipe(log);
  const stop = async () => {
    await ended(daemon);
    // It leaves its own namespace mounted.
    await runCommand("umount", [join(folder, "exec/netns/default")]);
    await run("ip", ["netns", "delete", namespace]);
  };
  // Docker's own builder: newer clients have another one beside it, as a plugin that may be missing.
  const env = { ...process.env, DOCKER_BUILDKIT: "0" };
  const docker = async (...words: string[]) =>
    (await run("docker", ["-H", `unix://${socket}`, ...words], { maxBuffer: rawBytesMax, env })).stdout.trim();
  await until("the Docker engine answers", () =>
    docker("version").then(
      () => true,
      () => false,
    ),
  ).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return { socket, inside, docker, stop };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await exit;
}

/** A Debian with nothing but what is essential is kept between runs: it takes minutes. */
async function debian(): Promise<string> {
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "dcnr", "debian-bookworm");
  const isThere = await stat(cache).then(
    () => true,
    () => false,
  );
  if (isThere) return cache;
  const making = `${cache}-${process.pid}`;
  await run("debootstrap", ["--variant=minbase", "bookworm", making, "http://deb.debian.org/debian"], {
    maxBuffer: rawBytesMax,
  });
  await rename(making, cache);
  return cache;
}

/** What `node:24-bookworm-slim` has: Debian, Node, npm; and this machine's certificates. */
async function buildBase({ docker }: DockerEngine, folder: string, tag: string): Promise<void> {
  if ((await docker("images", "-q", tag)) !== "") return;
  const root = join(folder, "base");
  await run("cp", ["-a", await debian(), root]);
  await mkdir(join(root, "usr/local/lib/node_modules"), { recursive: true });
  await copyFile(process.execPath, join(root, "usr/local/bin/node"));
  await chmod(join(root, "usr/local/bin/node"), 0o755);
  const { stdout } = await run("sh", ["-c", 'realpath "$(command -v npm)"']);
  await cp(dirname(dirname(stdout.trim())), join(root, "usr/local/lib/node_modules/npm"), { recursive: true });
  await run("ln", ["-s", "../lib/node_modules/npm/bin/npm-cli.js", join(root, "usr/local/bin/npm")]);
  await mkdir(dirname(join(root, certificates)), { recursive: true });
  await copyFile(certificates, join(root, certificates));
  const archive = join(folder, "base.tar");
  await run("tar", ["-C", root, "-cf", archive, "."]);
  await docker("import", "--change", `ENV NODE_EXTRA_CA_CERTS=${certificates}`, archive, tag);
  await rm(root, { recursive: true });
  await rm(archive);
}

/** Nothing is reached from the build but the registry that npm uses on this machine. `target`: only up to that stage. */
export async function buildImage(engine: DockerEngine, folder: string, tag: string, target?: string): Promise<void> {
  await buildBase(engine, folder, "dcnr-base");
  const { stdout } = await run("npm", ["config", "get", "registry"], { cwd: "/" });
  const door = await openDoor(join(folder, "door.sock"), new URL(stdout.trim()).hostname);
  const [program, args] = engine.inside([
    process.execPath,
    resolve(import.meta.dirname, "door.ts"),
    String(doorPort),
    join(folder, "door.sock"),
  ]);
  const threshold = spawn(program, args, { stdio: "ignore" });
  const proxy = `http://127.0.0.1:${doorPort}`;
  try {
    await engine.docker(
      ...["build", "--network", "host", "--build-arg", "BASE=dcnr-base", "--build-arg", `HTTPS_PROXY=${proxy}`],
      ...(target === undefined ? [] : ["--target", target]),
      ...["--file", "deploy/Dockerfile", "--tag", tag, "."],
    );
  } finally {
    await ended(threshold);
    door.close();
  }
}
