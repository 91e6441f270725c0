// How commands reach an orchestrator: one flag, one default, and a sentence when nobody answers.

import { join } from "node:path";
import { Client } from "../../client/client.ts";
import { DcnrError, hasCode, messageOf } from "../../core/errors.ts";
import { KeyBook } from "../../protocol/identity/key-book.ts";
import { isLoopback, parseAddress } from "../../protocol/routes/address.ts";
import { realWorld } from "../../system/world.ts";
import type { CommandContext, OptionSpec } from "../command.ts";
import { dataFolder } from "../machine/directories.ts";
import { personKey } from "../machine/keys/person-key.ts";
import { pinned, rememberSuccession } from "./known-networks.ts";

export const orchestratorPortDefault = 7700;
export const orchestratorDefault = `127.0.0.1:${orchestratorPortDefault}`;

/** How a machine joins there. An address of loopback leads others to themselves. */
export function joinAdvice(address: string): string {
  const where = isLoopback(parseAddress(address, orchestratorPortDefault).host) ? "On this machine" : "On any machine";
  return `${where}: dcnr join ${address}`;
}

export const connectionOptions: Readonly<Record<string, OptionSpec>> = {
  orchestrator: {
    type: "string",
    value: "ADDRESS",
    summary: "orchestrator to ask",
    default: orchestratorDefault,
  },
  "api-key": { type: "string", value: "KEY", summary: "key for orchestrators that ask for one" },
};

/** For what PNodes answer too. */
export const atOption: OptionSpec = {
  type: "string",
  value: "ADDRESS",
  summary: "orchestrator or PNode to ask instead",
};

/** How long an orchestrator may take to show its key for the first time. */
const meetMs = 5_000;

/** On this machine plain text will do; elsewhere whoever answers must hold the key that is given, or that was seen first. */
async function encrypted(address: string, { out, signal }: CommandContext): Promise<string> {
  const { host, key, secure } = parseAddress(address, orchestratorPortDefault);
  if ((isLoopback(host) && key === undefined) || secure || address.startsWith("http://")) return address;
  const world = realWorld({ logFormat: "none" });
  const say = (sentence: string) => out.note(sentence);
  return (await pinned([address], { path: networksPath(), world, signal, say, patienceMs: meetMs }))[0] as string;
}

function networksPath(): string {
  return join(dataFolder(process.env), "networks.json");
}

export async function withClient<T>(context: CommandContext, use: (client: Client) => Promise<T>): Promise<T> {
  const apiKey = context.flags.optionalText("api-key");
  const address = await encrypted(context.flags.optionalText("at") ?? context.flags.text("orchestrator"), context);
  // Only where the connection proves it: on this machine nobody asks.
  const identity = parseAddress(address, orchestratorPortDefault).key === undefined ? undefined : await personKey();
  let remembering = Promise.resolve();
  const keys = new KeyBook((former, newest) => {
    context.out.note(`the network shows a new key, for which the one you know has signed: ${newest}`);
    remembering = remembering.then(() => rememberSuccession(networksPath(), former, newest));
  });
  const client = new Client(address, { fetch, keys, ...(apiKey && { apiKey }), ...(identity && { identity }) });
  try {
    return await use(client);
  } catch (error) {
    throw withRemedy(error, address);
  } finally {
    await remembering;
    await client.close();
  }
}

/** Nobody at the address that is asked where none was named: most likely nothing runs here yet. */
export function withRemedy(error: unknown, address: string): unknown {
  if (address !== orchestratorDefault || !hasCode(error, "unavailable")) return error;
  return new DcnrError("unavailable", `${messageOf(error)}. dcnr up starts a network on this machine`, {
    cause: error,
  });
}
