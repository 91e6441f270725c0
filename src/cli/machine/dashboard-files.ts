// Where the dashboard's files come from: the package carries them; a clone bundles them from its sources, in a process
// of its own, so that the bundler's memory is given back.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fail } from "../../core/errors.ts";
import { type DashboardFile, type DashboardFiles, dashboardFile } from "../../dashboard/files.ts";
import { packagePath } from "./software.ts";

/** Bundling takes a second or two; more than this means that it hangs. */
const bundleTimeoutMs = 60_000;

export async function loadDashboard(): Promise<DashboardFiles> {
  const bundler = packagePath("web/emit.ts");
  if (!existsSync(bundler)) return readFiles(packagePath("dist/web"));
  const folder = await mkdtemp(join(tmpdir(), "dcnr-dashboard-"));
  try {
    await promisify(execFile)(process.execPath, [bundler, folder], { timeout: bundleTimeoutMs });
    return await readFiles(folder);
  } catch (thrown) {
    fail("unavailable", "the dashboard cannot be bundled: is everything installed? Try npm install", thrown);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const pages: Readonly<Record<string, string>> = { "/index.html": "/", "/join.html": "/join" };

async function readFiles(folder: string): Promise<DashboardFiles> {
  if (!existsSync(folder)) fail("not_found", "this package carries no dashboard: install it again");
  const files = new Map<string, DashboardFile>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const path = file.slice(folder.length).replaceAll("\\", "/");
    files.set(pages[path] ?? path, dashboardFile(path, await readFile(file)));
  }
  return files;
}
