// The lockfile is whole: `npm ci` refuses one that lacks a package for another platform, and takes what is not named by
// its hash on trust.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type LockedPackage, lockedPath, lockOf, readLockfile } from "../scripts/locks.ts";
import { additions } from "../src/cli/machine/additions.ts";

const lockfile = readLockfile();
const { packages } = lockfile;
const own = packages[""] as LockedPackage;

test("every package that a locked package names is locked too, those for other platforms included", () => {
  const missing = Object.entries(packages).flatMap(([path, { dependencies, devDependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...(path === "" && devDependencies), ...optionalDependencies })
      .filter((name) => lockedPath(packages, name, path) === undefined)
      .map((name) => `${path} needs ${name}`),
  );
  assert.deepEqual(missing, []);
});

test("every locked package is named by its hash", () => {
  const unnamed = Object.entries(packages).filter(([path, { integrity }]) => path !== "" && !integrity);
  assert.deepEqual(unnamed, []);
});

test("package.json pins exact versions, and the lockfile agrees", () => {
  const { dependencies, devDependencies } = own;
  const file = join(import.meta.dirname, "..", "package.json");
  const written = JSON.parse(readFileSync(file, "utf8")) as LockedPackage;
  assert.deepEqual({ ...written.dependencies, ...written.devDependencies }, { ...dependencies, ...devDependencies });
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
    assert.equal(packages[`node_modules/${name}`]?.version, version, name);
});

test("what can be added is locked with all that it brings", () => {
  for (const { packages: names } of Object.values(additions)) {
    const part = lockOf(lockfile, names).packages;
    for (const [path, { dependencies = {} }] of Object.entries(part))
      for (const name of Object.keys(dependencies)) assert.ok(lockedPath(part, name, path), `${path} needs ${name}`);
  }
});

test("what the package depends on brings nothing further: exact versions in package.json pin all that is installed", () => {
  const names = Object.keys(own.dependencies ?? {});
  const brought = Object.keys(lockOf(lockfile, names).packages).filter((path) => path !== "");
  assert.deepEqual(brought, names.map((name) => `node_modules/${name}`).sort());
});

test("the package depends on nothing that runs a script when it is installed", () => {
  const part = lockOf(lockfile, Object.keys(own.dependencies ?? {})).packages;
  const scripted = Object.entries(part).filter(([, entry]) => "hasInstallScript" in entry);
  assert.deepEqual(
    scripted.map(([path]) => path),
    [],
  );
});
