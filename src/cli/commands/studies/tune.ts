// `dcnr tune`: hands a study to its queue.

import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { readTextFile } from "../../flags/files.ts";
import { readJobs } from "../../flags/job-files.ts";
import { submissionOptions, submit } from "../../flags/submission.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { followStudy, showStudy } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Search the settings that train best: trials are sessions that share the fleet through the queue.",
  details:
    "The file is a job of the kind tune: what is searched, by which search, and who is stopped early. The same study comes to the same table and winner whatever the machines did.",
  positionals: [{ name: "FILE.yaml" }],
  options: {
    ...connectionOptions,
    ...submissionOptions,
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
      const [job] = await submit(client, context, specs);
      const id = job?.id ?? "";
      if (flags.is("watch")) out.note(`study ${id}`);
      const study = flags.is("watch") ? await followStudy(client, id, out, signal) : await client.studies.get(id);
      if (flags.is("json")) out.json(study);
      else showStudy(out, study);
      return study.status === "failed" || study.status === "cancelled" ? 1 : 0;
    }),
};
