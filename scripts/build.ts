// What the package carries: the program as JavaScript (bundle.ts), the SDK's types, the dashboard's files. A clone needs none of it.

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { additions } from "../src/cli/machine/additions.ts";
import { emitDashboard } from "../web/emit.ts";
import { bundle } from "./bundle.ts";
import { lockOf, readLockfile } from "./locks.ts";

const root = join(import.meta.dirname, "..");

/** Types of the SDK and of what it mentions, not of the whole program. */
function emitTypes(dist: string): void {
  const config = join(dist, "tsconfig.types.json");
  writeFileSync(
    config,
    JSON.stringify({
      extends: join(root, "tsconfig.json"),
      compilerOptions: {
        ...{ noEmit: false, declaration: true, emitDeclarationOnly: true, outDir: dist, rootDir: root },
        ...{ customConditions: null, typeRoots: [join(root, "node_modules/@types")] },
      },
      files: [join(root, "src/index.ts")],
      include: [],
    }),
  );
  const { status } = spawnSync("tsc", ["-p", config], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Error("the program does not compile");
  rmSync(config);
}

/** Into an empty folder of the caller's, so that two who build at once do not meet. */
export async function build(dist: string): Promise<void> {
  mkdirSync(dist, { recursive: true });
  await bundle(dist);
  emitTypes(dist);
  await emitDashboard(join(dist, "web"));
  lockAdditions(dist);
}

/** What `dcnr engine add` installs, by version and hash. */
function lockAdditions(dist: string): void {
  mkdirSync(join(dist, "additions"));
  const lockfile = readLockfile();
  for (const [name, { packages }] of Object.entries(additions))
    writeFileSync(join(dist, "additions", `${name}.json`), JSON.stringify(lockOf(lockfile, packages)));
}
