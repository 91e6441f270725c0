// `dcnr engine add`: brings what the package leaves out.

import type { Command } from "../../command.ts";
import { add, additionNamed, additions, bytesIn, presenceOf } from "../../machine/additions.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Install what the package leaves out: the native runtime, or the client of a database.",
  details: `From the npm registry, in the versions that were tested, into your data directory.\n${Object.entries(
    additions,
  )
    .map(([name, { gain }]) => `  ${name.padEnd(10)} ${gain}`)
    .join("\n")}`,
  positionals: [{ name: "NAME" }],
  examples: ["dcnr engine add native", "dcnr engine add postgres"],
  run: async ({ arguments: [name = ""], flags, out }) => {
    const addition = additionNamed(name);
    const before = presenceOf(addition);
    if (before === "not here") {
      out.note(`fetching ${additions[addition].packages.join(" and ")} from the npm registry ...`);
      const folder = await add(addition);
      const size = await bytesIn(folder);
      if (flags.is("json")) out.json({ name: addition, folder, bytes: size });
      else {
        out.line(`added ${addition}: ${bytes(size)} in ${folder}`);
        out.line(`You have now: ${additions[addition].gain}. PNodes and orchestrators find it at their next start.`);
      }
    } else if (flags.is("json")) out.json({ name: addition, presence: before });
    else out.line(`${addition} is here already (${before})`);
    return 0;
  },
};
