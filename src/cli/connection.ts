// How commands reach an orchestrator: one flag, one default, and a sentence when nobody answers.

import { Client } from "../client/client.ts";
import type { CommandContext, OptionSpec } from "./command.ts";

export const orchestratorPortDefault = 7700;
export const orchestratorDefault = `127.0.0.1:${orchestratorPortDefault}`;

export const connectionOptions: Readonly<Record<string, OptionSpec>> = {
  orchestrator: {
    type: "string",
    value: "ADDRESS",
    summary: "orchestrator to ask",
    default: orchestratorDefault,
  },
  "api-key": { type: "string", value: "KEY", summary: "key for orchestrators that ask for one" },
};

export async function withClient<T>(context: CommandContext, use: (client: Client) => Promise<T>): Promise<T> {
  const apiKey = context.flags.optionalText("api-key");
  const client = new Client(context.flags.text("orchestrator"), { fetch, ...(apiKey ? { apiKey } : {}) });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
