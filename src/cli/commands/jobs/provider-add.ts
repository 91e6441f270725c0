// `dcnr provider add`: where machines come from when there is more work than room.

import { providerKinds } from "../../../providers/kinds.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { offerForm, parseOffer, parseParameters, showProviders } from "../../shown/providers.ts";

export const command: Command = {
  summary: "Add a provider: PNodes are started there while work waits for room, and ended when they are idle.",
  details:
    "Only kinds that an orchestrator was started for: dcnr orchestrator --providers KIND. What each kind takes with --set is in docs/how-to/capacity.md. Keys and kubeconfigs stay in files on the orchestrator's machine.",
  positionals: [{ name: "NAME" }],
  options: {
    ...connectionOptions,
    kind: { type: "string", value: "KIND", choices: providerKinds, summary: `one of ${providerKinds.join(", ")}` },
    set: { type: "string", value: "NAME=VALUE", many: true, summary: "what the kind takes; may be repeated" },
    offer: { type: "string", value: "OFFER", many: true, summary: `a machine that can be had: ${offerForm}` },
    least: { type: "number", summary: "machines to keep, also without work", default: 0 },
    most: { type: "number", least: 1, summary: "machines at once", default: 1 },
    "budget-per-hour": {
      type: "number",
      fraction: true,
      summary: "what all machines may cost an hour; 0: no bound",
      default: 0,
    },
    budget: { type: "number", fraction: true, summary: "what may be spent in all; 0: no bound", default: 0 },
    "idle-seconds": { type: "number", fraction: true, summary: "a machine without work ends after this", default: 300 },
    "cool-down-seconds": {
      type: "number",
      fraction: true,
      summary: "after a start nobody is ended for this long",
      default: 120,
    },
  },
  examples: [
    "dcnr provider add here --kind process --offer small,cores=1,memory=2GB,most=4 --most 4",
    "dcnr provider add cluster --kind slurm --set partition=gpu --set time=12:00:00 --most 16 --offer one-gpu,cores=8,memory=32GB,gpus=1,most=16",
    "dcnr provider add desks --kind ssh --set hosts=maple,birch --set identity-file=/home/me/.ssh/id_ed25519",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const provider = await client.providers.add({
        name: context.arguments[0] ?? "",
        kind: flags.text("kind"),
        parameters: parseParameters(flags.texts("set")),
        offers: flags.texts("offer").map(parseOffer),
        limits: {
          least: flags.number("least"),
          most: flags.number("most"),
          budgetPerHour: flags.number("budget-per-hour"),
          budgetTotal: flags.number("budget"),
          idleSeconds: flags.number("idle-seconds"),
          coolDownSeconds: flags.number("cool-down-seconds"),
        },
      });
      if (flags.is("json")) return void out.json(provider);
      showProviders(out, [provider]);
      out.note(`see whether it works: dcnr provider test ${provider.name}`);
      return undefined;
    }),
};
