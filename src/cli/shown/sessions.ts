// How sessions are shown: as a table, and live with a progress bar until they end.

import type { Client } from "../../client/client.ts";
import type { Session } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { realWorld } from "../../system/world.ts";
import { condensed } from "./moves.ts";
import { type Output, plain } from "./output.ts";
import { type CurvePoint, plot } from "./plot.ts";
import { Progress } from "./progress.ts";
import { steadyWatch } from "./steady-watch.ts";
import { waitLines } from "./waits.ts";

export function showSessions(out: Output, sessions: readonly Session[], reasons = true): void {
  out.table(
    [
      { title: "SESSION" },
      { title: "STATUS" },
      { title: "STEP", align: "right" },
      { title: "LOSS", align: "right" },
      { title: "SAMPLES/S", align: "right" },
      { title: "LINE", align: "right" },
      { title: "NETWORK", shrink: true },
      { title: "DATASET", shrink: true },
      ...(reasons ? [{ title: "REASON", shrink: true }] : []),
    ],
    sessions.map((session) => [
      session.id,
      session.status,
      `${session.step}/${session.totalSteps}`,
      session.loss ? session.loss.toFixed(4) : "",
      session.samplesPerSecond ? session.samplesPerSecond.toFixed(0) : "",
      String(session.line),
      session.settings?.network ?? "",
      session.settings?.dataset ?? "",
      ...(reasons ? [session.reason] : []),
    ]),
  );
}

/** Small enough to leave the lines above it on the screen. */
const curveHeight = 6;
const curveWidthMax = 72;
const ended = new Set(["done", "failed", "suspended", "deleted"]);

/** Follows a session until it ends or the signal says stop; the last state seen. */
export async function follow(
  client: Client,
  id: string,
  out: Output,
  signal: AbortSignal,
  onUpdate: (session: Session) => void = () => {},
): Promise<Session | undefined> {
  const byStep = new Map<number, number>();
  let losses: CurvePoint[] = [];
  const curve = (columns: number) => plot(losses, Math.min(columns - 1, curveWidthMax), curveHeight, out.unicode);
  const progress = new Progress(out, "training", "", curve);
  let last: Session | undefined;
  const watch = () => client.sessions.watch(id, signal);
  for await (const update of steadyWatch(watch, realWorld({ logFormat: "none" }), signal)) {
    for (const { level, message } of condensed(update.events))
      out.note(out.tone(level === "info" ? "dim" : "warn", `  ${plain(message)}`));
    for (const { name, step, value } of update.metrics) if (name === "loss") byStep.set(Number(step), value);
    losses = Array.from(byStep, ([step, value]) => ({ step, value })).sort((a, b) => a.step - b.step);
    if (!update.session) continue;
    last = update.session;
    onUpdate(last);
    const waits = isQueued(last) ? await queued(client, last) : "";
    progress.update(Number(last.step), Number(last.totalSteps), waits || describe(last));
    // One that gave way to another job goes on later.
    if (ended.has(last.status) && waits === "") break;
  }
  out.status("");
  // What was drawn while it ran stays to be looked at.
  if (out.isTerminal) for (const line of curve(out.width)) out.line(out.tone("accent", line));
  return last;
}

function isQueued({ job, status }: Session): boolean {
  return job !== "" && (status === "created" || status === "suspended");
}

/** Why the job of a session waits for its turn; empty if nobody lets it go on. */
async function queued(client: Client, session: Session): Promise<string> {
  const { wait, status, reason, outlook } = await client.jobs.get(session.job);
  if (wait === "held" || (wait === "" && status !== "running")) return "";
  return wait === "" || wait === "starting"
    ? "starts"
    : `waits: ${plain(reason)}${outlook ? ` (${plain(outlook)})` : ""}`;
}

function describe(session: Session): string {
  const wait = session.waits[0];
  if (!wait && session.status === "waiting") return `waits: ${plain(session.reason)}`;
  const parts = [
    session.loss ? `loss ${session.loss.toFixed(4)}` : "",
    session.samplesPerSecond ? `${session.samplesPerSecond.toFixed(0)} samples/s` : "",
    session.validationAccuracy ? `accuracy ${(session.validationAccuracy * 100).toFixed(1)} %` : "",
    wait ? `waits: ${plain(wait.sentence)}` : "",
  ];
  return parts.filter(Boolean).join("  ");
}

export function showSession(out: Output, session: Session): void {
  const settings = session.settings;
  const lines: [string, string][] = [
    ["session", session.id],
    // What it waits for is said below.
    ["status", session.reason && session.waits.length === 0 ? `${session.status}: ${session.reason}` : session.status],
    ["network", settings?.network ?? ""],
    ["dataset", settings ? `${settings.dataset}, split ${settings.split}` : ""],
    ["step", `${session.step} of ${session.totalSteps}; recovery line ${session.line}`],
    ["batch", settings ? batchOf(settings) : ""],
    ["numerics", settings ? `${numericsOf(session)}, seed ${settings.seed}` : ""],
    ...(settings?.autonomy === "on" ? ([["autonomy", autonomyOf(session)]] as [string, string][]) : []),
    ["loss", session.loss ? session.loss.toFixed(6) : "(none yet)"],
    ["validation", session.validationLoss ? validation(session) : "(none yet)"],
    ["final", session.certificate || `${session.final} (results of this session are not checked)`],
    ["step root", session.stepRoot ? `${session.stepRoot} after step ${session.stepRootStep}` : "(none yet)"],
  ];
  for (const [name, text] of lines) out.line(`${out.tone("dim", name.padEnd(11))} ${text}`);
  for (const line of waitLines(session.waits)) out.advice(out.tone("warn", line));
}

function batchOf(settings: NonNullable<Session["settings"]>): string {
  const { batch, microbatches, lanes, syncEvery, syncAfter } = settings;
  const shared = lanes > 1 ? `, shared by ${lanes} lanes` : "";
  const apart = syncEvery > 0 ? ` that are put together every ${syncEvery} steps after ${syncAfter}` : "";
  return `${batch} in ${microbatches} microbatches${shared}${apart}`;
}

function autonomyOf({ keptBytesPerCheckpoint: bytes }: Session): string {
  const cost = bytes > 0n ? `; ${(Number(bytes) / 1e6).toFixed(1)} MB between its machines for each checkpoint` : "";
  return `on: goes on while no orchestrator is there${cost}`;
}

function validation(session: Session): string {
  const accuracy = session.validationAccuracy ? `, accuracy ${(session.validationAccuracy * 100).toFixed(2)} %` : "";
  return `loss ${session.validationLoss.toFixed(6)}${accuracy}`;
}

function numericsOf({ settings, numericsClass, eras }: Session): string {
  const name = settings?.numerics ?? "";
  const now = numericsClass && numericsClass !== name ? `${name} (class ${numericsClass})` : name;
  const before = eras.map((era) => `${era.numericsClass} up to step ${era.toStep}`);
  return before.length === 0 ? now : `${now}; before that ${before.join(", ")}: bits of these eras, not of one class`;
}
