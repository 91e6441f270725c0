// Where the dashboard's files come from: bundled in memory from the sources of a clone, or read as the package carries them.

import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fail } from "../core/errors.ts";
import { type DashboardFile, type DashboardFiles, dashboardFile } from "../dashboard/files.ts";
import { packagePath } from "./software.ts";

export async function loadDashboard(): Promise<DashboardFiles> {
  const source = packagePath("web/build.ts");
  if (existsSync(source)) {
    const { buildDashboard } = await import(pathToFileURL(source).href);
    return buildDashboard() as Promise<DashboardFiles>;
  }
  const folder = packagePath("dist/web");
  if (!existsSync(folder)) fail("not_found", "this package carries no dashboard: install it again");
  const files = new Map<string, DashboardFile>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const path = file.slice(folder.length).replaceAll("\\", "/");
    files.set(path === "/index.html" ? "/" : path, dashboardFile(path, await readFile(file)));
  }
  return files;
}
