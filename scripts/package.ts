// `npm run package [-- FOLDER]`: the package that others install, as one file. A command of its own because npm leaves
// `prepack` out where install scripts are blocked, as this project's .npmrc does.

import { rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { runNpm } from "../bin/newer-node.js";
import { softwareVersion } from "../src/cli/machine/software.ts";
import { build, dist } from "./build.ts";

const root = join(import.meta.dirname, "..");

/** The path of the file. */
export async function makePackage(folder: string): Promise<string> {
  try {
    await build();
    const failure = runNpm(["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", folder], root);
    if (failure !== undefined) throw new Error(`npm pack failed: ${failure}`);
  } finally {
    // What is left here would be taken for new by the next one who packs.
    rmSync(dist, { recursive: true, force: true });
  }
  return join(folder, `dcnr-${softwareVersion()}.tgz`);
}

if (import.meta.main) {
  const file = await makePackage(resolve(process.argv[2] ?? "."));
  console.log(`${file}: ${(statSync(file).size / 1e6).toFixed(1)} MB`);
}
