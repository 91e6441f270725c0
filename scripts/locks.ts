// Parts of the lockfile: what the package depends on, and what can be added to it, each with everything that it brings,
// by exact version and hash. So whoever adds something gets what was tested here.

import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface LockedPackage {
  readonly version: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

export type LockedPackages = Readonly<Record<string, LockedPackage>>;

export interface Lockfile {
  readonly lockfileVersion: 3;
  readonly requires: true;
  readonly packages: LockedPackages;
}

const root = join(import.meta.dirname, "..");

export function readLockfile(): Lockfile {
  return JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lockfile;
}

/** Where a package that `asking` names stands: beside it, or further out, as Node looks for it. */
export function lockedPath(packages: LockedPackages, name: string, asking: string): string | undefined {
  for (let place = asking; place !== ""; place = place.slice(0, Math.max(0, place.lastIndexOf("/node_modules/")))) {
    const path = `${place}/node_modules/${name}`;
    if (packages[path] !== undefined) return path;
  }
  const outermost = `node_modules/${name}`;
  return packages[outermost] === undefined ? undefined : outermost;
}

/** All that `names` bring. A package that is not locked is an error: the lockfile's own test would have said so. */
export function lockOf(lockfile: Lockfile, names: readonly string[]): Lockfile {
  const { packages } = lockfile;
  const wanted: Record<string, LockedPackage> = {};
  const include = (name: string, asking: string) => {
    const path = lockedPath(packages, name, asking);
    if (path === undefined) throw new Error(`${name}, which ${asking || "the project"} needs, is not locked`);
    if (wanted[path] !== undefined) return;
    const { dev: _, devOptional: __, ...found } = packages[path] as LockedPackage;
    wanted[path] = found;
    for (const needed of Object.keys({ ...found.dependencies, ...found.optionalDependencies })) include(needed, path);
    for (const peer of Object.keys(found.peerDependencies ?? {}))
      if (!found.peerDependenciesMeta?.[peer]?.optional) include(peer, path);
  };
  for (const name of names) include(name, "");
  const dependencies = Object.fromEntries(
    names.map((name) => [name, (packages[`node_modules/${name}`] as LockedPackage).version]),
  );
  const sorted = Object.fromEntries(Object.entries(wanted).sort(([a], [b]) => (a < b ? -1 : 1)));
  return {
    lockfileVersion: 3,
    requires: true,
    packages: { "": { dependencies } as LockedPackage, ...sorted },
  };
}
