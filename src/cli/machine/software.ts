// The version of this software, from its package.

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The package's own folder, found upwards: sources and emitted files lie at different depths. */
export function packageFolder(): URL {
  let folder = new URL("./", import.meta.url);
  while (!existsSync(new URL("package.json", folder)) && folder.pathname !== "/") folder = new URL("../", folder);
  return folder;
}

export function packagePath(path: string): string {
  return fileURLToPath(new URL(path, packageFolder()));
}

export function softwareVersion(): string {
  return (JSON.parse(readFileSync(packagePath("package.json"), "utf8")) as { version: string }).version;
}
