// What of the machine's files a PNode's process finds at all, on Linux: a root of its own, in memory, with the system's programs and
// libraries, its own program wherever that lies, all of these read-only, its own directory, and of the devices those that compute. What is
// not named here is not there, so no program of the owner's can be spoken to that waits at a socket, wherever such a socket lies
// (sessions, containers, databases, agents with keys), and no terminal. Node's permission model says the same of files to JavaScript;
// this holds for native code.

import { existsSync, globSync, lstatSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, sep } from "node:path";

export interface KeptPath {
  readonly path: string;
  readonly isWritable: boolean;
}

export interface Hiding {
  /** A file that is found empty: the machine's key. */
  readonly key: string;
  /** Found as they are. Absent: everything else is. */
  readonly kept?: readonly KeptPath[];
}

/** Programs, libraries and their settings, of all kinds of Linux. */
const systemFolders = [
  ...["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"],
  ...["/nix/store", "/gnu/store", "/snap"],
];
/** What drivers find only there (NixOS). */
const usualKept = ["/run/opengl-driver", "/run/opengl-driver-32", "/run/current-system", "/run/booted-system"];
/** Of what the system tells of itself, what root could change it by. */
const systemState = ["/sys", "/proc/sys", "/proc/sysrq-trigger"];
/** Where the system has its programs. */
export const usualPrograms = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"];
const usualDevices = ["null", "zero", "full", "random", "urandom"];
/** As drivers of GPUs and their like name what they are spoken to by. */
const computingDevices = /^(nvidia.*|nvhost.*|nvmap|nvgpu|dri|kfd|dxg|mali.*|accel.*|dma_heap|udmabuf)$/;
/** Empty, for what libraries leave there. */
const emptyFolders = ["/tmp", "/var/tmp", "/run", "/dev/shm"];
/** Whoever keeps one of these keeps what many have there. */
const crowdedFolders = ["/home", "/root", "/run", "/tmp", "/var/tmp", "/var/lib"];
/** Where the new root can stand until it is one. */
const stages = ["/mnt", "/media", "/srv", "/opt", "/boot", "/var/tmp", "/tmp", "/home", "/root", "/run"];
/** Drivers leave a little there. Memory, which nobody counts. */
const emptyRoot = "-t tmpfs -o mode=0755,size=16m none";

export interface Plan {
  /** An empty folder as far as the rest of the plan goes. */
  readonly stage: string;
  /** There as they are: what the system tells of processes, and devices. */
  readonly asTheyAre: readonly string[];
  /** By their true names, outer ones before what lies in them. */
  readonly kept: readonly KeptPath[];
  /** Mounted within what is read-only: each has rights of its own. */
  readonly within: readonly string[];
  /** Other names of what is kept, with the true ones. */
  readonly links: readonly (readonly [string, string])[];
  readonly empty: readonly string[];
}

/** Undefined where there is no place to do it, or what is kept is more than a process should have. */
export function planHiding(given: readonly KeptPath[], home = homedir()): Plan | undefined {
  const found = [...systemFolders, ...usualKept, ...systemState, ...libraryFolders()];
  const all = new Map<string, KeptPath>();
  const links = new Map<string, string>();
  for (const one of [...found.map((path) => ({ path, isWritable: false })), ...given]) {
    if (!one.path.startsWith(sep) || !existsSync(one.path)) continue;
    const path = realpathSync(one.path);
    if (path !== one.path) links.set(one.path, path);
    all.set(path, { path, isWritable: one.isWritable || (all.get(path)?.isWritable ?? false) });
  }
  const kept = [...all.values()].sort((one, other) => one.path.length - other.path.length);
  const asTheyAre = ["/proc", ...devices()];
  const known = [...kept.map(({ path }) => path), ...asTheyAre];
  const stage = stages.find(
    (place) => isFolder(place) && !known.some((path) => isIn(path, place) || isIn(place, path)),
  );
  const crowded = [home, ...crowdedFolders].filter(isFolder).map((path) => realpathSync(path));
  if (stage === undefined || kept.some(({ path }) => crowded.some((place) => isIn(place, path)))) return undefined;
  const isReadOnly = (path: string) => kept.findLast((one) => isIn(path, one.path))?.isWritable === false;
  const within = mounted().filter((path) => isReadOnly(path) && !all.has(path));
  return { stage, asTheyAre, kept, within, links: [...links], empty: [...emptyFolders, home] };
}

/** Where programs find libraries besides the usual folders: what they are told, and what this one has loaded by now. */
function libraryFolders(): string[] {
  const settings = globSync(["/etc/ld.so.conf", "/etc/ld.so.conf.d/*.conf"]);
  const lines = settings.flatMap(linesOf).map((line) => line.trim());
  const { sharedObjects = [] } = process.report.getReport() as { sharedObjects?: readonly string[] };
  return [...lines, ...(process.env["LD_LIBRARY_PATH"] ?? "").split(delimiter), ...sharedObjects].filter((path) =>
    path.startsWith(sep),
  );
}

