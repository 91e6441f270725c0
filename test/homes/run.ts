// Runs a case in a network namespace of its own.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { CaseName } from "./cases.ts";

function inside(...command: string[]) {
  return spawnSync(
    "unshare",
    ["--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", ...command],
    {
      encoding: "utf8",
      env: { ...process.env, DCNR_ORCHESTRATOR: "" },
    },
  );
}

/** Why this machine can make no homes; undefined if it can. */
export function hindrance(): string | undefined {
  const needs =
    "ip link add br0 type bridge && nsenter --version && nft add table ip t && echo 1 > /proc/sys/net/ipv4/ip_forward";
  return inside("sh", "-c", needs).status === 0
    ? undefined
    : "this machine allows no network namespaces with routers, or has no ip or nft";
}

/** Empty if it went well, otherwise what it said. */
export function runCase(name: CaseName): string {
  const { status, stdout, stderr } = inside(process.execPath, join(import.meta.dirname, "inside.ts"), name);
  return status === 0 && stdout.trim().endsWith("done") ? "" : `${stdout}\n${stderr}\nended with ${status}`;
}
