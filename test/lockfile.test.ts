// The lockfile is whole: `npm ci` refuses one that lacks a package for another platform, and takes what is not named by
// its hash on trust.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

interface Locked {
  readonly version: string;
  readonly integrity?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const root = join(import.meta.dirname, "..");
const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
  packages: Record<string, Locked>;
};

/** As Node and npm look for it: beside whoever asks, then further out. */
function isLocked(name: string, asking: string): boolean {
  const folders = asking.split("/node_modules/");
  return (
    folders.some((_, depth) => {
      const inside = asking === "" ? "" : `${folders.slice(0, folders.length - depth).join("/node_modules/")}/`;
      return packages[`${inside}node_modules/${name}`] !== undefined;
    }) || packages[`node_modules/${name}`] !== undefined
  );
}

test("every package that a locked package names is locked too, those for other platforms included", () => {
  const missing = Object.entries(packages).flatMap(([path, { dependencies, devDependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...(path === "" && devDependencies), ...optionalDependencies })
      .filter((name) => !isLocked(name, path))
      .map((name) => `${path} needs ${name}`),
  );
  assert.deepEqual(missing, []);
});

test("every locked package is named by its hash", () => {
  const unnamed = Object.entries(packages).filter(([path, { integrity }]) => path !== "" && !integrity);
  assert.deepEqual(unnamed, []);
});

test("package.json pins exact versions, and the lockfile agrees", () => {
  const { dependencies, devDependencies } = packages[""] as Locked;
  const own = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Locked;
  assert.deepEqual({ ...own.dependencies, ...own.devDependencies }, { ...dependencies, ...devDependencies });
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
    assert.equal(packages[`node_modules/${name}`]?.version, version, name);
});
