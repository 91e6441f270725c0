// What an orchestrator may do for providers on its machine: the kinds that its operator named, with real commands, sockets
// and files.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../../core/errors.ts";
import type { ProviderRights } from "../../orchestrator/providers/provider-care.ts";
import { providerKinds } from "../../providers/kinds.ts";
import { runCommand } from "../../system/commands.ts";
import { httpCall } from "../../system/wires/http-call.ts";
import { packagePath } from "./software.ts";

export function providerRights(given: readonly string[], directory: string): ProviderRights {
  const kinds = given.flatMap((one) => one.split(",")).filter(Boolean);
  for (const kind of kinds)
    if (!providerKinds.includes(kind))
      fail("invalid_argument", `--providers takes ${providerKinds.join(", ")}; not "${kind}"`);
  return {
    kinds,
    tools: {
      command: runCommand,
      http: httpCall,
      readFile: (path) => readFile(path, "utf8"),
      program: packagePath("bin/dcnr.js"),
      folder: join(directory, "provided"),
    },
  };
}
