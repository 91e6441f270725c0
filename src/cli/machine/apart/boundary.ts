// What the operating system keeps a PNode's process from, besides what Node's permission model does: on Linux, where it lets a user make
// name spaces, an empty network, a key file that is not there, no terminal, and of all other files what it needs (hiding.ts). Even native code that somebody
// runs in the process stays within that. Tried before it is relied upon; where it does not work, the reason is said, and what works is kept.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type Hiding, hidingScript, type KeptPath, type Plan, planHiding, usualPrograms } from "./hiding.ts";

export interface Boundary {
  /** Whether the system keeps network, key and terminals from it. */
  readonly isKept: boolean;
  /** And all files of the owner's that it has no use for. */
  readonly hidesFiles: boolean;
  /** One sentence for the owner. */
  readonly text: string;
  /** What to put before a command that is to run behind it. */
  readonly before: readonly string[];
}

function programAt(name: string): string | undefined {
  const folders = [...usualPrograms, ...(process.env["PATH"] ?? "").split(delimiter)];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/**
 * What to put before a command, so that it runs in an empty network and finds nothing of what is hidden. First as the root of a
 * space of its own, who may cover files; then as the user again in another one inside, who may not uncover them. Rights over
 * processes outside are lost with that, too: none of them can be looked into. Undefined where the programs are missing.
 */
function wayBehind(key: string, plan: Plan | undefined): string[] | undefined {
  const [unshare, mount, shell] = ["unshare", "mount", "sh"].map(programAt);
  const [user, group] = [process.getuid?.(), process.getgid?.()];
  if (process.platform !== "linux" || !unshare || !mount || !shell || user === undefined || group === undefined)
    return undefined;
  return [
    ...[unshare, "--user", "--map-root-user", "--net", "--mount", "--"],
    ...[shell, "-c", hidingScript(mount, key, plan), shell],
    ...[unshare, "--user", `--map-user=${user}`, `--map-group=${group}`, "--"],
  ];
}

/** In the process: nobody can be called, the key is not there, no terminal, no file of the owner's, and what it needs is. Written for `node -e`. */
const probe = `const fs = require("node:fs"), os = require("node:os"), tty = require("node:tty");
const { key, needed, hasOwnRoot, readOnly, writable } = JSON.parse(process.argv[1]);
for (const path of needed) fs.accessSync(path);
for (const path of writable) fs.accessSync(path, fs.constants.W_OK);
if (fs.readFileSync(key).length > 0) throw new Error("the key can still be read");
if (Object.keys(os.networkInterfaces()).length > 0) throw new Error("there still is a network");
if (fs.existsSync("/dev/pts") && fs.readdirSync("/dev/pts").length > 0) throw new Error("terminals can still be opened");
let terminal;
try { terminal = fs.openSync("/dev/tty", "r+") } catch {}
if (terminal !== undefined && tty.isatty(terminal)) throw new Error("its terminal can still be opened");
if (hasOwnRoot && fs.statfsSync("/").type !== 0x01021994) throw new Error("all files can still be read");
for (const path of readOnly) {
  let isOpen = true;
  try { fs.accessSync(path, fs.constants.W_OK) } catch { isOpen = false }
  if (isOpen) throw new Error(path + " can still be changed");
}
console.log("kept");`;

/** Windows has no other process than the one that its owner started. */
const given = process.platform === "win32" ? "no key and no network" : "no key, no network and no terminal";

/** What works here of it, tried; at best what hides files, too, where it is said which are kept. */
export function tryBoundary({ key, kept }: Hiding, needed: readonly string[] = []): Boundary {
  const without = (why: string): Boundary => ({
    ...{ isKept: false, hidesFiles: false, before: [] },
    text: `the process that computes is given ${given}, but the system does not keep it from them: ${why}`,
  });
  if (process.platform !== "linux") return without("only Linux has name spaces");
  if (wayBehind(key, undefined) === undefined) return without("the programs unshare and mount are not installed");
  const plan = kept && planHiding(kept);
  const hidden = plan && attempt(key, plan, needed);
  if (hidden?.before)
    return {
      ...{ isKept: true, hidesFiles: true, before: hidden.before },
      text: "the process that computes has no key, no network, no terminal and no files but its own: the system keeps them from it",
    };
  const { before, why } = attempt(key, undefined, needed);
  if (before === undefined) return without(why);
  const files = hidden
    ? `your other files can be read by native code in it: ${hidden.why}`
    : "your other files can be read by native code in it";
  return {
    ...{ isKept: true, hidesFiles: false, before },
    text: `the process that computes has no key, no network and no terminal: the system keeps them from it; ${files}`,
  };
}

function attempt(key: string, plan: Plan | undefined, needed: readonly string[]): { before?: string[]; why: string } {
  const before = wayBehind(key, plan) ?? [];
  const pathsOf = (isWritable: boolean) =>
    (plan?.kept ?? []).flatMap((one) => (one.isWritable === isWritable ? one.path : []));
  const facts = { key, needed, hasOwnRoot: plan !== undefined, readOnly: pathsOf(false), writable: pathsOf(true) };
  const [program = "", ...given] = [...before, process.execPath, "-e", probe, JSON.stringify(facts)];
  const { stdout, stderr, error } = spawnSync(program, given, { encoding: "utf8", timeout: 10_000, env: {} });
  if (stdout?.trim() === "kept") return { before, why: "" };
  const lines = (stderr ?? "").split("\n");
  const said =
    lines.find((line) => /^\w*Error: /.test(line)) ??
    lines.find((line) => /error|denied|permitted|fail|cannot|:/i.test(line));
  return { why: (said ?? error?.message ?? "name spaces do not work here").trim().slice(0, 200) };
}

/** For a machine that is not lent yet. */
export function examineBoundary(kept: readonly KeptPath[]): Boundary {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-boundary-"));
  try {
    const key = join(folder, "key");
    writeFileSync(key, "hidden", { mode: 0o600 });
    const all = [{ path: folder, isWritable: true }, { path: process.execPath, isWritable: false }, ...kept];
    return tryBoundary({ key, kept: all }, [folder]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
