// `npm run install-matrix [-- --node 20,22 --npm 12 --what packed,single,clone --package FILE]`: installs DCNR as strangers would, in clean folders, with
// each Node, each npm, as a clone and as a package, and uses it; and the single file where there is no Node at all.
// Whatever npm or DCNR says beyond what is asked for fails.

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { platformPackage, runNpm } from "../bin/newer-node.js";
import { bytesIn } from "../src/cli/machine/additions.ts";
import { makePackage } from "./package.ts";
import { makeSingleFile } from "./single-file.ts";

export type Kind = "clone" | "packed";

export interface Cell {
  readonly node: string;
  readonly npm: string;
  readonly what: Kind;
  /** As careful people have it, and as npm 12 does for packages. */
  readonly scriptsBlocked: boolean;
}

const root = join(import.meta.dirname, "..");
const nodes = ["20", "22", "24", "26"];
const npms = ["10", "11", "12"];
/** What a volunteer installs, with everything it depends on. */
const installedBytesMax = 60_000_000;

/** How this machine reaches a registry, which is no part of what is tried: a proxy, a mirror, a certificate of its own. */
function reach(): Record<string, string> {
  const names = ["NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
  const found = names.flatMap((name) => [name, name.toLowerCase()]).map((name) => [name, process.env[name]]);
  const settings = ["cafile", "registry"].map((name) => {
    const { stdout } = spawnSync("npm", ["config", "get", name], { encoding: "utf8", cwd: tmpdir() });
    return [`NPM_CONFIG_${name.toUpperCase()}`, stdout.trim()];
  });
  return Object.fromEntries([...found, ...settings].filter(([, value]) => value && value !== "null"));
}

/** All that one run needs: tools by version, and one package for all cells. */
export class Matrix {
  readonly #folder = mkdtempSync(join(tmpdir(), "dcnr-matrix-"));
  readonly #reach = reach();
  #tarball: Promise<string> | undefined;

  /** `tarball`: a package that was made before. */
  constructor(tarball?: string) {
    if (tarball !== undefined) this.#tarball = Promise.resolve(tarball);
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** What went wrong; undefined if nothing did. */
  walk(cell: Cell): Promise<string | undefined> {
    return this.#within(async (place) => {
      const run = this.#shell(cell, place);
      if (cell.what === "clone") this.#walkClone(run, place);
      else await this.#walkPackage(run, place, await this.#package());
    });
  }

  /** The single file where PATH has neither Node nor npm. */
  walkSingleFile(): Promise<string | undefined> {
    return this.#within(async (place) => {
      const file = await makeSingleFile(`${process.platform}-${process.arch}`, place);
      const home = join(place, "home");
      const bin = join(place, "bin");
      for (const folder of [home, bin]) mkdirSync(folder);
      for (const tool of ["sh", "uname", "mkdir", "tail", "tar", "gzip", "mv", "rm"])
        symlinkSync(execFileSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).trim(), join(bin, tool));
      const run = runner({ PATH: bin, HOME: home, LANG: "C.UTF-8" });
      onlyOurs(run(place, file, "--version"));
      expect(run(place, file, "simulate", "--seeds", "1", "--workers", "1"), /\b1\b/);
    });
  }

  async #within(walk: (place: string) => Promise<void>): Promise<string | undefined> {
    const place = mkdtempSync(join(this.#folder, "cell-"));
    try {
      await walk(place);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    } finally {
      rmSync(place, { recursive: true, force: true });
    }
  }

  #walkClone(run: Run, place: string): void {
    execFileSync("git", ["clone", "--quiet", root, join(place, "clone")]);
    const here = join(place, "clone");
    expect(run(here, "npm", "start", "--", "--steps", "4", "--no-kill"), /going on with/);
    expect(run(here, "npm", "test", "--", "test/lockfile.test.ts", "test/architecture.test.ts"), /fail 0/);
    onlyOurs(run(here, "npx", "dcnr", "--version"));
  }

  async #walkPackage(run: Run, place: string, tarball: string): Promise<void> {
    const here = join(place, "empty");
    mkdirSync(here);
    run(here, "npm", "install", "--no-audit", "--no-fund", tarball);
    const size = await bytesIn(here);
    if (size > installedBytesMax) throw new Error(`${size} bytes were installed`);
    // With an old Node the first start says that it fetches a newer one.
    run(here, "npx", "dcnr", "--version");
    onlyOurs(run(here, "npx", "dcnr", "--version"));
    const seen = run(here, "npx", "dcnr", "simulate", "--seeds", "1", "--workers", "1");
    expect(seen, /\b1\b/);
  }

  #package(): Promise<string> {
    this.#tarball ??= makePackage(this.#folder);
    return this.#tarball;
  }

  /** Node of a version and npm of a version, and nothing else of this machine but its system's programs. */
  #shell(cell: Cell, place: string): Run {
    const bin = join(place, "bin");
    const home = join(place, "home");
    for (const folder of [bin, home]) mkdirSync(folder);
    const name = platformPackage();
    const node = join(this.#fetched(name, cell.node), name, "bin", "node");
    const npm = join(this.#fetched("npm", cell.npm), "npm", "bin");
    symlinkSync(node, join(bin, "node"));
    for (const tool of ["npm", "npx"]) {
      writeFileSync(join(bin, tool), `#!/bin/sh\nexec "${node}" "${join(npm, `${tool}-cli.js`)}" "$@"\n`);
      chmodSync(join(bin, tool), 0o755);
    }
    const userConfig = join(home, ".npmrc");
    writeFileSync(userConfig, cell.scriptsBlocked ? "ignore-scripts=true\n" : "");
    const env = {
      PATH: `${bin}:/usr/bin:/bin`,
      HOME: home,
      XDG_CACHE_HOME: join(this.#folder, `cache-${cell.node}`),
      NPM_CONFIG_CACHE: process.env["NPM_CONFIG_CACHE"] ?? join(process.env["HOME"] ?? "", ".npm"),
      NPM_CONFIG_USERCONFIG: userConfig,
      NPM_CONFIG_PREFER_OFFLINE: "true",
      NPM_CONFIG_UPDATE_NOTIFIER: "false",
      LANG: "C.UTF-8",
      ...this.#reach,
    };
    return runner(env);
  }

  #fetched(name: string, version: string): string {
    const folder = join(this.#folder, `${name}-${version}`);
    if (!existsSync(folder)) {
      mkdirSync(folder);
      writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
      const failure = runNpm(
        ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", `${name}@${version}`],
        folder,
      );
      if (failure !== undefined) throw new Error(`${name}@${version} cannot be fetched: ${failure}`);
    }
    return join(folder, "node_modules");
  }
}

interface Said {
  readonly stdout: string;
  readonly stderr: string;
}

type Run = (cwd: string, command: string, ...args: string[]) => Said;

function runner(env: Record<string, string>): Run {
  return (cwd, command, ...args) => {
    const program = command.includes("/") ? command : join(env["PATH"]?.split(":")[0] ?? "", command);
    const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: "utf8" });
    const said = `${command} ${args.join(" ")}: code ${status}\n${stdout.slice(-2_000)}\n${stderr.slice(-2_000)}`;
    if (status !== 0) throw new Error(said);
    if (/^\s+at .*:\d+:\d+\)?$/m.test(stderr)) throw new Error(`a stack trace: ${said}`);
    return { stdout, stderr };
  };
}

