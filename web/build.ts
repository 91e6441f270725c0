// Bundles the pages in memory: the dashboard (one page, one script, one style sheet) and the page by which browsers lend their
// machines, with its workers. All are named by their content. esbuild is needed only where there are sources, so it is loaded when asked for.

import { readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import type { BuildOptions } from "esbuild";
import { type DashboardFile, dashboardFile } from "../src/dashboard/files.ts";

const folder = import.meta.dirname;
const output = join(folder, "out");

const common: BuildOptions = {
  absWorkingDir: folder,
  outdir: output,
  entryNames: "assets/[name]-[hash]",
  assetNames: "assets/[name]-[hash]",
  chunkNames: "assets/[name]-[hash]",
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
};

const bundles: readonly BuildOptions[] = [
  { entryPoints: { main: "main.tsx", icon: "icon.svg" } },
  // Has to run in browsers that are too old for the rest, to say so.
  { entryPoints: { join: "join/join.ts", "join-style": "join/join.css" }, target: "es2022" },
  // Workers share what they have in common.
  {
    entryPoints: {
      "tab-pnode": "../src/tab/pnode-worker.ts",
      "tab-engine": "../src/tab/engine-worker.ts",
      "tab-aside": "../src/tab/aside-worker.ts",
      "tab-pulse": "../src/tab/pulse-worker.ts",
    },
    splitting: true,
  },
];

/** By path; "/" is the dashboard, "/join" the page by which browsers join. */
export async function buildDashboard(): Promise<Map<string, DashboardFile>> {
  const { build, stop } = await import("esbuild");
  const files = new Map<string, DashboardFile>();
  for (const bundle of bundles) {
    const { outputFiles = [] } = await build({ ...common, ...bundle });
    for (const { path, contents } of outputFiles) {
      const name = `/${relative(output, path).replaceAll("\\", "/")}`;
      files.set(name, dashboardFile(name, contents));
    }
  }
  await stop();
  const named = (name: string, extension: string) =>
    Array.from(files.keys()).find((path) => new RegExp(`/${name}-\\w+\\.${extension}$`).test(path)) ?? "";
  const page = async (file: string, style: string, script: string) => {
    const text = (await readFile(join(folder, file), "utf8"))
      .replace("{{icon}}", named("icon", "svg"))
      .replace("{{style}}", named(style, "css"))
      .replace("{{script}}", named(script, "js"))
      .replace(/\{\{(pnode|engine|aside|pulse)\}\}/g, (_, worker: string) => named(`tab-${worker}`, "js"));
    return dashboardFile(file, new TextEncoder().encode(text));
  };
  files.set("/", await page("index.html", "main", "main"));
  files.set("/join", await page("join/join.html", "join-style", "join"));
  return files;
}
