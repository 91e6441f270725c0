// `node web/emit.ts FOLDER`: writes the bundled pages as files, for the package that carries no sources.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { buildDashboard } from "./build.ts";

/** Pages have names of files that say what they are. */
export const pageFiles: Readonly<Record<string, string>> = { "/": "index.html", "/join": "join.html" };

export async function emitDashboard(folder: string): Promise<string[]> {
  const written: string[] = [];
  for (const [path, { bytes }] of await buildDashboard()) {
    const file = join(folder, pageFiles[path] ?? path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, bytes);
    written.push(file);
  }
  return written;
}

if (import.meta.main) {
  const folder = process.argv[2];
  if (!folder) throw new Error("node web/emit.ts FOLDER");
  await emitDashboard(folder);
}
