// Adapters between files, models and networks: an adapted network is made of one that is there, so that its weights are shared.

import type { Client } from "../../client/client.ts";
import { fail, hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { importPeft } from "../../models/adapters/peft-read.ts";
import { type AdapterWish, withAdapters } from "../../network/adapters.ts";
import type { CommandContext, Flags, OptionSpec } from "../command.ts";
import { loaderOf, type ModelToStore, openState } from "./model-files.ts";

export const adapterOptions: Readonly<Record<string, OptionSpec>> = {
  adapter: {
    type: "number",
    least: 1,
    most: 4096,
    value: "RANK",
    summary: "train an adapter (LoRA) of this rank beside the weights of --from, which stay as they are",
  },
  "adapter-alpha": {
    type: "number",
    least: 1e-6,
    most: 1e6,
    fraction: true,
    value: "N",
    summary: "what the adapter counts (default: its rank)",
  },
  "adapter-targets": {
    type: "string",
    value: "NODES",
    summary: "nodes that it stands beside, such as attention_*,ffn_up_1 (default: all but the head)",
  },
};

export function adapterWish(flags: Flags): AdapterWish | undefined {
  const rank = flags.optionalNumber("adapter");
  const alpha = flags.optionalNumber("adapter-alpha");
  const targets = flags.optionalText("adapter-targets");
  if (rank === undefined) {
    if (alpha !== undefined || targets !== undefined)
      fail("invalid_argument", "--adapter-alpha and --adapter-targets need --adapter RANK");
    return undefined;
  }
  if (!flags.has("from")) fail("invalid_argument", "--adapter needs --from: it stands beside weights that are there");
  return {
    rank,
    ...(alpha !== undefined && { alpha }),
    ...(targets !== undefined && { targets: targets.split(",").map((target) => target.trim()) }),
  };
}

/** The network with adapters, made if it is not there yet; equal wishes have one name. */
export async function adaptedNetwork(client: Client, network: string, wish: AdapterWish): Promise<string> {
  const { definition } = await client.networks.get(network);
  const adapted = withAdapters(definition, wish);
  const id = `${network}-adapter-${sha256(adapted).slice(0, 8)}`;
  try {
    await client.networks.create(adapted, { id });
  } catch (error) {
    if (!hasCode(error, "already_exists")) throw error;
  }
  return id;
}

/** A folder of PEFT beside a model that is there. */
export async function importAdapter(
  { signal }: Pick<CommandContext, "signal">,
  client: Client,
  folder: string,
  { base, name }: { readonly base: string; readonly name: string },
): Promise<ModelToStore> {
  const state = await openState(signal, client, base, "last");
  const { definition, matrices } = await importPeft(folder, state.definition);
  const load = loaderOf(state);
  const { tokenizer, chat } = state;
  return { name, definition, tokenizer, chat, load: async (parameter) => matrices.get(parameter) ?? load(parameter) };
}
