// `npm run install-matrix [-- --node 20,22 --npm 12 --what packed]`: installs DCNR as strangers would, in clean folders, with
// each Node, each npm, as a clone and as a package, and uses it. Whatever npm or DCNR says beyond what is asked for fails.

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { platformPackage, runNpm } from "../bin/newer-node.js";
import { makePackage } from "./package.ts";

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

/** All that one run needs: tools by version, and one package for all cells. */
export class Matrix {
  readonly #folder = mkdtempSync(join(tmpdir(), "dcnr-matrix-"));
  #tarball: Promise<string> | undefined;

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** What went wrong; undefined if nothing did. */
  async walk(cell: Cell): Promise<string | undefined> {
    const place = mkdtempSync(join(this.#folder, "cell-"));
    try {
      const run = this.#shell(cell, place);
      if (cell.what === "clone") this.#walkClone(run, place);
      else this.#walkPackage(run, place, await this.#package());
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

  #walkPackage(run: Run, place: string, tarball: string): void {
    const here = join(place, "empty");
    mkdirSync(here);
    run(here, "npm", "install", "--no-audit", "--no-fund", tarball);
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
    };
    return (cwd, command, ...args) => {
      const { status, stdout, stderr } = spawnSync(join(bin, command), args, { cwd, env, encoding: "utf8" });
      const said = `${command} ${args.join(" ")}: code ${status}\n${stdout.slice(-2_000)}\n${stderr.slice(-2_000)}`;
      if (status !== 0) throw new Error(said);
      if (/^\s+at .*:\d+:\d+\)?$/m.test(stderr)) throw new Error(`a stack trace: ${said}`);
      return { stdout, stderr };
    };
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
    options: { node: { type: "string" }, npm: { type: "string" }, what: { type: "string" } },
  });
  const matrix = new Matrix();
  let failures = 0;
  for (const what of (values.what?.split(",") ?? ["packed", "clone"]) as Kind[])
    for (const node of values.node?.split(",") ?? nodes)
      for (const npm of values.npm?.split(",") ?? npms) {
        // Each of both ways is met with every npm.
        const scriptsBlocked = Number(node) % 4 === 0;
        const failure = await matrix.walk({ node, npm, what, scriptsBlocked });
        if (failure) failures += 1;
        const title = `Node ${node}, npm ${npm}, ${what}${scriptsBlocked ? ", scripts blocked" : ""}`;
        console.log(`${failure ? "failed" : "ok    "}  ${title}${failure ? `\n${failure}` : ""}`);
      }
  matrix.close();
  process.exit(failures === 0 ? 0 : 1);
}
