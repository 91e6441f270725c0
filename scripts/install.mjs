// Installs what is missing, so that a fresh clone needs no command but `npm start` or `npm test`.
// Plain JavaScript for any Node: it runs before a newer one is there.

import { existsSync, readFileSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isNewEnough, newerNode, runNpm } from "../bin/newer-node.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const say = (sentence) => console.log(`dcnr: ${sentence}`);

function isFresh() {
  const marker = join(modules, ".package-lock.json");
  if (!existsSync(marker)) return false;
  const wanted = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const installed = JSON.parse(readFileSync(marker, "utf8")).packages;
  return (
    Object.entries(installed).every(([path, { version }]) => wanted[path]?.version === version) &&
    Object.entries(wanted).every(([path, entry]) => path === "" || entry.optional || installed[path] !== undefined)
  );
}

/** Exactly what the lockfile names. No package's install script runs: nothing here needs one, and npm 12 blocks them. */
function installPackages() {
  say("installing packages (once) ...");
  const failure = runNpm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], root);
  if (failure === undefined) return;
  throw new Error(
    `npm ci failed. Check that the npm registry can be reached, then run the command again. npm said: ${failure}`,
  );
}

/** Everything that a command of this clone needs; answers with the Node to run it by. */
export function install() {
  const node = newerNode(say);
  if (!isFresh()) installPackages();
  // Programs that npm starts by name, and those who put this folder on their path, find that Node too.
  const link = join(modules, ".bin", "node");
  if (!isNewEnough() && process.platform !== "win32") {
    // Two commands may come here at once: each replaces the link as a whole.
    const made = `${link}-${process.pid}`;
    symlinkSync(node, made);
    renameSync(made, link);
  }
  return node;
}
