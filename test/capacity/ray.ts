// Machines on demand from a real Ray cluster of one machine, with a token. Ray listens on every interface whatever it is told, so
// all of it runs in a network namespace that nothing leaves. Runs where Ray is installed (RAY names its program) and we are root.

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { runCommand } from "../../src/system/commands.ts";

const run = promisify(execFile);
const ray = process.env["RAY"] || "ray";

async function missing(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "a network namespace of our own needs root";
  for (const program of [ray, "unshare", "ip"]) {
    const { code } = await runCommand("sh", ["-c", `command -v ${program}`]);
    if (code !== 0) return `${program} is not installed here (pip install "ray[default]"; Debian: iproute2)`;
  }
  return undefined;
}

test("a real Ray runs PNodes", { skip: (await missing()) ?? false }, async () => {
  const inside = resolve(import.meta.dirname, "ray-inside.ts");
  const words = `ip link set lo up && exec "$0" --test "$1"`;
  // Its own runner of tests: it must not take itself for a part of this one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = [
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    words,
    process.execPath,
    inside,
  ];
  await run("unshare", args, { env: { ...env, RAY: ray }, maxBuffer: 16 << 20 });
});
