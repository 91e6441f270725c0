// Keeps a machine lent across restarts: writes the service's definition, has the manager start it, and takes all of it
// away again. What fails half-way is undone, so that there is a service or there is none.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fail } from "../../core/errors.ts";
import type { Service, ServiceManager } from "./managers.ts";

/** What a command of the system said: undefined if it went well. */
export type RunCommand = (words: readonly string[]) => string | undefined;

export interface Installed {
  /** A sentence about what the system refused, though the service runs. */
  readonly advice: string | undefined;
}

export function installService(manager: ServiceManager, service: Service, run: RunCommand): Installed {
  const before = definitionOf(manager);
  if (before !== undefined) for (const words of manager.end) run(words);
  mkdirSync(dirname(manager.file), { recursive: true });
  writeFileSync(manager.file, manager.definition(service), { mode: 0o600 });
  for (const words of manager.start) {
    const said = run(words);
    if (said === undefined) continue;
    uninstallService(manager, run);
    const instead = `Where there is no ${manager.kind} for you, let something else start dcnr join --wait`;
    fail("failed_precondition", `the service is not installed: ${words.join(" ")} says: ${said.trim()}. ${instead}`);
  }
  const { stay } = manager;
  return { advice: stay && run(stay.command) !== undefined ? stay.advice : undefined };
}

/** False if there was none. */
export function uninstallService(manager: ServiceManager, run: RunCommand): boolean {
  if (definitionOf(manager) === undefined) return false;
  for (const words of manager.end) run(words);
  rmSync(manager.file, { force: true });
  for (const words of manager.forget) run(words);
  return true;
}

export function definitionOf({ file }: ServiceManager): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

/** npx keeps what it runs in a cache that is emptied now and then: a service there ends some day without a word. */
export function checkProgram(path: string): void {
  if (/[\\/]_npx[\\/]/.test(path))
    fail(
      "failed_precondition",
      "this dcnr is a copy that npx will throw away: install it (npm install --global), then: dcnr service install",
    );
}
