// How commands reach an orchestrator: one flag, one default, and a sentence when nobody answers.

import { join } from "node:path";
import { Client } from "../client/client.ts";
import { isLoopback, parseAddress } from "../protocol/address.ts";
import { realWorld } from "../system/world.ts";
import type { CommandContext, OptionSpec } from "./command.ts";
import { dataFolder } from "./directories.ts";
import { pinned } from "./known-networks.ts";

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

/** How long an orchestrator may take to show its key for the first time. */
const meetMs = 5_000;

/** On this machine plain text will do; elsewhere whoever answers must hold the key that is given, or that was seen first. */
async function encrypted(address: string, { out, signal }: CommandContext): Promise<string> {
  const { host, key, secure } = parseAddress(address, orchestratorPortDefault);
  if (isLoopback(host) || key !== undefined || secure || address.startsWith("http://")) return address;
  const path = join(dataFolder(process.env), "networks.json");
  const world = realWorld({ logFormat: "none" });
  const say = (sentence: string) => out.note(sentence);
  return (await pinned([address], { path, world, signal, say, patienceMs: meetMs }))[0] as string;
}

export async function withClient<T>(context: CommandContext, use: (client: Client) => Promise<T>): Promise<T> {
  const apiKey = context.flags.optionalText("api-key");
  const address = await encrypted(context.flags.text("orchestrator"), context);
  const client = new Client(address, { fetch, ...(apiKey ? { apiKey } : {}) });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
