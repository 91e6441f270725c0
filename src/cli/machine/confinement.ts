// A PNode computes for strangers. So its process gives up what it does not need before it meets any of them: it starts
// itself anew with Node's permission model, which lets it read its program and what the system says of the machine, read
// and write its own directory, and start no other program; and with an environment in which nothing of its owner's is
// left. This holds mistakes of ours in check, not somebody who already runs code of his own here: docs/threat-model.md.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { additionsFolder } from "../../core/optional.ts";
import type { OptionSpec } from "../command.ts";
import { environmentName, type Settings } from "../flags/settings.ts";
import { lentHereFolder } from "../lending/lent-here.ts";
import { presenceOf } from "./additions.ts";
import { findLentGpus, type GpuLending } from "./lent-gpus.ts";
import { packagePath } from "./software.ts";

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

/** Node's flags for such a process. */
export function confinementFlags({ directory, memoryBytes }: Pick<Confined, "directory" | "memoryBytes">): string[] {
  const additions = additionsFolder();
  // In which PNodes of this machine tell each other what they lend.
  const shared = madeHere(lentHereFolder(process.env));
  const readable = [
    ...programFolders(packagePath(".")),
    directory,
    ...shared,
    ...(additions === undefined ? [] : [additions, join(additions, "*")]),
    ...["/proc", "/sys"].filter((path) => existsSync(path)),
  ];
  const can = (flag: string) => process.allowedNodeEnvironmentFlags.has(flag);
  return [
    "--permission",
    ...readable.map((path) => `--allow-fs-read=${path}`),
    `--allow-fs-write=${directory}`,
    ...shared.map((path) => `--allow-fs-write=${path}`),
    // Engines run in threads; the native one is an addon.
    "--allow-worker",
    ...(presenceOf("native") === "not here" ? [] : ["--allow-addons"]),
    // From Node 25 on connections are a right too.
    ...(can("--allow-net") ? ["--allow-net"] : []),
    // Each of the above is warned of at every start.
    "--disable-warning=SecurityWarning",
    // Tensors lie outside of the heap, so half is more than it ever needs.
    ...(memoryBytes > 0 ? [`--max-old-space-size=${Math.max(heapMebibytesLeast, memoryBytes / 2 ** 21) | 0}`] : []),
  ];
}

const heapMebibytesLeast = 512;

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

/**
 * Starts this program anew in this very process, with less. Returns where that is not possible: on Windows, and for a
 * child that talks with its parent, which starts it with less in the first place.
 */
export async function confine(
  confined: Confined,
  settings: Settings,
  options: Readonly<Record<string, OptionSpec>>,
): Promise<void> {
  if (isConfined() || process.execve === undefined || process.platform === "win32" || process.send) return;
  await findLentGpus(confined.directory, confined.gpus);
  const [, program = "", ...words] = process.argv;
  process.execve(
    process.execPath,
    [process.execPath, ...process.execArgv, ...confinementFlags(confined), program, ...words],
    confinedEnvironment(process.env, confined.directory, settings, options),
  );
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
