// Bundles the dashboard in memory: one page, one script, one style sheet, named by their content.
// esbuild is needed only where there are sources, so it is loaded when asked for.

import { readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { type DashboardFile, dashboardFile } from "../src/dashboard/files.ts";

const folder = import.meta.dirname;
const output = join(folder, "out");

/** By path; "/" is the page. */
export async function buildDashboard(): Promise<Map<string, DashboardFile>> {
  const { build, stop } = await import("esbuild");
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: { main: "main.tsx", icon: "icon.svg" },
    outdir: output,
    entryNames: "assets/[name]-[hash]",
    assetNames: "assets/[name]-[hash]",
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    platform: "browser",
    target: ["chrome123", "firefox120", "safari17.5"],
    jsx: "automatic",
    legalComments: "linked",
    define: { "process.env.NODE_ENV": '"production"' },
    loader: { ".svg": "copy" },
    logLevel: "silent",
  });
  await stop();
  const files = new Map<string, DashboardFile>();
  for (const { path, contents } of outputFiles) {
    const name = `/${relative(output, path).replaceAll("\\", "/")}`;
    files.set(name, dashboardFile(name, contents));
  }
  const named = (pattern: RegExp) => Array.from(files.keys()).find((name) => pattern.test(name)) ?? "";
  const page = (await readFile(join(folder, "index.html"), "utf8"))
    .replace("{{icon}}", named(/icon-\w+\.svg$/))
    .replace("{{style}}", named(/main-\w+\.css$/))
    .replace("{{script}}", named(/main-\w+\.js$/));
  files.set("/", dashboardFile("/index.html", new TextEncoder().encode(page)));
  return files;
}
