// Several machines: each a network namespace of its own with its own address, joined by a bridge, where the machine
// allows that. Two of them lose sight of each other in the middle.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { it } from "node:test";

it("machines find each other, and a session outlives that two of them do not reach each other any more", (test) => {
  const inside = (...command: string[]) =>
    spawnSync("unshare", ["--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", ...command], {
      encoding: "utf8",
      env: { ...process.env, DCNR_ORCHESTRATOR: "" },
    });
  if (inside("sh", "-c", "ip link add br0 type bridge && nsenter --version").status !== 0)
    return test.skip("this machine allows no network namespaces, or has no ip");
  const { status, stdout, stderr } = inside(process.execPath, join(import.meta.dirname, "machines-process.ts"));
  assert.deepEqual([status, stdout.trim().split("\n").at(-1)], [0, "done"], stderr);
});
