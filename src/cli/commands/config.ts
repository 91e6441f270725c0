// `dcnr config`: settings that stand behind the flags, and where they come from.

import type { Command } from "../command.ts";
import { connectionOptions } from "../joining/connection.ts";

export const command: Command = {
  summary: "Show settings from the environment (DCNR_*) and the settings file.",
  details:
    "Any flag --some-flag can be set as DCNR_SOME_FLAG or as `some-flag: value` in the file. Flags win, then the environment, then the file.",
  options: connectionOptions,
  examples: ["dcnr config", "DCNR_ORCHESTRATOR=lab.example:7700 dcnr config"],
  run: async ({ flags, out, settings }) => {
    const listed = settings.listed();
    if (flags.is("json"))
      return void out.json({ file: settings.file, settings: listed, orchestrator: flags.text("orchestrator") });
    out.line(`orchestrator  ${flags.text("orchestrator")}`);
    out.line(`file          ${settings.file}`);
    for (const { name, value, source } of listed) out.line(`${name.padEnd(13)} ${value}  (${source})`);
    return undefined;
  },
};
