// `dcnr config`: settings that stand behind the flags, and where they come from.

import { existsSync } from "node:fs";
import type { Command } from "../command.ts";
import { connectionOptions } from "../joining/connection.ts";
import { dataFolder } from "../machine/directories.ts";

export const command: Command = {
  summary: "Show settings from the environment (DCNR_*) and the settings file.",
  details:
    "Any flag --some-flag can be set as DCNR_SOME_FLAG or as `some-flag: value` in the file. Flags win, then the environment, then the file.",
  options: connectionOptions,
  examples: ["dcnr config", "DCNR_ORCHESTRATOR=lab.example:7700 dcnr config"],
  run: async ({ flags, out, settings }) => {
    const listed = settings.listed();
    if (flags.is("json"))
      return void out.json({
        ...{ file: settings.file, folder: dataFolder(process.env), settings: listed },
        orchestrator: flags.text("orchestrator"),
      });
    const folder = dataFolder(process.env);
    const lines = [
      ...(listed.some(({ name }) => name === "orchestrator") ? [] : [["orchestrator", flags.text("orchestrator"), ""]]),
      ...listed.map(({ name, value, source }) => [name, value, `  (${source})`]),
      ["settings", settings.file, existsSync(settings.file) ? "" : "  (not there)"],
      ["folder", folder, "  (state, keys and caches, unless --dir says otherwise)"],
    ];
    for (const [name = "", value, source] of lines) out.line(`${name.padEnd(13)} ${value}${source}`);
    return undefined;
  },
};
