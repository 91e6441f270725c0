// `dcnr job submit`: hands the jobs of a file to their queues.

import { dirname, join } from "node:path";
import type { JobSpecInit } from "../../../client/calls/jobs.ts";
import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { parsePipelineFile } from "../../content/pipelines.ts";
import { readTextFile } from "../../flags/files.ts";
import { readJobs } from "../../flags/job-files.ts";
import { submissionOptions, submit } from "../../flags/submission.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { followJob, showJob, showJobs } from "../../shown/jobs.ts";

/** A data job may name the file of its pipeline, which lies beside the file of jobs: orchestrators read no files. */
function withPipeline(path: string): (job: JobSpecInit) => Promise<JobSpecInit> {
  return async (job) => {
    const { file, ...others } = job.spec ?? {};
    if (job.kind !== "data" || typeof file !== "string") return job;
    if (Object.keys(others).length > 0)
      fail("invalid_argument", `${path}: a data job has either \`file\` or \`steps\` and \`save\`, not both`);
    const found = join(dirname(path), file);
    return {
      ...job,
      spec: (await parsePipelineFile(await readTextFile(found, "pipeline"), found)) as JobSpecInit["spec"],
    };
  };
}

export const command: Command = {
  summary: "Submit the jobs of a YAML file. They start when there is room and quota for all of each.",
  details:
    "A file has one job, or several under `jobs`; a job may need others of the file by name. With --key the same file can be submitted again without doing anything twice.",
  positionals: [{ name: "FILE.yaml" }],
  options: {
    ...connectionOptions,
    ...submissionOptions,
    watch: { type: "boolean", summary: "wait until the last job of the file has ended" },
  },
  examples: ["dcnr job submit examples/job.yaml", "dcnr job submit night.yaml --key night-2030-01-31 --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const path = context.arguments[0] ?? "";
      const text = await readTextFile(path, "file of jobs");
      const specs = await Promise.all((await readJobs(text, path, flags.optionalText("key"))).map(withPipeline(path)));
      let jobs = await submit(client, context, specs);
      if (flags.is("watch")) {
        for (const { id } of jobs) {
          if (signal.aborted) break;
          out.note(`job ${id}`);
          await followJob(client, id, out, signal);
        }
        jobs = await Promise.all(jobs.map(({ id }) => client.jobs.get(id)));
      }
      const [only] = jobs;
      if (flags.is("json")) out.json(jobs);
      else if (jobs.length === 1 && only) showJob(out, only);
      else showJobs(out, jobs);
      return jobs.some(({ status }) => status === "failed" || status === "cancelled") ? 1 : 0;
    }),
};
