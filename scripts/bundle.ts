// The program as JavaScript, in files that hold many modules each: a process starts sooner that loads a hundred files instead of five
// hundred. Modules that are found by their address keep a file of their own, where they lie in the sources: what processes and
// threads start from (core/module-beside.ts), and works (core/aside.ts). No list names them: whoever says such an address is found by it.

import { globSync, readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, posix, relative } from "node:path";
import { build, type OutputFile, type Plugin } from "esbuild";
import { fail } from "../src/core/errors.ts";

const root = join(import.meta.dirname, "..");
const slashes = (path: string) => path.replaceAll("\\", "/");

/** What people start and what programs import. */
const starts = ["src/cli/main.ts", "src/index.ts"];

/** The forms in which a module may say its own address, since they hold in a bundle too. */
const start = /\bmoduleBeside\(\s*"(\.\/[^"]+)",\s*import\.meta\.url,?\s*\)/g;
const work = /\bmodule: import\.meta\.url\b/;
const forms = [start, work, /\bcreateRequire\(import\.meta\.url\)/, /\bnew URL\("\.\/", import\.meta\.url\)/];

export interface Addressed {
  /** Paths of modules, as in the sources, that threads and processes start from. */
  readonly starts: readonly string[];
  readonly hasWorks: boolean;
}

/** What a module says of addresses. Fails where the package could not keep to it. */
export function addressedIn(path: string, text: string): Addressed {
  const rest = forms.reduce((left, form) => left.replaceAll(new RegExp(form, "g"), ""), text);
  const [strange] = /\bimport\.meta\b.*/.exec(rest) ?? [];
  if (strange !== undefined)
    fail(
      "invalid_argument",
      `${path}: \`${strange}\` does not hold in the package, where modules share files; scripts/bundle.ts knows the forms that do`,
    );
  return {
    starts: Array.from(text.matchAll(start), ([, name]) => posix.join(posix.dirname(path), name as string)),
    hasWorks: work.test(text),
  };
}

/** Modules that get a file of their own. All are bundled at once, so that each thread has every module once. */
function entries(): string[] {
  const sources = globSync(["src/**/*.ts", "simulation/**/*.ts"], { cwd: root }).map(slashes);
  const found = new Set(starts);
  for (const path of sources) {
    if (/\.(test|testing)\.ts$|conformance|\/fixtures\/|^src\/tab\//.test(path)) continue;
    const text = readFileSync(join(root, path), "utf8");
    if (!work.test(text) && !text.includes("moduleBeside(")) continue;
    const addressed = addressedIn(path, text);
    for (const started of addressed.starts) found.add(started);
    if (addressed.hasWorks) found.add(path);
  }
  return [...found].sort();
}

/** In place of a module's own address, until it is known in which file it stands. */
const mark = "dcnr-module:";

const ownAddresses: Plugin = {
  name: "own addresses",
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      if (!text.includes("import.meta")) return undefined;
      const name = slashes(relative(root, path));
      addressedIn(name, text);
      const address = `new URL("${mark}${name.replace(/\.ts$/, ".js")}", import.meta.url).href`;
      return { contents: text.replaceAll("import.meta.url", address), loader: "ts" };
    });
  },
};

/** Into a folder that is there. Files lie in it as their modules do in the sources, what they share in `chunks`. */
export async function bundle(folder: string): Promise<void> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: entries(),
    outbase: ".",
    outdir: folder,
    chunkNames: "chunks/[hash]",
    write: false,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    packages: "external",
    // Whoever reads the program reads its sources.
    legalComments: "none",
    logLevel: "warning",
    plugins: [ownAddresses],
  });
  for (const file of outputFiles) await write(folder, file);
}

async function write(folder: string, { path, text }: OutputFile): Promise<void> {
  const here = dirname(slashes(relative(folder, path)));
  const placed = text.replaceAll(new RegExp(`"${mark}([^"]+)"`, "g"), (_, name: string) =>
    JSON.stringify(`./${posix.relative(here, name)}`),
  );
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, placed);
}
