// `npm run package [-- FOLDER]`: the package that others install, as one file. A command of its own because npm leaves
// `prepack` out where install scripts are blocked, as this project's .npmrc does.

import { cpSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { runNpm } from "../bin/newer-node.js";
import { softwareVersion } from "../src/cli/machine/software.ts";
import { build } from "./build.ts";

const root = join(import.meta.dirname, "..");
/** What stands in the sources as it is packed; `files` in package.json chooses among it. */
const taken = ["package.json", "README.md", "LICENSE", "bin", "examples"];

/** The path of the file. Nothing is written into the sources: others may be packing them, too. */
export async function makePackage(folder: string): Promise<string> {
  const stage = mkdtempSync(join(tmpdir(), "dcnr-stage-"));
  try {
    for (const name of taken) cpSync(join(root, name), join(stage, name), { recursive: true });
    await build(join(stage, "dist"));
    const failure = runNpm(["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", folder], stage);
    if (failure !== undefined) throw new Error(`npm pack failed: ${failure}`);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
  return join(folder, `dcnr-${softwareVersion()}.tgz`);
}

if (import.meta.main) {
  const file = await makePackage(resolve(process.argv[2] ?? "."));
  console.log(`${file}: ${(statSync(file).size / 1e6).toFixed(1)} MB`);
}
