#!/usr/bin/env node
// Starts the program: the emitted JavaScript when published, the TypeScript itself in a clone, whose tests emit it once for all processes
// that they start (scripts/test.ts). Plain JavaScript for any Node, which hands over to a newer one where it must.

import { existsSync } from "node:fs";
import module from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { cacheFolder, isNewEnough, newerNode, runAs } from "./newer-node.js";

const source = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));
const emitted = fileURLToPath(new URL("../dist/src/cli/main.js", import.meta.url));
const forTests = existsSync(source) ? process.env["DCNR_TEST_PROGRAM"] : undefined;
const program = [forTests, source, emitted].find((file) => file && existsSync(file));

function stop(sentence) {
  process.stderr.write(`dcnr: ${sentence}\n`);
  process.exit(1);
}

if (program === undefined) stop("this package was packed without its program; make it by: npm run package");
if (isNewEnough()) {
  // Compiled code is kept between starts: a quarter of the CPU time for `dcnr --help`, and in a clone no compiler in
  // memory. Threads and processes that this one starts learn of it by the environment.
  process.env["NODE_COMPILE_CACHE"] ??= join(cacheFolder(), "compiled");
  module.enableCompileCache(process.env["NODE_COMPILE_CACHE"]);
  await import(pathToFileURL(program).href);
} else {
  try {
    const node = newerNode((sentence) => process.stderr.write(`dcnr: ${sentence}\n`));
    runAs(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
  } catch (error) {
    stop(error.message);
  }
}
