// The sentence for a command that there is none of: what was written, and what was most likely meant.

import { entryOf } from "../core/words/table.ts";
import { didYouMean } from "../network/suggest.ts";
import type { CommandEntry } from "./command.ts";

/** What people of other tools write first. */
const elsewhere: Readonly<Record<string, string>> = {
  ...{ generate: "infer", predict: "infer", run: "chat", ask: "chat" },
  ...{ start: "up", init: "up", stop: "leave", list: "status", ls: "status", ps: "status", info: "status" },
  ...{ pull: "model pull", import: "model import", export: "model export", models: "model list", login: "whoami" },
  ...{ submit: "job submit", logs: "job logs", cancel: "job cancel", watch: "session watch", resume: "session resume" },
  ...{ machines: "nodes", fleet: "nodes", pnodes: "nodes", metrics: "session metrics", logout: "leave" },
  ...{ study: "tune", studies: "tune list", tokenizer: "vocab", tokenizers: "vocab list", evaluate: "validate" },
};

/** `given`: the words before any flags. */
export function unknownCommand(given: readonly string[], commands: readonly CommandEntry[]): string {
  const [noun = "", verb] = given;
  const known = commands.map((entry) => entry.words);
  const inGroup = (group: string) => known.filter((words) => words.startsWith(`${group} `));
  if (inGroup(noun).length > 0) {
    const typed = given.slice(0, 2).join(" ");
    const verbs = inGroup(noun).map((words) => words.slice(noun.length + 1));
    return `there is no command "${typed}"${didYouMean(typed, inGroup(noun)) || `: ${noun} has ${verbs.join(", ")}`}`;
  }
  const singular = noun.replace(/s$/, "");
  const meant =
    entryOf(elsewhere, noun) ??
    (inGroup(singular).length === 0
      ? undefined
      : verb && inGroup(singular).includes(`${singular} ${verb}`)
        ? `${singular} ${verb}`
        : `${singular} list`);
  const nearest = meant
    ? `, did you mean "${meant}"?`
    : didYouMean(given.slice(0, 2).join(" "), known) ||
      didYouMean(noun, ["help", ...known, ...known.map((words) => words.split(" ")[0] as string)]) ||
      ".";
  return `there is no command "${noun}"${nearest} See dcnr --help`;
}
