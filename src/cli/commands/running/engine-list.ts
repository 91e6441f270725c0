// `dcnr engine list`: what of the optional parts is here.

import type { Addition } from "../../../core/optional.ts";
import type { Command } from "../../command.ts";
import { type AdditionFacts, additions, presenceOf } from "../../machine/additions.ts";

export const command: Command = {
  summary: "Show which engines and clients are here, and what the others would bring.",
  examples: ["dcnr engine list"],
  run: async ({ flags, out }) => {
    const known = (Object.entries(additions) as [Addition, AdditionFacts][]).map(([name, { gain }]) => ({
      name,
      presence: presenceOf(name),
      gain,
    }));
    const portable = {
      name: "portable",
      presence: "with the program",
      gain: "training and serving, the same bits on every machine",
    };
    const rows = [portable, ...known];
    if (flags.is("json")) out.json(rows);
    else
      out.table(
        [{ title: "NAME" }, { title: "WHERE" }, { title: "WHAT IT BRINGS", shrink: true }],
        rows.map(({ name, presence, gain }) => [name, presence, gain]),
      );
    return 0;
  },
};
