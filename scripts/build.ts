// What the package carries: the program as JavaScript, the SDK's types, the dashboard's files. A clone needs none of it.

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { additions } from "../src/cli/machine/additions.ts";
import { emitDashboard } from "../web/emit.ts";
import { lockOf, readLockfile } from "./locks.ts";

const root = join(import.meta.dirname, "..");
export const dist = join(root, "dist");

function compile(...flags: string[]): void {
  const { status } = spawnSync("tsc", ["-p", join(root, "tsconfig.build.json"), ...flags], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Error("the program does not compile");
}

export async function build(): Promise<void> {
  rmSync(dist, { recursive: true, force: true });
  // Whoever reads the program reads its sources; the types below keep their words.
  compile("--removeComments");
  // Types of the SDK and of what it mentions, not of the whole program.
  const types = join(root, "tsconfig.types.json");
  writeFileSync(
    types,
    JSON.stringify({
      extends: "./tsconfig.build.json",
      compilerOptions: { declaration: true, emitDeclarationOnly: true },
      files: ["src/index.ts"],
      include: [],
    }),
  );
  try {
    compile("-p", types);
  } finally {
    rmSync(types);
  }
  await emitDashboard(join(dist, "web"));
  lockAdditions();
}

/** What `dcnr engine add` installs, by version and hash. */
function lockAdditions(): void {
  mkdirSync(join(dist, "additions"));
  const lockfile = readLockfile();
  for (const [name, { packages }] of Object.entries(additions))
    writeFileSync(join(dist, "additions", `${name}.json`), JSON.stringify(lockOf(lockfile, packages)));
}
