// `dcnr queue set`: makes a queue or changes its quotas.

import type { QueueInit } from "../../../client/calls/jobs.ts";
import { fail } from "../../../core/errors.ts";
import type { Command, Flags } from "../../command.ts";
import { parseBytes } from "../../flags/quantities.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showQueues } from "../../shown/queues.ts";

const quotaForm = "cores=N,gpus=N,memory=SIZE,jobs=N; `none` for no bound";

export const command: Command = {
  summary: "Make a queue, or change its quotas: what is not given stays as it is.",
  details:
    "Queues of one cohort lend each other what they do not use; whoever lent it gets it back. A queue without a quota bounds nobody.",
  positionals: [{ name: "QUEUE" }],
  options: {
    ...connectionOptions,
    quota: { type: "string", value: "AMOUNTS", summary: `what is the queue's own: ${quotaForm}` },
    "borrow-max": {
      type: "string",
      value: "AMOUNTS",
      summary: "what it may use above its quota while others leave it idle",
    },
    "lend-max": { type: "string", value: "AMOUNTS", summary: "what of its quota others may borrow" },
    "owner-max": { type: "string", value: "AMOUNTS", summary: "what each owner may use in it" },
    owner: {
      type: "string",
      value: "NAME=AMOUNTS",
      many: true,
      summary: "what one owner may use instead; may be repeated",
    },
    cohort: { type: "string", value: "NAME", summary: "the cohort that it belongs to" },
    weight: { type: "number", fraction: true, summary: "share of its jobs' owners beside others'" },
    "pending-max": { type: "number", summary: "jobs that may wait in it" },
  },
  examples: [
    "dcnr queue set night --quota gpus=8,jobs=4 --cohort lab",
    "dcnr queue set day --quota gpus=4 --lend-max gpus=2 --owner-max jobs=2 --owner anna=jobs=6",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const queue = await client.queues.set(context.arguments[0] ?? "", changeFrom(flags));
      if (flags.is("json")) out.json(queue);
      else showQueues(out, [queue]);
      return undefined;
    }),
};

function changeFrom(flags: Flags): QueueInit {
  const amounts = (flag: string) => {
    const given = flags.optionalText(flag);
    return given === undefined ? undefined : amountsOf(given, `--${flag}`);
  };
  const nominal = amounts("quota");
  const borrowMax = amounts("borrow-max");
  const lendMax = amounts("lend-max");
  const ownerMax = amounts("owner-max");
  const cohort = flags.optionalText("cohort");
  const weight = flags.optionalNumber("weight");
  const pendingMax = flags.optionalNumber("pending-max");
  return {
    ...(nominal && { nominal }),
    ...(borrowMax && { borrowMax }),
    ...(lendMax && { lendMax }),
    ...(ownerMax && { ownerMax }),
    ...(cohort !== undefined && { cohort }),
    ...(weight !== undefined && { weight }),
    ...(pendingMax !== undefined && { pendingMax }),
    owners: Object.fromEntries(flags.texts("owner").map(ownerOf)),
  };
}

function ownerOf(text: string): [string, ReturnType<typeof amountsOf>] {
  const cut = text.indexOf("=");
  if (cut <= 0) fail("invalid_argument", `--owner takes NAME=AMOUNTS such as anna=jobs=6, not "${text}"`);
  return [text.slice(0, cut), amountsOf(text.slice(cut + 1), "--owner")];
}

function amountsOf(text: string, flag: string) {
  const limits: { cores?: number; gpus?: number; memoryBytes?: number; jobs?: number } = {};
  if (text.trim() === "none") return limits;
  for (const part of text.split(",")) {
    const [name = "", value = ""] = part.split("=").map((piece) => piece.trim());
    const number = () => {
      const amount = Number(value);
      return value !== "" && Number.isFinite(amount)
        ? amount
        : fail("invalid_argument", `${flag}: ${name} takes a number, not "${value}"`);
    };
    if (name === "cores") limits.cores = number();
    else if (name === "gpus") limits.gpus = number();
    else if (name === "jobs") limits.jobs = number();
    else if (name === "memory") limits.memoryBytes = parseBytes(value, `${flag}: memory`);
    else fail("invalid_argument", `${flag} takes ${quotaForm}; not "${part}"`);
  }
  return limits;
}
