// Where things lie on this machine unless flags say otherwise.

import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import type { OptionSpec } from "../command.ts";

export const directoryOption: OptionSpec = {
  type: "string",
  value: "PATH",
  summary: "directory for state (default: dcnr in your data directory)",
};

/** What belongs to this user and stays. */
export function dataFolder(environment: NodeJS.ProcessEnv): string {
  return join(environment["XDG_DATA_HOME"] ?? join(homedir(), ".local", "share"), "dcnr");
}

/** The directory that was given, or the usual one, or a folder in that; it exists afterwards. */
export function dataDirectory(given: string | undefined, environment: NodeJS.ProcessEnv, folder = ""): string {
  const path = given ?? join(dataFolder(environment), folder);
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    fail(
      "failed_precondition",
      `cannot use the directory ${path}: ${messageOf(error)}. Choose another with --dir PATH`,
    );
  }
  return path;
}
