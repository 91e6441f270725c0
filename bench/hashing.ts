// SHA-256 of messages where there is no library of Node's: `npm run bench -- hashing`, in Node and in every Chromium that is here.

import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { browsersHere } from "../test/browser/browser.ts";
import { serve } from "../test/portable/serve.ts";
import { type HashSpeed, hashSpeeds } from "./hashing-page.ts";

const sizes = [16 << 10, 128 << 10, 1 << 20];

export async function hashingReport(_: readonly string[], log: (line: string) => void): Promise<string> {
  const rows: string[] = [];
  const add = (where: string, speeds: readonly HashSpeed[]) => {
    log(where);
    for (const { bytes, wasm, tab } of speeds)
      rows.push(`| ${where} | ${bytes >> 10} KB | ${wasm.toFixed(0)} | ${tab.toFixed(0)} |`);
  };
  add(`Node ${process.version}`, await hashSpeeds(sizes));
  const page = fileURLToPath(new URL("./hashing-page.ts", import.meta.url));
  const built = await build({ entryPoints: [page], bundle: true, format: "esm", platform: "browser", write: false });
  const { url, close } = await serve(built.outputFiles[0]?.text ?? "");
  for (const { launch } of browsersHere()) {
    const browser = await launch();
    const opened = await browser.newPage();
    await opened.goto(url);
    await opened.waitForFunction("'hashSpeeds' in globalThis");
    const speeds = (await opened.evaluate(`hashSpeeds(${JSON.stringify(sizes)})`)) as HashSpeed[];
    add(`Chromium ${browser.version()}`, speeds);
    await browser.close();
  }
  await close();
  return [
    "| where | message | our WebAssembly, MB/s (target >= 300) | as a tab hashes it, MB/s |",
    "|---|---|---|---|",
    ...rows,
    "",
    "The best of 100 tries each. From 32 KB on a tab leaves messages to the browser's own SHA-256, which runs beside its work; the copy out of shared memory is counted.",
  ].join("\n");
}
