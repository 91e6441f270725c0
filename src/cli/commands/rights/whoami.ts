// `dcnr whoami`: a person's own key, and what it is good for at an orchestrator.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { personKey } from "../../machine/keys/person-key.ts";
import { plain } from "../../shown/output.ts";

export const command: Command = {
  summary: "Show your own key, and whom the orchestrator takes you for.",
  details:
    "The key is made at first use and stays on this machine. An operator gives it rights with dcnr key admit KEY. It is shown over encrypted connections: to orchestrators on other machines, or at ADDRESS#KEY.",
  options: connectionOptions,
  examples: ["dcnr whoami", "dcnr whoami --orchestrator lab.example:7700"],
  run: async (context) => {
    const { flags, out } = context;
    const { id } = await personKey();
    if (!flags.is("json")) out.line(`your key: ${id}`);
    return withClient(context, async (client) => {
      const caller = await client.rights.caller();
      const { scopes, owner, refusal, address, id: shown } = caller;
      if (flags.is("json"))
        return void out.json({
          key: id,
          shown: shown !== "",
          address,
          scopes,
          owner,
          refusal,
          networkKey: caller.networkKey,
        });
      const who = owner ? `, as ${plain(owner)}` : "";
      out.line(
        refusal
          ? `here you may read what is open to all: ${plain(refusal)}`
          : `here you may: ${scopes.join(", ")}${who} (calling from ${plain(address)})`,
      );
      return undefined;
    });
  },
};
