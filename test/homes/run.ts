// Runs a case in a network namespace of its own.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { CaseName } from "./cases.ts";
import type { Router } from "./houses.ts";
import type { SubjectName } from "./subjects.ts";

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

/** `trouble` is empty if it went well, otherwise all that it said. */
export function runCase(name: CaseName, subject: SubjectName): { readonly trouble: string; readonly measured: string } {
  const { status, stdout, stderr } = inside(process.execPath, join(import.meta.dirname, "inside.ts"), name, subject);
  const [, measured = ""] = /^measured: (.*)$/m.exec(stdout) ?? [];
  const trouble = status === 0 && stdout.trim().endsWith("done") ? "" : `${stdout}\n${stderr}\nended with ${status}`;
  return { trouble, measured };
}

/** How many bytes a relay has carried between machines behind such routers that exchange 20 MB. */
export function carriedBetween(left: Router, right: Router): number {
  const { stdout, stderr } = inside(process.execPath, join(import.meta.dirname, "ways.ts"), left, right);
  const [, bytes] = /carried (\d+)/.exec(stdout) ?? [];
  if (bytes === undefined) throw new Error(`${stdout}\n${stderr}`);
  return Number(bytes);
}
