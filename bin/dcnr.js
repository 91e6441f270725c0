#!/usr/bin/env node
// Starts the program: the emitted JavaScript when published, the TypeScript itself in a clone.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const major = Number(process.versions.node.split(".")[0]);
const source = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));
const emitted = new URL("../dist/cli/main.js", import.meta.url);
if (major < 24) {
  process.stderr.write(`dcnr: needs Node 24 or newer, this is ${process.version}. Install it, or use: npx -p node@24 -p dcnr dcnr\n`);
  process.exit(1);
}
await import(existsSync(source) ? new URL("../src/cli/main.ts", import.meta.url).href : emitted.href);
