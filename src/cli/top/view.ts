// One picture of `dcnr top`: what waits, sessions with their curves, served models, machines, events. A pure function of
// what is known, of what was pressed and of the window's size.

import { duration } from "../../core/words/duration.ts";
import { plural } from "../../core/words/plural.ts";
import type { Event } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { GetStatusResponse, PNode, VNode } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Model } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { Session } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { cut, plain, type Tone } from "../shown/output.ts";
import { sparkline } from "../shown/plot.ts";
import { bar, bytes } from "../shown/progress.ts";
import { inOrder } from "../shown/session-order.ts";
import { waitLines } from "../shown/waits.ts";
import { type TopColumn, topTable } from "./table.ts";

export interface Known {
  readonly address: string;
  readonly status: GetStatusResponse;
  readonly pnodes: readonly PNode[];
  readonly vnodes: readonly VNode[];
  readonly models: readonly Model[];
  /** The oldest first. */
  readonly events: readonly Event[];
  /** Losses by session, the oldest first. */
  readonly losses: ReadonlyMap<string, readonly number[]>;
}

export interface Choices {
  readonly filter: string;
  /** While a filter is being typed. */
  readonly typing: boolean;
  /** How many machines are scrolled past. */
  readonly offset: number;
}

export interface Window {
  readonly width: number;
  /** Undefined where everything may be shown. */
  readonly height?: number;
  readonly unicode: boolean;
  paint(tone: Tone, text: string): string;
}

const eventsShown = 6;
/** Sessions that are over step back. */
const overShown = 3;
const machinesLeast = 3;

export function topLines(known: Known, choices: Choices, window: Window): string[] {
  const matches = matcher(choices.filter);
  const matching = known.status.sessions.filter((one) => matches(one.id, one.status, one.settings?.network ?? ""));
  const { shown: sessions, more } = inOrder(matching, overShown);
  const models = known.models.filter((one) => matches(one.name, one.status, one.source));
  const machines = byCondition(known.pnodes).filter((one) => matches(one.name, one.status, one.owner, one.region));
  const above = [
    ...head(known, window),
    "",
    ...(sessions.length > 0
      ? topTable(sessionColumns(known, window), sessions, window.width, window.paint)
      : [known.status.sessions.length > 0 ? `No session has "${plain(choices.filter)}" in it.` : "No sessions."]),
    ...(more > 0 ? [window.paint("dim", `and ${more} that ${more === 1 ? "is" : "are"} over`)] : []),
    ...(models.length > 0 ? ["", ...topTable(modelColumns, models, window.width, window.paint)] : []),
    "",
  ];
  const events = known.events.filter(({ message, kind }) => matches(message, kind)).slice(-eventsShown);
  const below = ["", ...events.map((event) => eventLine(event, window))];
  const table = topTable(machineColumns(known, window), machines, window.width, window.paint);
  if (window.height === undefined) return [...above, ...table, ...below];
  const room = Math.max(machinesLeast + 1, window.height - above.length - below.length - 1);
  const foot = window.paint("dim", cut(footer(choices, machines.length, room - 1), window.width));
  const middle = scrolled(table, choices.offset, room);
  return [...[...above, ...middle, ...below].slice(0, window.height - 1), foot];
}

function head({ address, status }: Known, { width, paint }: Window): string[] {
  const lost = status.pnodesLost > 0 ? `, ${status.pnodesLost} lost` : "";
  const title =
    `dcnr ${address}   ${plural(status.pnodesOnline, "machine")}${lost}   ${status.coresUsed} of ${status.cores} cores   ` +
    `${bytes(status.memoryUsedBytes)} of ${bytes(status.memoryBytes)}`;
  return [
    paint("bold", cut(plain(title), width)),
    ...status.problems.map((problem) => paint("bad", cut(`! ${plain(problem)}`, width))),
    ...waitLines(status.waits).map((line) => paint("warn", cut(line, width))),
  ];
}

const statusTones: Readonly<Record<string, Tone>> = {
  running: "good",
  online: "good",
  ready: "good",
  waiting: "warn",
  loading: "warn",
  suspect: "warn",
  leaving: "warn",
  failed: "bad",
  lost: "bad",
  quarantined: "bad",
  done: "dim",
  left: "dim",
  stopped: "dim",
};

function statusCell(status: string) {
  const tone = statusTones[status];
  return { text: status, ...(tone ? { tone } : {}) };
}

function sessionColumns({ losses }: Known, { unicode }: Window): TopColumn<Session>[] {
  const share = ({ step, totalSteps }: Session) => (totalSteps > 0n ? Number(step) / Number(totalSteps) : 0);
  return [
    { title: "SESSION", optional: 0, cell: ({ id }) => id },
    { title: "STATUS", optional: 0, cell: ({ status }) => statusCell(status) },
    { title: "STEP", optional: 0, align: "right", cell: ({ step, totalSteps }) => `${step}/${totalSteps}` },
    { title: "", optional: 3, cell: (session) => bar(share(session), 12, unicode) },
    { title: "LOSS", optional: 0, align: "right", cell: ({ loss }) => (loss ? loss.toFixed(4) : "") },
    {
      title: "",
      optional: 2,
      cell: ({ id }) => ({ text: sparkline(losses.get(id) ?? [], 16, unicode), tone: "accent" }),
    },
    {
      title: "SAMPLES/S",
      optional: 1,
      align: "right",
      cell: ({ samplesPerSecond }) => (samplesPerSecond ? samplesPerSecond.toFixed(0) : ""),
    },
    { title: "LEFT", optional: 4, align: "right", cell: timeLeft },
    {
      title: "ACCURACY",
      optional: 6,
      align: "right",
      cell: ({ validationAccuracy }) => (validationAccuracy ? `${(validationAccuracy * 100).toFixed(1)} %` : ""),
    },
    { title: "VNODES", optional: 7, align: "right", cell: ({ vnodes }) => String(vnodes) },
    { title: "LINE", optional: 8, align: "right", cell: ({ line }) => String(line) },
    { title: "NETWORK", optional: 5, cell: ({ settings }) => settings?.network ?? "" },
    { title: "DATASET", optional: 9, cell: ({ settings }) => settings?.dataset ?? "" },
  ];
}

