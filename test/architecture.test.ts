// Folders are the architecture: who may import whom, and nothing that is not listed.

import assert from "node:assert/strict";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";

/** The folders of src, and the folders each may import. `system`, `cli` and, in browsers, `tab` alone touch the real world. */
const allowed: Record<string, readonly string[]> = {
  core: [],
  protocol: ["core"],
  membership: ["core", "protocol"],
  peer: ["core", "protocol"],
  relay: ["core", "protocol"],
  crew: ["core", "protocol"],
  store: ["core"],
  states: ["core"],
  trust: ["core"],
  graph: ["core"],
  engine: ["core", "graph"],
  network: ["core", "graph"],
  data: ["core", "store"],
  pipeline: ["core", "data"],
  models: ["core", "graph", "network", "data", "states"],
  vnode: ["core", "graph", "engine", "network", "states", "trust"],
  pnode: [
    "core",
    "protocol",
    "crew",
    "membership",
    "peer",
    "relay",
    "engine",
    "network",
    "data",
    "models",
    "vnode",
    "states",
    "trust",
  ],
  scheduler: ["core"],
  tuning: ["core"],
  providers: ["core"],
  orchestrator: [
    "core",
    "protocol",
    "crew",
    "membership",
    "relay",
    "store",
    "scheduler",
    "tuning",
    "providers",
    "network",
    "data",
    "pipeline",
    "models",
    "states",
    "trust",
  ],
  dashboard: ["core", "protocol"],
  client: ["core", "protocol", "data", "states", "system"],
  monitoring: ["core"],
  system: ["core", "protocol", "trust"],
  tab: ["core", "protocol", "trust", "graph", "engine", "network", "models", "pnode"],
};

/** Files that only tests import may use what they test against. */
const isTestFile = (path: string) => /\.(test|testing)\.ts$|conformance/.test(path);

interface Import {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

function importsOf(file: string): string[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((match) => match[1] as string);
}

function folderOf(path: string): string {
  const parts = path.split("/");
  return parts[0] === "src" ? (parts.length > 2 ? (parts[1] as string) : "src") : (parts[0] as string);
}

const files = globSync("src/**/*.ts").map((path) => path.replaceAll("\\", "/"));
const imports: Import[] = files.flatMap((file) =>
  importsOf(file).map((target) => ({
    file,
    from: folderOf(file),
    to: folderOf(normalize(join(dirname(file), target)).replaceAll("\\", "/")),
  })),
);

test("every folder of src is part of the architecture", () => {
  const folders = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const { name } of folders)
    assert.ok(
      name === "cli" || allowed[name],
      `src/${name} is not listed in test/architecture.test.ts and ARCHITECTURE.md`,
    );
  assert.ok(files.length > 50, "the test sees the source files");
  assert.ok(imports.length > 100, "the test sees their imports");
});

test("arrows between folders point one way", () => {
  const wrong = imports.filter(
    ({ file, from, to }) =>
      !isTestFile(file) && from !== to && allowed[from] !== undefined && !allowed[from].includes(to),
  );
  assert.deepEqual(
    wrong.map(({ file, to }) => `${file} imports from ${to}`),
    [],
  );
});

/** Folders whose files depend on each other one way only, types included; the others are to follow. */
const withoutCycles = ["core", "orchestrator", "scheduler"];

test("no file depends on itself by a detour", () => {
  const targets = new Map<string, string[]>();
  for (const file of files.filter((one) => !isTestFile(one)))
    targets.set(
      file,
      importsOf(file).map((target) => normalize(join(dirname(file), target)).replaceAll("\\", "/")),
    );
  const done = new Set<string>();
  const follow = (file: string, way: readonly string[]): void => {
    assert.ok(!way.includes(file), `a circle of imports: ${[...way.slice(way.indexOf(file)), file].join(" -> ")}`);
    if (done.has(file)) return;
    for (const next of targets.get(file) ?? []) if (folderOf(next) === folderOf(file)) follow(next, [...way, file]);
    done.add(file);
  };
  for (const file of targets.keys()) if (withoutCycles.includes(folderOf(file))) follow(file, []);
});

test("nothing outside cli is reached by cli alone, and nothing imports cli", () => {
  const wrong = imports.filter(({ from, to }) => to === "cli" && from !== "cli");
  assert.deepEqual(wrong, []);
});

test("every source file says in its first lines why it exists", () => {
  const silent = files.filter(
    (file) => !file.includes("/gen/") && !isTestFile(file) && !readFileSync(file, "utf8").startsWith("//"),
  );
  assert.deepEqual(silent, []);
});

test("ARCHITECTURE.md names every folder", () => {
  const text = readFileSync("ARCHITECTURE.md", "utf8");
  for (const name of [...Object.keys(allowed), "cli"])
    assert.ok(text.includes(`${name}/`), `ARCHITECTURE.md does not mention ${name}/`);
});

test("no folder holds more than 25 files beside their tests", () => {
  const held = new Map<string, number>();
  for (const file of files)
    if (!file.includes("/gen/") && !isTestFile(file)) held.set(dirname(file), (held.get(dirname(file)) ?? 0) + 1);
  const crowded = [...held].filter(([, count]) => count > 25).map(([folder, count]) => `${folder} has ${count}`);
  assert.deepEqual(crowded, [], "a folder of many files holds more than one idea: make rooms of it");
});
