// `dcnr key rotate`: a new key in the place of an old one, by the old one's word. The id stays.

import { join } from "node:path";
import { keyIdOf } from "../../../core/keys.ts";
import { rotateKey } from "../../../system/keys.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { holdDirectory } from "../../machine/one-user.ts";

export const command: Command = {
  summary: "Replace a key by a new one, for which the old one signs. The id stays, and with it rights and reputation.",
  details:
    "Without a flag your own key; with --machine that of the PNode in a directory, which must not run; with --network that of the network. The old key is forgotten here and refused by orchestrators as soon as they have seen the new one: show it soon, dcnr whoami and dcnr join do. Whoever had stolen the old key before can still sign for a key of his own until then.",
  options: {
    ...connectionOptions,
    machine: { type: "boolean", summary: "the key of the PNode on this machine" },
    network: { type: "boolean", summary: "the network's key; needs the scope admin" },
    dir: directoryOption,
  },
  examples: [
    "dcnr key rotate",
    "dcnr key rotate --machine",
    "dcnr key rotate --network --orchestrator lab.example:7700",
  ],
  run: async (context) => {
    const { flags, out } = context;
    if (flags.is("network"))
      return withClient(context, async (client) => {
        const { networkKey: key } = await client.rights.rotateNetworkKey();
        if (flags.is("json")) return void out.json({ key });
        out.line(`the network shows the key ${key} from now on; whoever knows the old one follows`);
        out.note("write the new key where you hand out addresses: ADDRESS#KEY, and make new invites");
        return undefined;
      });
    const world = realWorld({ logFormat: "none" });
    const folder = flags.is("machine") ? "pnode" : "person";
    const directory = dataDirectory(flags.optionalText("dir"), process.env, folder);
    const held = await holdDirectory(directory, "dcnr key rotate", world);
    try {
      const { id, publicKey } = await rotateKey(directory, world.chance);
      const key = keyIdOf(publicKey);
      if (flags.is("json")) return void out.json({ id, key });
      out.line(`${id} has the key ${key} from now on, in ${join(directory, "key.pem")}`);
      const next = flags.is("machine") ? "dcnr join" : "dcnr whoami --orchestrator ADDRESS";
      out.note(`the old one is refused once orchestrators have seen the new one: ${next}`);
      return undefined;
    } finally {
      held.release();
    }
  },
};
