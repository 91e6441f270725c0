// What the package carries: the program as JavaScript, the SDK's types, the dashboard's files. A clone needs none
// of it; `npm pack` runs this by itself.

import { spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");

function compile(...flags: string[]): void {
  const { status } = spawnSync("tsc", ["-p", join(root, "tsconfig.build.json"), ...flags], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) process.exit(1);
}

rmSync(dist, { recursive: true, force: true });
compile();
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
const emitter = join(root, "web", "emit.ts");
if (existsSync(emitter)) {
  const { emitDashboard } = await import(pathToFileURL(emitter).href);
  await emitDashboard(join(dist, "web"));
}
