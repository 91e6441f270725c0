// `dcnr data work`: runs the data jobs of its owner whose turn it is, one after the other, beside the files that they read.

import { hostname } from "node:os";
import { resolve } from "node:path";
import type { Client } from "../../../client/client.ts";
import { messageOf, outlookOf } from "../../../core/errors.ts";
import { sleep, type World } from "../../../core/world.ts";
import { readPipeline } from "../../../pipeline/definition.ts";
import type { Job } from "../../../protocol/gen/dcnr/v1/job_pb.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command, CommandContext } from "../../command.ts";
import { type Made, make, makingOptions } from "../../content/making.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

/** Well within what an orchestrator waits for. */
const tellEveryMs = 5_000;
const askEveryMs = 5_000;

export const command: Command = {
  summary: "Run data jobs of yours whose turn it is, one after the other, beside the files that they read.",
  details:
    "Relative paths of a job's pipeline begin in --from. Files are read and written below --from and the folders that --folder names (s3://BUCKET/ for objects), and nowhere else. A worker that is stopped or killed loses nothing: the next one goes on, on the same machine from where it was.",
  options: {
    ...connectionOptions,
    from: { type: "string", value: "PATH", summary: "where relative paths begin (default: here)", default: "." },
    once: { type: "boolean", summary: "end when there is no job to run" },
    ...makingOptions,
  },
  examples: ["dcnr data work", "dcnr data work --from corpora --once"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const world = realWorld({ logFormat: "none" });
      let waiting = false;
      let failures = 0;
      while (!signal.aborted) {
        const taken = await client.jobs.takeData(hostname().slice(0, 64));
        if (taken) {
          waiting = false;
          if (!(await runJob(client, context, world, taken.job, taken.token))) failures += 1;
          continue;
        }
        if (flags.is("once")) break;
        if (!waiting) out.note("no data job of yours runs without a worker; waiting for one");
        waiting = true;
        await sleep(world.timers, askEveryMs, signal);
      }
      return failures > 0 ? 1 : 0;
    }),
};

/** False if it failed. One that somebody else has now, or that nobody wants any more, is let go. */
async function runJob(
  client: Client,
  context: CommandContext,
  world: World,
  job: Job,
  token: string,
): Promise<boolean> {
  const { flags, out, signal } = context;
  const spec = job.spec?.spec ?? "{}";
  const name = job.spec?.name || job.id;
  const lost = new AbortController();
  let progress = 0;
  out.note(`job ${name} begins`);
  const telling = tellWhile(() => client.jobs.tellData(job.id, token, { progress }), world, lost);
  try {
    const made = await make({
      // An orchestrator tells what to do: it must not get at other files of whoever runs this.
      ...{ client, context, world, folder: resolve(flags.text("from")), isForeign: true },
      pipeline: readPipeline(JSON.parse(spec), `job ${name}`),
      signal: AbortSignal.any([signal, lost.signal]),
      onShare: (share) => {
        progress = share;
      },
    });
    await client.jobs.tellData(job.id, token, { progress: 1, result: resultOf(made) });
    out.line(`job ${name} is done: ${made.map(nameOf).join(", ")}`);
    return true;
  } catch (thrown) {
    if (lost.signal.aborted && !signal.aborted) {
      out.note(`job ${name} is not this worker's any more`);
      return true;
    }
    const passes = signal.aborted || outlookOf(thrown) !== "final";
    const told = passes ? { progress, givesUp: true } : { progress, failure: messageOf(thrown) };
    await client.jobs.tellData(job.id, token, told);
    if (signal.aborted || (passes && flags.is("once"))) throw thrown;
    if (passes) {
      out.note(`job ${name} is tried again soon: ${messageOf(thrown)}`);
      await sleep(world.timers, askEveryMs, signal);
      return true;
    }
    out.line(`job ${name} failed: ${messageOf(thrown)}`);
    return false;
  } finally {
    telling.stop();
  }
}

/** Tells now and then; aborts `lost` once it is told that the job is somebody else's. */
function tellWhile(tell: () => Promise<boolean>, world: World, lost: AbortController): { stop(): void } {
  const ending = new AbortController();
  const run = async () => {
    while (!ending.signal.aborted) {
      await sleep(world.timers, tellEveryMs, ending.signal);
      // An orchestrator that does not answer is asked again: only a no counts.
      const goesOn = ending.signal.aborted || (await tell().catch(() => true));
      if (!goesOn) lost.abort();
    }
  };
  void run();
  return { stop: () => ending.abort() };
}

function nameOf(one: Made): string {
  return one.kind === "file" ? one.path : one.dataset.name;
}

function resultOf(made: readonly Made[]): Record<string, string> {
  return Object.fromEntries(
    made.map((one) => (one.kind === "file" ? [one.path, `${one.records} rows`] : [one.dataset.name, one.dataset.hash])),
  );
}
