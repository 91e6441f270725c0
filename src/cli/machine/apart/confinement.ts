// A PNode computes for strangers. So its process gives up what it does not need before it meets any of them: it starts
// itself anew (apart.ts) with Node's permission model, which lets it read its program and what the system says of the machine, read
// and write its own directory, and start no other program; and with an environment in which nothing of its owner's is
// left. This holds mistakes of ours in check, not somebody who already runs code of his own here: docs/threat-model.md.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { additionsFolder } from "../../../core/optional.ts";
import type { OptionSpec } from "../../command.ts";
import { environmentName, type Settings } from "../../flags/settings.ts";
import { lentHereFolder } from "../../lending/lent-here.ts";
import { presenceOf } from "../additions.ts";
import type { GpuLending } from "../lent-gpus.ts";
import { packagePath } from "../software.ts";
import type { KeptPath } from "./hiding.ts";

export interface Confined {
  /** The PNode's own, which exists. */
  readonly directory: string;
  /** Lent; 0 if there is no limit. */
  readonly memoryBytes: number;
  readonly gpus: GpuLending;
}

/** Whether this process has given up its rights already. */
export function isConfined(): boolean {
  return process.permission !== undefined;
}

/** Of the machine's files, what such a process has use for. */
export function filesOfPNode(directory: string): KeptPath[] {
  const additions = additionsFolder();
  // In which PNodes of this machine tell each other what they lend.
  const shared = madeHere(lentHereFolder(process.env));
  return [
    ...[...programFolders(packagePath(".")), ...(additions === undefined ? [] : [additions])].map(readOnly),
    ...[directory, ...shared].map((path) => ({ path, isWritable: true })),
  ];
}

/** What Node itself reads, which asks nobody for permission. */
export function filesOfNode(program: string): KeptPath[] {
  const compiled = process.env["NODE_COMPILE_CACHE"];
  return [process.execPath, program, ...(compiled === undefined ? [] : [compiled])].map(readOnly);
}

const readOnly = (path: string): KeptPath => ({ path, isWritable: false });

/** Node's flags for such a process. */
export function confinementFlags({ directory, memoryBytes }: Pick<Confined, "directory" | "memoryBytes">): string[] {
  const additions = additionsFolder();
  const files = filesOfPNode(directory);
  const readable = [
    ...files.map(({ path }) => path),
    ...(additions === undefined ? [] : [join(additions, "*")]),
    ...["/proc", "/sys"].filter((path) => existsSync(path)),
  ];
  const can = (flag: string) => process.allowedNodeEnvironmentFlags.has(flag);
  return [
    "--permission",
    ...readable.map((path) => `--allow-fs-read=${path}`),
    ...files.flatMap(({ path, isWritable }) => (isWritable ? `--allow-fs-write=${path}` : [])),
    // Engines run in threads; the native one is an addon.
    "--allow-worker",
    ...(presenceOf("native") === "not here" ? [] : ["--allow-addons"]),
    // From Node 25 on connections are a right too.
    ...(can("--allow-net") ? ["--allow-net"] : []),
    // Each of the above is warned of at every start.
    "--disable-warning=SecurityWarning",
    `--max-semi-space-size=${youngMebibytes}`,
    // Tensors lie outside of the heap, so half is more than it ever needs.
    `--max-old-space-size=${memoryBytes > 0 ? Math.max(heapMebibytesLeast, Math.floor(memoryBytes / 2 ** 21)) : heapMebibytesUsual}`,
  ];
}

/** Those of the gate, which computes nothing: its program, its directory, and connections. */
export function gateFlags(directory: string): string[] {
  const can = (flag: string) => process.allowedNodeEnvironmentFlags.has(flag);
  return [
    "--permission",
    ...[...programFolders(packagePath(".")), directory].map((path) => `--allow-fs-read=${path}`),
    `--allow-fs-write=${directory}`,
    ...(can("--allow-net") ? ["--allow-net"] : []),
    "--disable-warning=SecurityWarning",
    `--max-old-space-size=${gateMebibytes}`,
  ];
}

/** Those of the process before it, which passes text on. It speaks to nobody else, and starts the PNode with all that keeps that in. */
export const frontFlags: readonly string[] = ["--max-old-space-size=64", "--max-semi-space-size=1"];

/**
 * Of each of a young generation's halves, in each thread. Left to itself it grows to eight times as much under load and stays so: 79 MB of a PNode that
 * had answered 32 people, for a model of 60 MB (bench/results.md). What lives briefly here are small messages; tensors lie elsewhere.
 */
const youngMebibytes = 2;
/** What passes lies outside of the heap. */
const gateMebibytes = 256;
const heapMebibytesLeast = 512;
/** Where no limit of memory is lent: what V8 would take on a large machine. */
const heapMebibytesUsual = 4_096;

/** A right to what does not exist is none. Where it cannot be made, PNodes do without. */
function madeHere(path: string): string[] {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return [path];
  } catch {
    return [];
  }
}

/** What a PNode has use for: where things are, how to speak to the terminal, where traces go, which GPU is meant. */
const kept =
  /^(HOME|USERPROFILE|XDG_\w+|LANG|LC_\w+|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|LD_LIBRARY_PATH|NODE_COMPILE_CACHE|OTEL_\w+|ORT_\w+|DCNR_\w+|VK_\w+|MESA_\w+|CUDA_VISIBLE_DEVICES|DRI_PRIME)$/;
const secret = /key|secret|token|password/i;

/** The settings of a file, which cannot be read any more, become variables; keys and passwords stay behind. */
export function confinedEnvironment(
  environment: NodeJS.ProcessEnv,
  directory: string,
  settings: Pick<Settings, "fallback">,
  options: Readonly<Record<string, OptionSpec>>,
): NodeJS.ProcessEnv {
  const left = Object.entries(environment).filter(([name]) => kept.test(name) && !secret.test(name));
  const set = Object.keys(options).flatMap((name) => {
    const value = settings.fallback(name);
    return value === undefined ? [] : [[environmentName(name), String(value)]];
  });
  return { ...Object.fromEntries([...left, ...set]), DCNR_CONFIG: join(directory, "no-settings.yaml") };
}

/** The package, with the packages that it uses: beside it, below it, or elsewhere where the folder below it is a link. */
export function programFolders(packageFolder: string): string[] {
  const own = packageFolder.replace(/[/\\]$/, "");
  const modules = `${sep}node_modules${sep}`;
  const at = own.lastIndexOf(modules);
  if (at >= 0) return [own.slice(0, at + modules.length - 1)];
  const below = join(own, "node_modules");
  const linked = existsSync(below) ? realpathSync(below) : below;
  return linked === below ? [own] : [own, linked];
}
