// `dcnr tune`: hands a study to its queue.

import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { builtinNames, ensureDataset } from "../../content/builtin.ts";
import { readTextFile } from "../../flags/files.ts";
import { datasetsOf, readJobs } from "../../flags/job-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { followStudy, showStudy } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Search the settings that train best: trials are sessions that share the fleet through the queue.",
  details:
    "The file is a job of the kind tune: what is searched, by which search, and who is stopped early. The same study comes to the same table and winner whatever the machines did.",
  positionals: [{ name: "FILE.yaml" }],
  options: {
    ...connectionOptions,
    key: {
      type: "string",
      value: "KEY",
      summary: "name of this submission: again with the same, nothing is done twice",
    },
    owner: { type: "string", value: "NAME", summary: "whose study this is (default: the API key's, or local)" },
    watch: { type: "boolean", summary: "wait until the study has ended" },
  },
  examples: ["dcnr tune examples/tuning/hyperband.yaml --watch"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const path = context.arguments[0] ?? "";
      const text = await readTextFile(path, "study");
      const specs = await readJobs(text, path, flags.optionalText("key"), "tune");
      const [spec, ...more] = specs;
      if (!spec || more.length > 0 || spec.kind !== "tune")
        return fail("invalid_argument", `${path} is not just one study: submit jobs with \`dcnr job submit\``);
      const named = datasetsOf(specs);
      for (const name of builtinNames) if (named.has(name)) await ensureDataset(client, name, out);
      const owner = flags.optionalText("owner");
      const [job] = await client.jobs.submit([spec], owner === undefined ? {} : { owner });
      const id = job?.id ?? "";
      if (flags.is("watch")) out.note(`study ${id}`);
      const study = flags.is("watch") ? await followStudy(client, id, out, signal) : await client.studies.get(id);
      if (flags.is("json")) out.json(study);
      else showStudy(out, study);
      return study.status === "failed" || study.status === "cancelled" ? 1 : 0;
    }),
};
