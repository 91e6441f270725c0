// FleetService: what runs where and why anything waits, for people, scripts and the dashboard.

import { FleetService } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { workloadsIn } from "../records/workloads.ts";
import type { LoggedEvent } from "../views/events.ts";
import { problemsOf } from "../views/health.ts";
import type { MetricPoint, Metrics } from "../views/metrics.ts";
import type { Utilisation } from "../views/utilisation.ts";
import type { Views } from "../views/views.ts";
import { Backlog, type Bell, backlogMax, Watchers } from "../views/watching.ts";
import { page } from "./pages.ts";

export interface FleetApiNeeds {
  readonly context: Context;
  readonly presence: Presence;
  readonly views: Views;
  readonly metrics: Metrics;
  readonly utilisation: Utilisation;
  readonly bell: Bell;
}

const framesPerSecondDefault = 2;
const framesPerSecondMax = 20;
/** A frame with more would be slower to draw than to send. */
const framePNodesMax = 2_000;
const frameVNodesMax = 5_000;

export function fleetService(needs: FleetApiNeeds): ServedService {
  const { mirror, world, tasks, events } = needs.context;
  const watchers = new Watchers();
  return service(FleetService, {
    listPNodes: async (request) => {
      const { items, nextPageToken } = page(mirror.under(prefix.pnodes), (one) => one.id, request);
      return { pnodes: items.map((record) => needs.views.pnode(record)), nextPageToken };
    },
    listVNodes: async (request) => {
      const named = mirror.get(key.workload(request.session));
      const all = request.session === "" ? workloadsIn(mirror) : named ? [named] : [];
      const names = all
        .filter(({ status }) => status !== "deleted")
        .flatMap((workload) => workload.vnodes.map((vnode) => ({ workload, vnode })));
      const { items, nextPageToken } = page(names, ({ workload, vnode }) => `${workload.id}/${vnode}`, request);
      return { vnodes: items.flatMap(({ workload, vnode }) => needs.views.vnode(workload, vnode)), nextPageToken };
    },
    getStatus: async () => {
      await needs.metrics.recall(sessionsOf(needs));
      return status(needs);
    },
    listEvents: async ({ afterSequence, pageSize, session, kindPrefix }) => ({
      events: events.list({ after: Number(afterSequence), limit: pageSize || 200, session, kindPrefix }).map(eventView),
    }),
    watchFleet: async function* ({ framesPerSecond }, call) {
      const rate = Math.min(framesPerSecond || framesPerSecondDefault, framesPerSecondMax);
      const newEvents = new Backlog<LoggedEvent>(backlogMax.events, events.list({ limit: 100 }));
      const newMetrics = new Backlog<MetricPoint & { session: string }>(backlogMax.metrics);
      const forget = [
        watchers.enter(call.caller.address),
        events.subscribe((event) => newEvents.add([event])),
        needs.metrics.subscribe((session, points) => newMetrics.add(points.map((point) => ({ ...point, session })))),
      ];
      try {
        while (!call.signal.aborted && !tasks.stopped) {
          yield {
            status: status(needs),
            pnodes: mirror
              .under(prefix.pnodes)
              .slice(0, framePNodesMax)
              .map((record) => needs.views.pnode(record)),
            vnodes: sessionsOf(needs)
              .filter((session) => session.status !== "done")
              .flatMap((session) => session.vnodes.flatMap((vnode) => needs.views.vnode(session, vnode)))
              .slice(0, frameVNodesMax),
            events: newEvents.take().map(eventView),
            metrics: newMetrics.take().map(metricView),
          };
          await needs.bell.wait(world.timers, 1000 / rate, call.signal, tasks.signal);
          await pause(needs.context, 1000 / rate, call.signal);
        }
      } finally {
        for (const one of forget) one();
      }
    },
  });
}

/** The least time between frames, however much changes. */
export function pause(context: Context, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted || context.tasks.stopped) return resolve();
    const done = () => {
      cancel();
      signal.removeEventListener("abort", done);
      context.tasks.signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = context.world.timers.after(ms, done);
    signal.addEventListener("abort", done, { once: true });
    context.tasks.signal.addEventListener("abort", done, { once: true });
  });
}

function sessionsOf({ context }: FleetApiNeeds): SessionRecord[] {
  return context.mirror.under(prefix.sessions).filter((session) => session.status !== "deleted");
}

function status(needs: FleetApiNeeds) {
  const { mirror } = needs.context;
  const pnodes = mirror.under(prefix.pnodes);
  const capacity = needs.utilisation.totals();
  const of = (kind: string) => capacity.find((one) => one.kind === kind) ?? { total: 0, used: 0 };
  const sessions = sessionsOf(needs).map((session) => needs.views.session(session));
  return {
    orchestrators: needs.presence.ids(),
    pnodesOnline: pnodes.filter((pnode) => pnode.status === "online" || pnode.status === "leaving").length,
    pnodesLost: pnodes.filter((pnode) => pnode.status === "lost").length,
    cores: Math.round(of("cores").total),
    memoryBytes: BigInt(Math.round(of("memory").total)),
    gpus: of("gpus").total,
    coresUsed: Math.round(of("cores").used),
    memoryUsedBytes: BigInt(Math.round(Math.max(0, of("memory").used))),
    sessions,
    waits: sessions.flatMap((session) => session.waits ?? []),
    problems: problemsOf(needs.context),
    capacity,
    history: [...needs.utilisation.history],
  };
}

export function eventView(event: LoggedEvent) {
  return {
    sequence: BigInt(event.sequence),
    orchestrator: event.orchestrator,
    wallMs: BigInt(Math.round(event.wallMs)),
    level: event.level,
    kind: event.kind,
    message: event.message,
    session: event.session ?? "",
    vnode: event.vnode ?? "",
    pnode: event.pnode ?? "",
    fromPnode: event.fromPnode ?? "",
    step: BigInt(event.step ?? 0),
  };
}

export function metricView(point: MetricPoint & { readonly session?: string }) {
  return {
    name: point.name,
    step: BigInt(point.step),
    value: point.value,
    vnode: point.vnode,
    session: point.session ?? "",
  };
}
