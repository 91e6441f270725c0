// What is not part of the package because few need it or it is large, and how it comes: by npm, from the registry, exact
// versions by their hash, into a folder of its own, without any install script.

import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fail } from "../../core/errors.ts";
import { type Addition, additionsFolder, findOptional } from "../../core/optional.ts";
import { packagePath } from "./software.ts";

export interface AdditionFacts {
  readonly packages: readonly string[];
  /** What one has of it. */
  readonly gain: string;
}

export const additions: Readonly<Record<Addition, AdditionFacts>> = {
  native: {
    packages: ["onnxruntime-node"],
    gain: "native numerics: several times as fast as the portable engine, among machines that round alike",
  },
  postgres: { packages: ["pg"], gain: "orchestrators on several machines with PostgreSQL (--store postgres://...)" },
  dynamodb: {
    packages: ["@aws-sdk/client-dynamodb"],
    gain: "a state store without servers on AWS (--store dynamodb:TABLE)",
  },
  s3: {
    packages: ["@aws-sdk/client-s3", "@aws-sdk/s3-request-presigner"],
    gain: "blobs and datasets in S3 buckets (--blobs s3://...)",
  },
};

export function additionNamed(name: string): Addition {
  if (Object.hasOwn(additions, name)) return name as Addition;
  return fail("invalid_argument", `there is no addition "${name}": choose one of ${Object.keys(additions).join(", ")}`);
}

export type Presence = "with the program" | "added" | "not here";

export function presenceOf(addition: Addition): Presence {
  const files = additions[addition].packages.map((name) => findOptional(name, addition));
  if (files.some((file) => file === undefined)) return "not here";
  // Where no folder is known, as in programs that use this one as a library, nothing was added.
  const folder = additionsFolder();
  const isAdded = folder !== undefined && files.every((file) => file?.startsWith(join(folder, addition)));
  return isAdded ? "added" : "with the program";
}

function folderOf(addition: Addition): string {
  return join(additionsFolder() ?? fail("failed_precondition", "the folder for additions is not known"), addition);
}

/** The folder that it came into. */
export async function add(addition: Addition): Promise<string> {
  const lock = packagePath(`dist/additions/${addition}.json`);
  if (!existsSync(lock)) fail("failed_precondition", "in a clone everything comes with the program: npm ci");
  const folder = folderOf(addition);
  mkdirSync(join(folder, ".."), { recursive: true });
  const draft = mkdtempSync(`${folder}-`);
  try {
    const text = readFileSync(lock, "utf8");
    const { packages } = JSON.parse(text) as { packages: Record<string, { dependencies: Record<string, string> }> };
    writeFileSync(join(draft, "package-lock.json"), text);
    const own = { private: true, dependencies: packages[""]?.dependencies };
    writeFileSync(join(draft, "package.json"), JSON.stringify(own));
    const failure = await npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], draft);
    if (failure !== undefined)
      fail("unavailable", `${addition} cannot be fetched: is the npm registry reachable? npm said: ${failure}`);
    if (addition === "native") keepOwnPlatform(join(draft, "node_modules", "onnxruntime-node", "bin"));
    // Drafts are their maker's alone; what root adds, into an image for instance, is for whoever runs the program.
    chmodSync(draft, 0o755);
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return folder;
}

export function remove(addition: Addition): void {
  const presence = presenceOf(addition);
  if (presence === "with the program")
    fail("failed_precondition", `${addition} came with the program, or stands beside it: npm removes it`);
  if (presence === "not here") fail("not_found", `${addition} was not added: see dcnr engine list`);
  rmSync(folderOf(addition), { recursive: true, force: true });
}

async function npm(words: readonly string[], folder: string): Promise<string | undefined> {
  // The one place that knows how to find npm; plain JavaScript, outside of what is compiled.
  const file = pathToFileURL(packagePath("bin/newer-node.js")).href;
  const { runNpm } = (await import(file)) as typeof import("../../../bin/newer-node.js");
  return runNpm(words, folder);
}

/** The runtime's package has the libraries of all systems, ten times of what one machine needs. */
function keepOwnPlatform(libraries: string): void {
  for (const version of readdirSync(libraries))
    for (const platform of readdirSync(join(libraries, version)))
      for (const architecture of readdirSync(join(libraries, version, platform)))
        if (platform !== process.platform || architecture !== process.arch)
          rmSync(join(libraries, version, platform, architecture), { recursive: true });
}

/** Of everything in a folder. */
export async function bytesIn(folder: string): Promise<number> {
  let sum = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile()) sum += (await stat(join(entry.parentPath, entry.name))).size;
  return sum;
}
