// What an orchestrator tells Prometheus: the fleet, the sessions, the store. All of it is read when it is scraped.
// Every orchestrator tells the whole network's state, so dashboards take the largest value rather than a sum.

import type { MetricRegistry, Sample } from "../../monitoring/registry.ts";
import type { Orchestrator } from "../../orchestrator/orchestrator.ts";
import { isQueued, type JobStatus } from "../../orchestrator/records/jobs.ts";
import type { SessionRecord, SessionStatus } from "../../orchestrator/records/sessions.ts";
import { key, prefix } from "../../orchestrator/records/store-keys.ts";

type Running = () => Orchestrator | undefined;

const statuses: readonly SessionStatus[] = ["created", "waiting", "running", "suspended", "done", "failed"];

export function describeOrchestrator(registry: MetricRegistry, running: Running): void {
  describeFleet(registry, running);
  describeSessions(registry, running);
  describeVNodes(registry, running);
  describeJobs(registry, running);
  describeLedger(registry, running);
  describeAvailability(registry, running);
  registry.gauge("dcnr_store_up", "1 while the state store answers.", () =>
    running()?.parts.context.mirror.down ? 0 : 1,
  );
}

/** Of the last day, by the orchestrator that observes it; others tell nothing. */
function describeAvailability(registry: MetricRegistry, running: Running): void {
  const today = () => running()?.parts.availability.lately();
  const value = (of: (row: NonNullable<ReturnType<typeof today>>) => number) => () => {
    const row = today();
    return row === undefined ? [] : [{ labels: {}, value: of(row) }];
  };
  const day = "in the last 24 hours, as far as it was observed since this orchestrator began to";
  registry.gauge(
    "dcnr_availability_ratio",
    `Share of the time that owners gave in which PNodes were there, ${day}.`,
    value((row) => row.uptime),
  );
  registry.gauge(
    "dcnr_availability_failures",
    `PNodes that were lost ${day}.`,
    value((row) => row.failures),
  );
  registry.gauge(
    "dcnr_availability_lost_seconds",
    `Time that PNodes were missing ${day}.`,
    value((row) => row.lostMs / 1000),
  );
}

/** As far as this orchestrator has read the ledger, which it does at least whenever a head is signed. */
function describeLedger(registry: MetricRegistry, running: Running): void {
  const balances = (part: "earned" | "available" | "escrow" | "bond") => () =>
    (running()?.parts.ledger.balances() ?? []).map((balance): Sample => {
      const { pnode } = balance;
      const name = running()?.parts.context.mirror.get(key.pnode(pnode))?.name ?? "";
      return { labels: { pnode, name }, value: balance[part] };
    });
  registry.gauge(
    "dcnr_credits_earned",
    "Credits that a PNode has earned, not counting what it lost again.",
    balances("earned"),
  );
  registry.gauge("dcnr_credits_available", "Credits of a PNode that have vested.", balances("available"));
  registry.gauge("dcnr_credits_escrow", "Credits of a PNode that have not vested yet.", balances("escrow"));
  registry.gauge("dcnr_credits_bond", "Credits that a PNode has laid down as a surety.", balances("bond"));
  registry.gauge("dcnr_session_credits_spent", "Credits that a session has spent.", () =>
    (running()?.parts.ledger.spending() ?? []).map(({ session, spent }) => ({ labels: { session }, value: spent })),
  );
  registry.counter(
    "dcnr_ledger_settlements_total",
    "Settlements that this orchestrator has written.",
    () => running()?.parts.ledger.settlements ?? 0,
  );
  registry.gauge(
    "dcnr_ledger_head",
    "Number of the newest signed head.",
    () => running()?.parts.heads.newest?.number ?? 0,
  );
}

/** Events since the start by kind: losses, moves, checkpoints. */
export function countEvents(registry: MetricRegistry, orchestrator: Orchestrator): void {
  const events = registry.count("dcnr_events_total", "Events by kind and level, of all orchestrators.");
  orchestrator.parts.context.events.subscribe(({ kind, level }) => events.add({ kind, level }));
}

