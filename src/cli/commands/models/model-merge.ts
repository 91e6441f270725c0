// `dcnr model merge`: an adapted model as one without adapters.

import { fail } from "../../../core/errors.ts";
import { merged } from "../../../models/adapters/merge.ts";
import type { Command } from "../../command.ts";
import { loaderOf, openState, storeModel } from "../../content/model-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Add adapters to the weights that they stand beside: a new model without any.",
  details: "SOURCE is a session that was trained with --adapter, or a model that was imported with --onto.",
  positionals: [{ name: "SOURCE" }],
  options: {
    ...connectionOptions,
    name: { type: "string", value: "NAME", summary: "name of the new model and its network" },
  },
  examples: ["dcnr model merge gpt2-adapter-4c1d2e3f-9a0b1c2d3e4f --name gpt2-letters"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const [source = ""] = context.arguments;
      const name = flags.optionalText("name") ?? fail("invalid_argument", "--name is missing: the new model needs one");
      const state = await openState(signal, client, source, "last");
      const whole = merged({ definition: state.definition, load: loaderOf(state) });
      const { tokenizer, chat } = state;
      const model = await storeModel(context, client, { name, ...whole, tokenizer, chat });
      if (flags.is("json")) out.json(model);
      else out.line(`merged ${source} to ${model.name}: ${model.parameters.toLocaleString("en")} parameters`);
      return undefined;
    }),
};
