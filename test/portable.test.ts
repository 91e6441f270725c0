// The promise of portable and exact numerics: one hash under Node and under Chromium, whichever compiler V8 takes.

import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import chromium from "@sparticuz/chromium";
import { build } from "esbuild";
import { chromium as playwright } from "playwright-core";
import { openExactEngine } from "../src/engine/exact/engine.ts";
import { openPortableEngine } from "../src/engine/portable/engine.ts";
import { rootOfExactTraining } from "./portable/exact-training.ts";
import { bundle, serve } from "./portable/serve.ts";
import { hashesOfTraining } from "./portable/training.ts";

const here = join(import.meta.dirname, "portable");

test("training with portable and exact numerics gives the same bits in Node and in Chromium, the demo GPT's too", async () => {
  const expected = {
    portable: await hashesOfTraining(openPortableEngine()),
    exact: await hashesOfTraining(openExactEngine()),
  };
  const demo = await readFile(join(here, "..", "..", "examples", "gpt-demo.yaml"), "utf8");
  const root = await rootOfExactTraining(demo, openExactEngine());
  const { url, close } = await serve(await bundle("page.ts", "browser"));
  const browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: chromium.args });
  try {
    const page = await browser.newPage();
    const problems: string[] = [];
    page.on("console", (message) => problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(url);
    await page
      .waitForFunction(() => "train" in window, undefined, { timeout: 30_000 })
      .catch(() => {
        throw new Error(`the page did not start: ${problems.join("; ")}`);
      });
    const hashes = await page.evaluate(() => window.train());
    deepStrictEqual(hashes, expected);
    strictEqual(await page.evaluate((text) => window.trainExactly(text), demo), root);
  } finally {
    await browser.close();
    await close();
  }
});

test("the portable engine is less than 60 KB of code for a browser, compressed", async () => {
  const result = await build({
    entryPoints: [join(here, "..", "..", "src", "engine", "portable", "engine.ts")],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
    external: ["node:*"],
  });
  const bytes = gzipSync(result.outputFiles[0]?.contents as Uint8Array).length;
  strictEqual(bytes < 60_000, true, `${bytes} bytes`);
});

/** V8's quick compiler, its optimising one, that one with pairs of vectors joined, and without the processor's AVX. */
const compilers: readonly (readonly string[])[] = [
  ["--liftoff-only"],
  ["--no-liftoff"],
  ["--no-liftoff", "--experimental-wasm-revectorize"],
  ...(process.arch === "x64" ? [["--no-liftoff", "--no-enable-avx"]] : []),
];

test("training on the portable engine gives the same bits whatever compiles it, and for either tile", async () => {
  const expected = await hashesOfTraining(openPortableEngine());
  for (const flags of compilers)
    for (const tile of ["narrow", "wide"]) {
      const run = promisify(execFile)(process.execPath, [...flags, join(here, "hashes.ts"), tile]);
      deepStrictEqual(JSON.parse((await run).stdout), expected, `${flags.join(" ")}, ${tile} tiles`);
    }
});
