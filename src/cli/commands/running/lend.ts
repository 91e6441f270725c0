// `dcnr lend`: pause, resume or end the lending of a machine that another process lends, such as a service.

import { fail } from "../../../core/errors.ts";
import { entryOf } from "../../../core/words/table.ts";
import type { Command } from "../../command.ts";
import { readWish, type Wish, writeWish } from "../../lending/wishes.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";

const wishOf: Readonly<Record<string, Wish>> = { pause: "pause", resume: "lend", finish: "finish" };

const said: Readonly<Record<Wish, string>> = {
  lend: "this machine is lent whenever dcnr join runs",
  pause: "paused: nothing comes to this machine, and what it does goes to others, until dcnr lend resume",
  finish: "this machine leaves as soon as it has no work; dcnr join lends it again",
  leave: "this machine leaves now; dcnr join lends it again",
};

export const command: Command = {
  summary: "Pause, resume or end the lending of this machine by dcnr join, also where it runs as a service.",
  details:
    "Without a word it says how things are. A pause outlives restarts. dcnr join hears of it within a second or two.",
  positionals: [{ name: "pause|resume|finish", optional: true }],
  options: { dir: directoryOption },
  examples: ["dcnr lend", "dcnr lend pause", "dcnr lend resume", "dcnr lend finish"],
  run: async ({ arguments: [word], flags, out }) => {
    const folder = dataDirectory(flags.optionalText("dir"), process.env, "pnode");
    if (word !== undefined) {
      const wish =
        entryOf(wishOf, word) ?? fail("invalid_argument", `dcnr lend takes pause, resume or finish, not "${word}"`);
      await writeWish(folder, wish);
    }
    const wish = await readWish(folder);
    if (flags.is("json")) out.json({ wish });
    else out.line(said[wish]);
    return 0;
  },
};
