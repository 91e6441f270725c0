// Installs what is missing before `npm start` and `npm test`, so that a fresh clone needs no other command.
// Plain JavaScript for any Node: it runs before the project's own Node 24 is there.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const marker = "node_modules/.package-lock.json";
const isFresh = () => {
  if (!existsSync(marker)) return false;
  const wanted = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
  const installed = JSON.parse(readFileSync(marker, "utf8")).packages;
  return (
    Object.entries(installed).every(([path, { version }]) => wanted[path]?.version === version) &&
    Object.entries(wanted).every(([path, entry]) => path === "" || entry.optional || installed[path] !== undefined)
  );
};

if (!isFresh()) {
  console.log("dcnr: installing packages (once) ...");
  // Not `npm ci`: it refuses a lockfile without builds for other platforms that a registry mirror may lack.
  const result = spawnSync("npm", ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], {
    stdio: "inherit",
    shell: process.platform === "win32",
    // The CPU build inside the package is all we use; its extra download must never be needed.
    env: { ...process.env, ONNXRUNTIME_NODE_INSTALL: "skip" },
  });
  if (result.status !== 0) {
    console.error("dcnr: npm install failed. Check that the npm registry can be reached, then run the command again.");
    process.exit(1);
  }
}
