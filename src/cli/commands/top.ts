// `dcnr top`: a live view of sessions, models, machines and rates in the terminal.

import type { Client } from "../../client/client.ts";
import { hasCode } from "../../core/errors.ts";
import type { Event } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { WatchFleetResponse } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Model } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../joining/connection.ts";
import type { Output } from "../shown/output.ts";
import { afterKey, noChoices } from "../top/choices.ts";
import { listenForKeys } from "../top/keys.ts";
import { type Known, topLines } from "../top/view.ts";

/** Models change seldom, and are not told with the frames. */
const modelsEveryMs = 3_000;
const eventsKept = 200;
const lossesKept = 2_000;

export const command: Command = {
  summary: "Watch machines, sessions, models and rates live: arrows scroll, / filters, q ends it.",
  options: { ...connectionOptions, once: { type: "boolean", summary: "show one frame and end" } },
  examples: ["dcnr top", "dcnr top --once --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const live = out.isTerminal && !flags.is("once") && !flags.is("json");
      if (live) return watch(client, out, signal);
      for await (const frame of client.fleet.watch(signal)) {
        if (flags.is("json")) out.json(frame);
        else await showOnce(client, out, frame);
        break;
      }
      return undefined;
    }),
};

async function showOnce(client: Client, out: Output, frame: WatchFleetResponse): Promise<void> {
  const seen = new Seen(client);
  await seen.take(frame);
  for (const line of topLines(seen.known(), noChoices, windowOf(out))) out.line(line);
}

async function watch(client: Client, out: Output, signal: AbortSignal): Promise<undefined> {
  const over = new AbortController();
  const ended = AbortSignal.any([signal, over.signal]);
  const seen = new Seen(client);
  let choices = noChoices;
  const draw = () => {
    if (!seen.hasFrame || ended.aborted) return;
    const lines = topLines(seen.known(), choices, { ...windowOf(out), height: process.stdout.rows ?? 40 });
    out.raw(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join("\n")}\x1b[J`);
  };
  const unlisten = listenForKeys((key) => {
    const next = afterKey(choices, key, seen.machines);
    if (next === undefined) over.abort();
    else choices = next;
    draw();
  });
  process.stdout.on("resize", draw);
  out.raw("\x1b[?1049h\x1b[?25l");
  try {
    for await (const frame of client.fleet.watch(ended)) {
      await seen.take(frame);
      draw();
    }
  } catch (error) {
    if (!ended.aborted || !hasCode(error, "cancelled")) throw error;
  } finally {
    unlisten();
    process.stdout.off("resize", draw);
    out.raw("\x1b[?25h\x1b[?1049l");
  }
  return undefined;
}

function windowOf(out: Output) {
  return { width: out.width, unicode: out.unicode, paint: out.tone };
}

/** What frames have told so far, and what they leave out. */
class Seen {
  readonly #client: Client;
  readonly #events: Event[] = [];
  readonly #losses = new Map<string, number[]>();
  #frame: WatchFleetResponse | undefined;
  #models: Model[] = [];
  #modelsAtMs = Number.NEGATIVE_INFINITY;

  constructor(client: Client) {
    this.#client = client;
  }

  get hasFrame(): boolean {
    return this.#frame?.status !== undefined;
  }

  get machines(): number {
    return this.#frame?.pnodes.length ?? 0;
  }

  async take(frame: WatchFleetResponse): Promise<void> {
    this.#frame = frame;
    this.#events.push(...frame.events);
    this.#events.splice(0, Math.max(0, this.#events.length - eventsKept));
    // Curves of sessions that this program has not seen begin are asked for once.
    for (const { id, loss } of frame.status?.sessions ?? [])
      if (loss && !this.#losses.has(id)) this.#losses.set(id, await this.#past(id));
    for (const { session, name, value } of frame.metrics) {
      const losses = name === "loss" ? this.#losses.get(session) : undefined;
      losses?.push(value);
      losses?.splice(0, losses.length - lossesKept);
    }
    if (performance.now() - this.#modelsAtMs < modelsEveryMs) return;
    this.#modelsAtMs = performance.now();
    this.#models = await this.#client.models.list();
  }

  known(): Known {
    const { status, pnodes = [], vnodes = [] } = this.#frame ?? {};
    if (!status) throw new Error("there is no frame yet");
    const told = { status, pnodes, vnodes, events: this.#events, losses: this.#losses, models: this.#models };
    return { address: this.#client.address, ...told };
  }

  async #past(session: string): Promise<number[]> {
    const points = await this.#client.sessions.metrics(session, ["loss"]);
    return points.map(({ value }) => value).slice(-lossesKept);
  }
}
