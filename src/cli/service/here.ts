// The service manager and the program of this very machine.

import { spawnSync } from "node:child_process";
import { homedir, platform, userInfo } from "node:os";
import { packagePath } from "../machine/software.ts";
import { type ServiceKind, type ServiceManager, serviceKindOf, serviceManager } from "./managers.ts";
import type { RunCommand } from "./service.ts";

export function managerHere(kind: ServiceKind = serviceKindOf(platform())): ServiceManager {
  const { username, uid } = userInfo();
  return serviceManager(kind, { home: homedir(), name: username, id: uid });
}

/** What starts this program again: the single file where it is one. */
export function programHere(): string[] {
  const file = process.env["DCNR_SINGLE_FILE"];
  return file ? [file] : [process.execPath, packagePath("bin/dcnr.js")];
}

export const runHere: RunCommand = ([program = "", ...args]) => {
  const { status, error, stderr, stdout } = spawnSync(program, args, { encoding: "utf8", timeout: 60_000 });
  if (status === 0) return undefined;
  return error ? error.message : (stderr || stdout).trim() || `it ended with ${status}`;
};