function describeFleet(registry: MetricRegistry, running: Running): void {
  const records = () => running()?.parts.context.mirror.under(prefix.pnodes) ?? [];
  const withStatus = (...wanted: string[]) => records().filter(({ status }) => wanted.includes(status)).length;
  registry.gauge(
    "dcnr_orchestrators_online",
    "Orchestrators that share the store.",
    () => running()?.parts.presence.ids().length ?? 0,
  );
  registry.gauge("dcnr_pnodes_online", "PNodes that are here.", () => withStatus("online", "leaving"));
  registry.gauge("dcnr_pnodes_lost", "PNodes that vanished and have not come back.", () => withStatus("lost"));
  registry.gauge(
    "dcnr_pnodes_attached",
    "PNodes whose stream ends at this orchestrator.",
    () => running()?.parts.registry.attachments.size ?? 0,
  );
  const each = (value: (view: PNodeNumbers) => number) => () =>
    records()
      .filter(({ status }) => status === "online" || status === "leaving")
      .map((record): Sample => {
        const view = running()?.parts.views.pnode(record) as PNodeNumbers;
        return { labels: { pnode: record.id, name: record.name }, value: value(view) };
      });
  registry.gauge(
    "dcnr_pnode_load_ratio",
    "Load of a PNode's machine, 0 to 1.",
    each(({ load }) => load),
  );
  registry.gauge(
    "dcnr_pnode_memory_used_bytes",
    "Memory a PNode uses.",
    each((view) => Number(view.memoryUsedBytes)),
  );
  registry.gauge(
    "dcnr_pnode_vnodes",
    "VNodes that a PNode hosts.",
    each(({ vnodes }) => vnodes),
  );
  registry.gauge(
    "dcnr_pnode_reliability_ratio",
    "How much a PNode is relied on, 0 to 1.",
    each(({ reliability }) => reliability),
  );
  registry.counter(
    "dcnr_pnode_failures_total",
    "Times a PNode vanished.",
    each(({ failures }) => Number(failures)),
  );
}

interface PNodeNumbers {
  readonly load: number;
  readonly memoryUsedBytes: bigint;
  readonly vnodes: number;
  readonly reliability: number;
  readonly failures: bigint;
}

function sessionsOf(running: Running): SessionRecord[] {
  const all = running()?.parts.context.mirror.under(prefix.sessions) ?? [];
  return all.filter((session) => session.status !== "deleted");
}

function isOpen({ status }: SessionRecord): boolean {
  return status === "running" || status === "waiting" || status === "suspended";
}

function describeSessions(registry: MetricRegistry, running: Running): void {
  registry.gauge("dcnr_sessions", "Training sessions by status.", () => {
    const sessions = sessionsOf(running);
    return statuses.map((status) => ({
      labels: { status },
      value: sessions.filter((session) => session.status === status).length,
    }));
  });
  const each = (value: (session: SessionRecord, parts: Orchestrator["parts"]) => number | undefined) => () =>
    sessionsOf(running).flatMap((session): Sample[] => {
      const parts = running()?.parts;
      const read = parts && (isOpen(session) || session.status === "done") ? value(session, parts) : undefined;
      return read === undefined ? [] : [{ labels: { session: session.id, network: session.network }, value: read }];
    });
  const newest = (name: string) =>
    each((session, { metrics }) => {
      const point = metrics.newest(session.id, name);
      return point?.value;
    });
  registry.gauge(
    "dcnr_session_step",
    "Steps that every VNode of the session has completed.",
    each((session, { steps }) => steps.reached(session)),
  );
  registry.gauge(
    "dcnr_session_steps",
    "Steps the session will have in the end.",
    each(({ identity }) => identity.steps),
  );
  registry.gauge(
    "dcnr_session_line_step",
    "The recovery line: newest step durable at every VNode.",
    each(({ line }) => line),
  );
  registry.gauge("dcnr_session_loss", "Training loss of the newest step.", newest("loss"));
  registry.gauge("dcnr_session_validation_loss", "Loss on the validation split.", newest("validation_loss"));
  registry.gauge("dcnr_session_validation_accuracy_ratio", "Accuracy, 0 to 1.", newest("validation_accuracy"));
  registry.gauge(
    "dcnr_session_samples_per_second",
    "Samples trained on per second, over the last seconds.",
    each((session, { steps }) => (isOpen(session) ? steps.samplesPerSecond(session, steps.reached(session)) : 0)),
  );
  registry.gauge(
    "dcnr_session_waits",
    "VNodes of the session that something or somebody keeps waiting for longer than usual.",
    each((session, { waits }) => waits.of(session).reduce((sum, { vnodes = 0 }) => sum + vnodes, 0)),
  );
  registry.gauge("dcnr_session_wait_seconds", "How long each root of what a session waits for has lasted.", () =>
    sessionsOf(running).flatMap((session) =>
      (running()?.parts.waits.of(session) ?? []).map((wait): Sample => {
        const { kind = "", pnode = "", vnode = "", sinceSeconds = 0 } = wait;
        return { labels: { session: session.id, network: session.network, kind, pnode, vnode }, value: sinceSeconds };
      }),
    ),
  );
}

