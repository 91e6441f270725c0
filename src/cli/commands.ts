// All commands by their words. Each is loaded only when it is used, so that `dcnr --help` stays quick.

import type { CommandEntry } from "./command.ts";
import { defineCommands } from "./commands/groups/define.ts";
import { lookCommands } from "./commands/groups/look.ts";
import { moreCommands } from "./commands/groups/more.ts";
import { operateCommands } from "./commands/groups/operate.ts";
import { runCommands } from "./commands/groups/run.ts";
import { trainCommands } from "./commands/groups/train.ts";
import { useCommands } from "./commands/groups/use.ts";

export const commands: readonly CommandEntry[] = [
  ...runCommands,
  ...defineCommands,
  ...trainCommands,
  ...useCommands,
  ...operateCommands,
  ...lookCommands,
  ...moreCommands,
];

export interface Found {
  readonly entry: CommandEntry;
  readonly rest: string[];
}

/** The command whose words begin the command line. */
export function findCommand(words: readonly string[]): Found | undefined {
  for (const length of [2, 1]) {
    const typed = words.slice(0, length).join(" ");
    const entry = commands.find((candidate) => candidate.words === typed || candidate.also?.includes(typed));
    if (entry && words.length >= length) return { entry, rest: words.slice(length) };
  }
  return undefined;
}
