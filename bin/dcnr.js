#!/usr/bin/env node
// Starts the program: the emitted JavaScript when published, the TypeScript itself in a clone.

import { existsSync } from "node:fs";
import module from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const major = Number(process.versions.node.split(".")[0]);
if (major < 24) {
  process.stderr.write(
    `dcnr: needs Node 24 or newer, this is ${process.version}. Install it, or use: npx -p node@24 -p dcnr dcnr\n`,
  );
  process.exit(1);
}
// Compiled code is kept between starts: a quarter of the CPU time for `dcnr --help`, and in a clone no compiler in
// memory. Threads and processes that this one starts learn of it by the environment.
process.env["NODE_COMPILE_CACHE"] ??= join(
  process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"),
  "dcnr",
  "compiled",
);
module.enableCompileCache(process.env["NODE_COMPILE_CACHE"]);
const source = new URL("../src/cli/main.ts", import.meta.url);
const emitted = new URL("../dist/src/cli/main.js", import.meta.url);
await import(existsSync(fileURLToPath(source)) ? source.href : emitted.href);
