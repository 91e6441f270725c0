// `dcnr engine remove`: takes away what `dcnr engine add` brought.

import type { Command } from "../../command.ts";
import { additionNamed, remove } from "../../machine/additions.ts";

export const command: Command = {
  summary: "Remove what was added with dcnr engine add.",
  positionals: [{ name: "NAME" }],
  examples: ["dcnr engine remove native"],
  run: async ({ arguments: [name = ""], flags, out }) => {
    const addition = additionNamed(name);
    remove(addition);
    if (flags.is("json")) out.json({ name: addition, presence: "not here" });
    else out.line(`removed ${addition}`);
    return 0;
  },
};