function timeLeft({ status, step, totalSteps, stepsPerSecond }: Session): string {
  return status === "running" && stepsPerSecond ? duration(Number(totalSteps - step) / stepsPerSecond) : "";
}

const modelColumns: readonly TopColumn<Model>[] = [
  { title: "MODEL", optional: 0, cell: ({ name }) => name },
  { title: "STATUS", optional: 0, cell: ({ status }) => statusCell(status) },
  { title: "PARAMETERS", optional: 1, align: "right", cell: ({ parameters }) => parameters.toLocaleString("en") },
  { title: "REPLICAS", optional: 2, align: "right", cell: ({ replicas }) => String(replicas) },
  { title: "CONTEXT", optional: 3, align: "right", cell: ({ context }) => String(context) },
  { title: "SOURCE", optional: 4, cell: ({ source }) => source },
  { title: "REASON", optional: 5, rest: true, cell: ({ reason }) => ({ text: reason, tone: "warn" }) },
];

function machineColumns({ vnodes }: Known, { unicode }: Window): TopColumn<PNode>[] {
  const hosted = Map.groupBy(vnodes, ({ pnode }) => pnode);
  const lent = (pnode: PNode) => pnode.limits?.memoryBytes || pnode.capabilities?.memoryBytes || 0n;
  return [
    { title: "MACHINE", optional: 0, cell: ({ name, id }) => name || id },
    { title: "STATUS", optional: 0, cell: ({ status }) => statusCell(status) },
    {
      title: "LOAD",
      optional: 0,
      cell: ({ load }) => ({
        text: `${bar(Math.min(1, load), 8, unicode)} ${String(Math.round(load * 100)).padStart(3)} %`,
        ...(load > 0.95 ? { tone: "warn" as const } : {}),
      }),
    },
    {
      title: "CORES",
      optional: 5,
      align: "right",
      cell: ({ limits, capabilities }) => String(limits?.cpus || capabilities?.cores || ""),
    },
    {
      title: "MEMORY",
      optional: 1,
      align: "right",
      cell: (pnode) => `${bytes(pnode.memoryUsedBytes)} of ${bytes(lent(pnode))}`,
    },
    { title: "VNODES", optional: 2, align: "right", cell: ({ vnodes: count }) => String(count) },
    {
      title: "RELIABLE",
      optional: 4,
      align: "right",
      cell: ({ reliability }) => ({
        text: `${Math.round(reliability * 100)} %`,
        ...(reliability < 0.5 ? { tone: "warn" as const } : {}),
      }),
    },
    { title: "UPTIME", optional: 6, align: "right", cell: ({ uptimeSeconds }) => duration(Math.round(uptimeSeconds)) },
    {
      title: "GFLOP/S",
      optional: 7,
      align: "right",
      cell: ({ capabilities }) => (capabilities?.gflops ? capabilities.gflops.toFixed(0) : ""),
    },
    {
      title: "ROUND TRIP",
      optional: 8,
      align: "right",
      cell: ({ latencyMs }) => (latencyMs ? duration(latencyMs / 1000) : ""),
    },
    {
      title: "HEAT",
      optional: 11,
      align: "right",
      cell: ({ temperatureCelsius }) => (temperatureCelsius ? `${temperatureCelsius.toFixed(0)} °C` : ""),
    },
    { title: "REGION", optional: 10, cell: ({ region }) => region },
    { title: "OWNER", optional: 9, cell: ({ owner }) => owner },
    { title: "HOSTS", optional: 3, rest: true, cell: ({ id }) => (hosted.get(id) ?? []).map(hostedText).join(" ") },
  ];
}

function hostedText({ id, step }: VNode): string {
  return `${id}@${step}`;
}

const conditions = ["online", "leaving", "suspect", "quarantined", "lost", "left"];

/** Those that work first, those that are gone last. */
function byCondition(pnodes: readonly PNode[]): PNode[] {
  const place = ({ status }: PNode) => conditions.indexOf(status);
  return [...pnodes].sort((a, b) => place(a) - place(b) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

const eventTones: Readonly<Record<string, Tone>> = { info: "dim", debug: "dim", warn: "warn", error: "bad" };

function eventLine({ level, message, wallMs }: Event, { width, paint }: Window): string {
  const at = new Date(Number(wallMs)).toTimeString().slice(0, 8);
  return paint(eventTones[level] ?? "dim", cut(`${at} ${plain(message)}`, width));
}

/** The title stays; the rows below it move. */
function scrolled(table: readonly string[], offset: number, room: number): string[] {
  const [title = "", ...rows] = table;
  const first = Math.min(offset, Math.max(0, rows.length - (room - 1)));
  return [title, ...rows.slice(first, first + room - 1)];
}

function footer({ filter, typing }: Choices, machines: number, shown: number): string {
  if (typing) return `filter: ${plain(filter)}_   Enter keeps it, Esc drops it`;
  const kept = filter ? `   only "${plain(filter)}" (Esc: all)` : "";
  const more = machines > shown ? `   ↑↓ ${machines} machines` : "";
  return `q ends   / filters${more}${kept}`;
}

function matcher(filter: string): (...texts: readonly string[]) => boolean {
  const wanted = filter.toLowerCase();
  return (...texts) => wanted === "" || texts.some((text) => text.toLowerCase().includes(wanted));
}
