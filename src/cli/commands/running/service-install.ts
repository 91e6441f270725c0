// `dcnr service install`: keeps this machine lent across restarts, by the service manager that the system has.

import { platform } from "node:os";
import { joinedBy } from "../../../protocol/identity/invite-link.ts";
import type { Command } from "../../command.ts";
import { parseBytes } from "../../flags/quantities.ts";
import { rulesFrom } from "../../lending/rules.ts";
import { managerHere, programHere, runHere } from "../../service/here.ts";
import { type ServiceKind, serviceKinds } from "../../service/managers.ts";
import { checkProgram, installService } from "../../service/service.ts";
import { command as join, machineFrom } from "./join.ts";

export const command: Command = {
  summary: "Keep this machine lent across restarts: as a service of yours (systemd, launchd, Windows' tasks).",
  details:
    "Takes what dcnr join takes. A service that is there is replaced. It starts again by itself after accidents, not after dcnr lend finish or dcnr leave.",
  positionals: [{ name: "ADDRESS|LINK", many: true }],
  options: {
    ...join.options,
    print: { type: "boolean", summary: "print the definition instead" },
    manager: {
      type: "string",
      summary: "service manager to print for (default: this system's)",
      choices: serviceKinds,
    },
  },
  examples: [
    "dcnr service install lab.example:7700 --cpus 4 --hours 22-7",
    "dcnr service install lab.example:7700 --print --manager launchd",
  ],
  run: async ({ arguments: words, flags, out }) => {
    // What cannot run is not installed.
    machineFrom(joinedBy(words).addresses, flags);
    await rulesFrom(flags, platform());
    const service = {
      words: [...programHere(), "join", ...joinWords(process.argv.slice(2)), ...(flags.is("wait") ? [] : ["--wait"])],
      memoryBytes: flags.has("memory") ? parseBytes(flags.text("memory"), "--memory") : 0,
    };
    const manager = managerHere(flags.optionalText("manager") as ServiceKind | undefined);
    if (flags.is("print") || flags.has("manager")) {
      out.raw(manager.definition(service));
      return 0;
    }
    for (const path of programHere()) checkProgram(path);
    const { advice } = installService(manager, service, runHere);
    if (flags.is("json")) out.json({ manager: manager.kind, file: manager.file, advice: advice ?? "" });
    else {
      out.line(`This machine is lent by ${manager.kind} from now on, defined in ${manager.file}.`);
      out.advice("See dcnr service status, dcnr lend pause, dcnr service uninstall.");
      if (advice) out.note(advice);
    }
    return 0;
  },
};

/** As they were typed, without what concerns the service itself. */
export function joinWords(typed: readonly string[]): string[] {
  const own = typed.slice(2);
  return own.filter(
    (word, index) =>
      !["--print", "--json", "--manager"].includes(word) &&
      own[index - 1] !== "--manager" &&
      !word.startsWith("--manager="),
  );
}