function describeVNodes(registry: MetricRegistry, running: Running): void {
  const each = (value: (view: { step?: bigint; stepMs?: number; pnode?: string }) => number | undefined) => () =>
    sessionsOf(running)
      .filter(isOpen)
      .flatMap((session) =>
        session.vnodes.flatMap((vnode) =>
          (running()?.parts.views.vnode(session, vnode) ?? []).flatMap((view): Sample[] => {
            const read = value(view);
            return read === undefined
              ? []
              : [{ labels: { session: session.id, vnode, pnode: view.pnode ?? "" }, value: read }];
          }),
        ),
      );
  registry.gauge(
    "dcnr_vnode_step",
    "The step a VNode has reached on a PNode.",
    each(({ step, pnode }) => (pnode ? Number(step ?? 0n) : undefined)),
  );
  registry.gauge(
    "dcnr_vnode_step_seconds",
    "Computing time of a VNode's newest step.",
    each(({ stepMs, pnode }) => (pnode ? (stepMs ?? 0) / 1000 : undefined)),
  );
  registry.gauge("dcnr_vnodes_unplaced", "VNodes that no PNode hosts.", () =>
    sessionsOf(running)
      .filter(isOpen)
      .map((session) => ({
        labels: { session: session.id },
        value: running()?.parts.controller.unplaced.get(session.id)?.length ?? 0,
      })),
  );
}

const jobStatuses: readonly JobStatus[] = ["pending", "running", "suspended", "done", "failed", "cancelled"];

function describeJobs(registry: MetricRegistry, running: Running): void {
  const jobs = () => running()?.parts.context.mirror.under(prefix.jobs) ?? [];
  const queues = () => [...new Set(["default", ...jobs().map(({ queue }) => queue)])];
  registry.gauge("dcnr_jobs", "Jobs by queue and status.", () =>
    queues().flatMap((queue) =>
      jobStatuses.map((status): Sample => {
        const value = jobs().filter((job) => job.queue === queue && job.status === status).length;
        return { labels: { queue, status }, value };
      }),
    ),
  );
  registry.gauge("dcnr_job_wait_seconds", "How long the job that has waited longest for its turn has waited.", () =>
    queues().map((queue): Sample => {
      const nowMs = running()?.parts.context.world.clock.wallMs() ?? 0;
      const waits = jobs().filter((job) => job.queue === queue && isQueued(job));
      const oldest = waits.reduce((first, job) => Math.min(first, job.submittedWallMs), nowMs);
      return { labels: { queue }, value: (nowMs - oldest) / 1000 };
    }),
  );
  registry.counter(
    "dcnr_job_passes_total",
    "Passes over the queue.",
    () => running()?.parts.jobs.scheduling.passes ?? 0,
  );
  registry.counter(
    "dcnr_job_decisions_total",
    "Jobs that passes over the queue decided about.",
    () => running()?.parts.jobs.scheduling.decided ?? 0,
  );
}