function expect({ stdout, stderr }: Said, pattern: RegExp): void {
  if (!pattern.test(stdout + stderr)) throw new Error(`${pattern} was not said, but: ${stdout}${stderr}`);
}

/** npm 12 says which command it runs, and that it does not support Node 20, whatever it is asked to do. */
const npmOfItself = /^npm (warn cli npm v\S+ does not support Node\.js|notice run) .*\n/gm;

function onlyOurs({ stdout, stderr }: Said): void {
  const others = stderr
    .replace(npmOfItself, "")
    .replace(/^no orchestrator answers .*\n/m, "")
    .trim();
  if (!/^dcnr \d/.test(stdout) || others !== "") throw new Error(`more was said than dcnr says: ${stdout}${stderr}`);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      ...{ node: { type: "string" }, npm: { type: "string" }, what: { type: "string" } },
      package: { type: "string" },
    },
  });
  const kinds = values.what?.split(",") ?? ["packed", "single", "clone"];
  const matrix = new Matrix(values.package && resolve(values.package));
  let failures = 0;
  const tell = async (title: string, walk: () => Promise<string | undefined>) => {
    const began = Date.now();
    const failure = await walk();
    if (failure) failures += 1;
    const seconds = ((Date.now() - began) / 1_000).toFixed(0);
    console.log(`${failure ? "failed" : "ok    "}  ${title} (${seconds} s)${failure ? `\n${failure}` : ""}`);
  };
  for (const what of ["packed", "clone"] as const)
    for (const node of values.node?.split(",") ?? nodes)
      for (const npm of values.npm?.split(",") ?? npms) {
        if (!kinds.includes(what)) continue;
        // Each of both ways is met with every npm.
        const scriptsBlocked = Number(node) % 4 === 0;
        await tell(`Node ${node}, npm ${npm}, ${what}${scriptsBlocked ? ", scripts blocked" : ""}`, () =>
          matrix.walk({ node, npm, what, scriptsBlocked }),
        );
      }
  if (kinds.includes("single")) await tell("the single file, no Node", () => matrix.walkSingleFile());
  matrix.close();
  process.exit(failures === 0 ? 0 : 1);
}
