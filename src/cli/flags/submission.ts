// What `dcnr job submit` and `dcnr tune` have in common: whose work it is, under which name, and that data which come with
// DCNR are there before it starts.

import type { JobSpecInit } from "../../client/calls/jobs.ts";
import type { Client } from "../../client/client.ts";
import type { CommandContext } from "../command.ts";
import { builtinNames, ensureDataset } from "../content/builtin.ts";
import { datasetsOf } from "./job-files.ts";

export const submissionOptions = {
  key: {
    type: "string",
    value: "KEY",
    summary: "name of this submission: again with the same, nothing is done twice",
  },
  owner: { type: "string", value: "NAME", summary: "whose work this is (default: the API key's, or local)" },
} as const;

export async function submit(client: Client, { flags, out }: CommandContext, specs: readonly JobSpecInit[]) {
  const named = datasetsOf(specs);
  for (const name of builtinNames) if (named.has(name)) await ensureDataset(client, name, out);
  const owner = flags.optionalText("owner");
  return client.jobs.submit(specs, owner === undefined ? {} : { owner });
}
