// `dcnr leave`: has the process that lends this machine hand its work over and end; with --forget nothing of it stays.

import { existsSync, rmSync } from "node:fs";
import { fail } from "../../../core/errors.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command } from "../../command.ts";
import { writeWish } from "../../lending/wishes.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { holdDirectory } from "../../machine/one-user.ts";
import { managerHere } from "../../service/here.ts";
import { definitionOf } from "../../service/service.ts";

/** Handing over takes up to a quarter of a minute, and a step that is under way its time. */
const leavingMs = 60_000;

export const command: Command = {
  summary: "Take this machine back: what lends it hands its work over and ends.",
  details:
    "--forget also deletes what dcnr join keeps on disk: the machine's key, what it gave, caches. Joined again it is a new machine to the network.",
  options: {
    forget: { type: "boolean", summary: "delete the machine's key, totals and caches too" },
    dir: directoryOption,
  },
  examples: ["dcnr leave", "dcnr leave --forget"],
  run: async ({ flags, out }) => {
    const folder = dataDirectory(flags.optionalText("dir"), process.env, "pnode");
    if (flags.is("forget") && definitionOf(managerHere()) !== undefined)
      fail(
        "failed_precondition",
        "a service lends this machine and would start it again: dcnr service uninstall first",
      );
    if (!existsSync(folder)) {
      if (flags.is("json")) out.json({ left: false, forgotten: false });
      else out.line(`Nothing lends this machine from ${folder}.`);
      return 0;
    }
    await writeWish(folder, "leave");
    const held = await holdDirectory(folder, "dcnr leave", realWorld({ logFormat: "none" }), leavingMs);
    await writeWish(folder, "lend");
    held.release();
    if (flags.is("forget")) rmSync(folder, { recursive: true });
    if (flags.is("json")) out.json({ left: true, forgotten: flags.is("forget") });
    else
      out.line(
        flags.is("forget") ? `This machine is yours alone, and ${folder} is gone.` : "This machine is yours alone.",
      );
    return 0;
  },
};
