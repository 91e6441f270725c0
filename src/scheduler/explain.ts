// Why a job waits, as one sentence with the root cause; its place in line and its probable start are said beside it. Pure.

import { duration } from "../core/words/duration.ts";
import type { PendingJob, QueueView, Reason } from "./jobs.ts";
import { bytes, nearest, suits } from "./placement/constraints.ts";
import type { FleetNode } from "./placement/types.ts";
import { type QuotaRefusal, type Resource, Usage } from "./quota.ts";

export interface ExplainView extends Pick<QueueView, "nodes" | "nowMs" | "books" | "cohortOf"> {
  nameOf(pnode: string): string;
  /** Of a job, for people. */
  callJob(id: string): string;
}

export function explain(job: PendingJob, reason: Reason, view: ExplainView): string {
  switch (reason.code) {
    case "never":
      return `it can never start on the PNodes that are online: ${neverReason(job, view)}`;
    case "needs":
      return `waits for ${listed(reason.needs.map((id) => view.callJob(id)))}`;
    case "credits":
      return `${job.owner} has no credits left: an operator can raise the budget with \`dcnr credits budget\``;
    case "quota":
      return quotaReason(reason.refusal, view);
    case "room":
      return roomReason(job, view);
    case "behind":
      return `waits behind ${view.callJob(reason.job)}, which comes first`;
    case "starting":
      return "there is room for it: it is being placed";
  }
}

/** The PNode that lacks least, and what it lacks. */
function neverReason(job: PendingJob, { nodes, nameOf }: ExplainView): string {
  const found = nearest(nodes, job.policy);
  if (!found) return "no PNode is online";
  if (found.lacks !== "") return `${found.lacks} (the nearest is ${nameOf(found.node.id)})`;
  const needed = job.demand?.units.reduce((sum, { memoryBytes, count }) => sum + memoryBytes * count, 0) ?? 0;
  const largest = job.demand?.units[0]?.memoryBytes ?? 0;
  const all = nodes.filter((node) => suits(node, job.policy));
  const lent = all.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  if (largest > found.node.memoryBytes)
    return `one of its VNodes needs ${bytes(largest)}; the nearest, ${nameOf(found.node.id)}, lends ${bytes(found.node.memoryBytes)}`;
  const { maxPricePerHour } = job.policy.requirements;
  if (maxPricePerHour > 0 && needed <= lent)
    return `together its PNodes would cost more than ${maxPricePerHour} an hour`;
  return `it needs ${bytes(needed)} at once; the ${all.length} that would do lend ${bytes(lent)} together`;
}

const units: Readonly<Record<Resource, (amount: number) => string>> = {
  cores: (amount) => `${amount} ${amount === 1 ? "core" : "cores"}`,
  gpus: (amount) => `${amount} ${amount === 1 ? "GPU" : "GPUs"}`,
  memoryBytes: bytes,
  jobs: (amount) => `${amount} running ${amount === 1 ? "job" : "jobs"}`,
};

function quotaReason(
  { whose, resource, queue, owner, wanted, used, limit, reclaims }: QuotaRefusal,
  view: ExplainView,
) {
  const amount = units[resource];
  const want = resource === "jobs" ? "" : `needs ${amount(wanted)}; `;
  if (whose === "owner") return `${want}${owner} uses ${amount(used)} of at most ${amount(limit)} in queue ${queue}`;
  if (whose === "queue") return `${want}queue ${queue} uses ${amount(used)} of its quota of ${amount(limit)}`;
  const book = view.books.get(view.cohortOf(queue));
  const usage = book && new Usage(book);
  const borrowers = Object.keys(book?.queues ?? {}).filter(
    (name) => name !== queue && (usage?.borrowed(name, resource) ?? 0) > 0,
  );
  const lent = borrowers.map((name) => `${name} has borrowed ${amount(usage?.borrowed(name, resource) ?? 0)}`);
  if (reclaims && lent.length > 0)
    return `${want}queue ${queue} has ${amount(limit)} of its own, of which ${lent.join(" and ")}`;
  const idle = lent.length > 0 ? `, and ${lent.join(" and ")}` : "";
  return `${want}queue ${queue} uses ${amount(used)} of its quota of ${amount(limit)}, and others leave too little idle${idle}`;
}

function roomReason({ policy, demand }: PendingJob, { nodes }: ExplainView): string {
  if (nodes.length === 0) return "no PNode is online: lend a machine with `dcnr join`";
  const { gpus, gpuMemoryBytes } = policy.requirements;
  if (gpus > 0) {
    const able = (node: FleetNode) => node.gpus.filter((memory) => memory >= gpuMemoryBytes).length;
    const all = nodes.reduce((sum, node) => sum + able(node), 0);
    const free = nodes.reduce((sum, node) => sum + Math.max(0, able(node) - (node.gpus.length - node.gpusFree)), 0);
    if (free < gpus) return `needs ${units.gpus(gpus)} on each PNode; ${free} free of ${all}`;
  }
  const needed = demand?.units.reduce((sum, { memoryBytes, count }) => sum + memoryBytes * count, 0) ?? 0;
  const free = nodes.reduce((sum, node) => sum + Math.max(0, node.memoryFreeBytes), 0);
  const lent = nodes.reduce((sum, node) => sum + node.memoryBytes, 0);
  const gang = (demand?.vnodes ?? 0) > 1 ? ` for its ${demand?.vnodes} VNodes at once` : "";
  return `needs ${bytes(needed)} of memory${gang}; ${bytes(free)} free of ${bytes(lent)} on ${nodes.length} ${nodes.length === 1 ? "PNode" : "PNodes"}`;
}

/** Beside the sentence: place in line and probable start, which is a promise to the first alone. */
export function outlook(position: number, reason: Reason, nowMs: number): string {
  const place = `number ${position} in line`;
  if (reason.code !== "room") return place;
  if (reason.atMs === undefined) return `${place}; nobody knows when room becomes free`;
  const inTime = duration(Math.max(0, reason.atMs - nowMs) / 1000);
  // Whoever ends early may let others take what those further back counted on.
  return position === 1
    ? `${place}; starts in ${inTime} at the latest if all keep to their limits`
    : `${place}; starts in ${inTime} or so if all keep to their limits`;
}

function listed(names: readonly string[]): string {
  const shown = names.length > 3 ? [...names.slice(0, 3), `${names.length - 3} more`] : names;
  return shown.join(shown.length === 2 ? " and " : ", ");
}
