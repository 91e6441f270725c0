// `dcnr credits bond`: this machine lays down credits of its own as a surety, with the key with which it lends itself.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Client } from "../../../client/client.ts";
import { fail } from "../../../core/errors.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command } from "../../command.ts";
import { connectionOptions } from "../../joining/connection.ts";
import { pinned } from "../../joining/known-networks.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { machineKey, wholeCredits } from "../../shown/credits.ts";

/** How long an orchestrator may take to show its key. */
const meetMs = 5_000;

export const command: Command = {
  summary: "Lay down credits of this machine as a surety for its work, or take them back (--release).",
  details:
    "A machine that is banned loses its bond to those whose work was lost. It can be taken back once all work has vested and is final, " +
    "and not while the machine hosts a VNode of a session that is checked, or is barred or in doubt.",
  positionals: [{ name: "CREDITS" }],
  options: {
    orchestrator: connectionOptions["orchestrator"] as NonNullable<(typeof connectionOptions)[string]>,
    release: { type: "boolean", summary: "take them back" },
    dir: directoryOption,
  },
  examples: ["dcnr credits bond 50000", "dcnr credits bond 50000 --release"],
  run: async ({ flags, out, signal, arguments: [text = ""] }) => {
    const credits = wholeCredits(text);
    const identity = await machineKey(flags.optionalText("dir"));
    if (!identity)
      fail("failed_precondition", "this machine has no key yet: lend it first with dcnr join, or name its --dir");
    const directory = dataDirectory(flags.optionalText("dir"), process.env, "pnode");
    const world = realWorld({ logFormat: "none" });
    const say = (sentence: string) => out.note(sentence);
    const path = join(directory, "networks.json");
    const [address = ""] = await pinned([flags.text("orchestrator")], { path, world, signal, say, patienceMs: meetMs });
    const client = new Client(address, { fetch, identity });
    try {
      await client.credits.bond({ id: randomUUID(), credits, release: flags.is("release") });
    } finally {
      await client.close();
    }
    out.line(`${credits} credits are ${flags.is("release") ? "available again" : "laid down"}.`);
    return undefined;
  },
};
