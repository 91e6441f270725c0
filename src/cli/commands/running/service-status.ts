// `dcnr service status`: whether this machine is lent by a service, and what its owner wishes of it.

import type { Command } from "../../command.ts";
import { readWish } from "../../lending/wishes.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { managerHere, runHere } from "../../service/here.ts";
import { definitionOf } from "../../service/service.ts";

export const command: Command = {
  summary: "Show whether this machine is lent by a service. Exit code 1 if none is installed or it does not run.",
  options: { dir: directoryOption },
  examples: ["dcnr service status", "dcnr service status --json"],
  run: async ({ flags, out }) => {
    const manager = managerHere();
    const installed = definitionOf(manager) !== undefined;
    const running = installed && runHere(manager.ask) === undefined;
    const wish = await readWish(dataDirectory(flags.optionalText("dir"), process.env, "pnode"));
    if (flags.is("json")) out.json({ manager: manager.kind, file: manager.file, installed, running, wish });
    else if (!installed) out.advice("no service lends this machine: dcnr service install ADDRESS");
    else {
      const paused = wish === "pause" ? ", paused by you (dcnr lend resume)" : "";
      out.line(
        `${manager.kind} ${running ? `lends this machine${paused}` : "has the service, but it does not run"}: ${manager.file}`,
      );
    }
    return running ? 0 : 1;
  },
};
