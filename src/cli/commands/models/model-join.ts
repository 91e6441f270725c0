// `dcnr model join`: several adapters of one base as one model, whose answers share passes and base weights.

import { fail } from "../../../core/errors.ts";
import { joined } from "../../../models/adapters/bank.ts";
import type { Command } from "../../command.ts";
import { loaderOf, openState, storeModel } from "../../content/model-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Put several adapters of one base side by side: one model that answers as each of them.",
  details:
    "BASE is what the adapters were trained or imported onto. Served, the model answers as NAME (without any adapter) and as NAME:ADAPTER; all of them share passes, and the base's weights lie in memory and in the store once.",
  positionals: [{ name: "BASE" }],
  options: {
    ...connectionOptions,
    name: { type: "string", value: "NAME", summary: "name of the new model and its network" },
    adapter: {
      type: "string",
      value: "ADAPTER=SOURCE",
      many: true,
      summary:
        "a session trained with --adapter, or a model imported with --onto, and what it is called here; may be repeated",
    },
  },
  examples: ["dcnr model join qwen --name qwen-all --adapter letters=qwen-letters --adapter law=qwen-law"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const [source = ""] = context.arguments;
      const name = flags.optionalText("name") ?? fail("invalid_argument", "--name is missing: the new model needs one");
      const wishes = flags.texts("adapter").map(wishOf);
      const open = async (from: string) => {
        const state = await openState(signal, client, from, "last");
        return { state, loadable: { definition: state.definition, load: loaderOf(state) } };
      };
      const base = await open(source);
      const adapters = [];
      for (const { called, from } of wishes) adapters.push({ name: called, ...(await open(from)).loadable });
      const bank = await joined(base.loadable, adapters);
      const { tokenizer, chat } = base.state;
      const names = wishes.map(({ called }) => called);
      const model = await storeModel(context, client, { name, ...bank, tokenizer, chat, adapters: names });
      if (flags.is("json")) out.json(model);
      else {
        out.line(`joined ${names.length} adapter(s) onto ${source} as ${model.name}`);
        out.advice(`Serve it: dcnr serve ${name}   then ask ${names.map((one) => `${name}:${one}`).join(", ")}`);
      }
      return undefined;
    }),
};

function wishOf(text: string): { readonly called: string; readonly from: string } {
  const [, called = "", from = ""] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (called === "") fail("invalid_argument", `--adapter takes ADAPTER=SOURCE, not "${text}"`);
  return { called, from };
}