function devices(): string[] {
  const names = existsSync("/dev") ? readdirSync("/dev") : [];
  return names
    .filter((name) => usualDevices.includes(name) || computingDevices.test(name))
    .map((name) => join("/dev", name));
}

/** Where something is mounted; what is only mounted once somebody looks is left out. */
function mounted(): string[] {
  const places = linesOf("/proc/self/mountinfo").filter((line) => line !== "" && !line.includes(" - autofs "));
  const character = (octal: string) => String.fromCharCode(Number.parseInt(octal, 8));
  return places.map((line) => (line.split(" ")[4] ?? "").replace(/\\(\d{3})/g, (_, octal) => character(octal)));
}

/** Of a file that is there, and that its user may read. */
function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n");
  } catch {
    return [];
  }
}

/** For a shell that is root of a name space of its own: does it, then becomes what stands behind. `mount`: the program. */
export function hidingScript(mount: string, key: string, plan?: Plan, cwd = process.cwd()): string {
  const run = quoted(mount);
  const lines = plan
    ? [
        ...rootMade(run, plan),
        `${run} --bind /dev/null ${quoted(plan.stage + key)}`,
        ...rootTaken(quoted(join(dirname(mount), "umount")), plan, cwd),
      ]
    : [`${run} --bind /dev/null ${quoted(key)}`, ...terminalsCovered(run)];
  return ["set -e", `PATH=${usualPrograms.join(":")}`, ...lines, 'exec "$@"'].join("\n");
}

function rootMade(run: string, { stage, asTheyAre, kept, within, links, empty }: Plan): string[] {
  const at = (path: string) => quoted(stage + path);
  const bound = (path: string) => [
    `if [ -d ${quoted(path)} ]; then mkdir -p ${at(path)}; else mkdir -p ${at(dirname(path))}; [ -e ${at(path)} ] || : > ${at(path)}; fi`,
    `${run} --rbind ${quoted(path)} ${at(path)}`,
  ];
  const sealed = (path: string) => `${run} -o remount,bind,ro ${at(path)}`;
  // What lies in something of the same rights is there with it.
  const own = kept.filter(
    ({ path, isWritable }, index) =>
      kept.slice(0, index).findLast((outer) => isIn(path, outer.path))?.isWritable !== isWritable,
  );
  return [
    `${run} ${emptyRoot} ${quoted(stage)}`,
    ...asTheyAre.flatMap(bound),
    // A mount of its own for each, which alone becomes read-only: what is mounted within it keeps its rights.
    ...own.flatMap(({ path, isWritable }) => [...bound(path), ...(isWritable ? [] : [sealed(path)])]),
    ...within.map((path) => `${sealed(path)} 2>/dev/null || :`),
    ...links.map(
      ([name, path]) =>
        `[ -e ${at(name)} ] || [ -L ${at(name)} ] || { mkdir -p ${at(dirname(name))}; ln -s ${quoted(path)} ${at(name)}; }`,
    ),
    ...empty.map((path) => `mkdir -p ${at(path)}`),
  ];
}

/** From here on what was the root is nowhere. */
function rootTaken(umount: string, { stage }: Plan, cwd: string): string[] {
  const old = "/.former";
  return [
    `mkdir ${quoted(stage + old)}`,
    `pivot_root ${quoted(stage)} ${quoted(stage + old)}`,
    `cd /; ${umount} -l ${old}`,
    `rmdir ${old}`,
    // By its path, which now leads to what is left there: an open folder would still be the one that is hidden.
    `mkdir -p ${quoted(cwd)} 2>/dev/null || :`,
    `cd ${quoted(cwd)} 2>/dev/null || :`,
  ];
}

/** Where all other files stay: nothing is read from the owner's terminals nor written to them. */
function terminalsCovered(run: string): string[] {
  return [
    `if [ -d /dev/pts ]; then ${run} ${emptyRoot} /dev/pts; fi`,
    `for terminal in /dev/tty* /dev/console; do if [ -c "$terminal" ] && [ -w "$terminal" ]; then ${run} --bind /dev/null "$terminal"; fi; done`,
  ];
}

/** Where everything has its true name. */
export function truePath(path: string): string {
  return existsSync(path) ? realpathSync(path) : `${realpathSync(dirname(path))}${sep}${path.split(sep).at(-1)}`;
}

function isFolder(path: string): boolean {
  return existsSync(path) && lstatSync(path).isDirectory();
}

function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
