// `node scripts/run.mjs FILE ...`: what npm runs in a clone. Installs what is missing, then runs the file by a Node that is
// new enough. Not a `pre` script: those are left out where install scripts are blocked.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runAs } from "../bin/newer-node.js";
import { install } from "./install.mjs";

const separator = process.platform === "win32" ? ";" : ":";

try {
  const node = install();
  const programs = join(dirname(fileURLToPath(import.meta.url)), "..", "node_modules", ".bin");
  const path = [dirname(node), programs, process.env["PATH"]].join(separator);
  runAs(node, process.argv.slice(2), { ...process.env, PATH: path });
} catch (error) {
  console.error(`dcnr: ${error.message}`);
  process.exitCode = 1;
}
