// SessionService: the handlers; what they mean is in sessions.ts.

import { fail } from "../../core/errors.ts";
import { canonicalJson } from "../../core/hash.ts";
import { parseId, type SessionId } from "../../core/ids.ts";
import { isFirstLane } from "../../network/lanes.ts";
import { SessionService, StateChoice } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { type CallContext, type ServedService, service } from "../../protocol/network.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { findSession } from "../records/fresh.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { StepRecord } from "../records/vnodes.ts";
import { ownedBy } from "../rights/limits.ts";
import { bestToGive } from "../sessions/bests.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { createSession, deleteSession, readyToGoOn, startSession, suspendSession } from "../sessions/sessions.ts";
import { budgetAsked } from "../sessions/settings.ts";
import { lineToGive } from "../trust/finality.ts";
import type { LoggedEvent } from "../views/events.ts";
import type { MetricPoint, Metrics } from "../views/metrics.ts";
import type { Views } from "../views/views.ts";
import { Backlog, type Bell, backlogMax, Watchers } from "../views/watching.ts";
import type { Controller } from "../workloads/controller.ts";
import { eventView, metricView, pause } from "./fleet.ts";
import { page, pageByPosition } from "./pages.ts";

export interface SessionApiNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
  readonly controller: Controller;
  readonly views: Views;
  readonly metrics: Metrics;
  readonly bell: Bell;
  readonly jobs: Jobs;
}

const watchIdleMs = 1_000;
const watchFrameMs = 200;
const downloadLifetimeMs = 60 * 60_000;

export function sessionService(needs: SessionApiNeeds): ServedService {
  const { mirror } = needs.context;
  const view = (record: SessionRecord) => ({ session: needs.views.session(record) });
  const watchers = new Watchers();
  return service(SessionService, {
    createSession: async ({ settings, idempotencyKey, start }, { caller }) => {
      if (!settings) fail("invalid_argument", "the session needs settings: network, dataset and steps at least");
      const session = await createSession(needs, settings, idempotencyKey, ownedBy(caller.roles));
      // An earlier call, whose answer was lost, may have made it long ago.
      return view(start && session.status !== "done" ? await startSession(needs, session.id) : session);
    },
    startSession: async ({ id, expected, budget }) => {
      const session = await findSession(needs.context, id);
      const isJobs = await needs.jobs.isQueued(session);
      if (!isJobs) return view(await startSession(needs, session.id, expected, budgetAsked(budget)));
      await readyToGoOn(needs, session, expected, budgetAsked(budget));
      await needs.jobs.resumeFor(session);
      return view(session);
    },
    suspendSession: async ({ id }) => {
      const suspended = await suspendSession(needs, parseId<SessionId>(id, "the session"));
      await needs.jobs.holdFor(suspended);
      return view(suspended);
    },
    getSession: async ({ id }) => {
      const session = await findSession(needs.context, id);
      await needs.metrics.recall([session]);
      return view(session);
    },
    listSessions: async (request) => {
      const all = mirror.under(prefix.sessions).filter((session) => session.status !== "deleted");
      const { items, nextPageToken } = page(all, (one) => one.id, request);
      await needs.metrics.recall(items);
      return { sessions: items.map((record) => needs.views.session(record)), nextPageToken };
    },
    deleteSession: async ({ id }) => {
      await deleteSession(needs, parseId<SessionId>(id, "the session"));
      return {};
    },
    watchSession: ({ id }, call) => watch(needs, watchers, id, call),
    listMetrics: async (request) => {
      const session = await findSession(needs.context, request.session);
      const points = await needs.metrics.all(session.id, request.names, Number(request.fromStep));
      const { items, nextPageToken } = pageByPosition(points, request);
      return { metrics: items.map((point) => metricView({ ...point, session: session.id })), nextPageToken };
    },
    listStepRoots: async (request) => {
      const session = await findSession(needs.context, request.session);
      const roots = new Map<number, string>();
      for await (const { record } of listItems<StepRecord>(mirror.store, prefix.stepsOf(session.id)))
        for (const { step, root } of record.roots) roots.set(step, root);
      const sorted = Array.from(roots, ([step, root]) => ({ step: BigInt(step), root })).sort((a, b) =>
        Number(a.step - b.step),
      );
      const { items, nextPageToken } = pageByPosition(sorted, request);
      return { roots: items, nextPageToken };
    },
    listStates: async ({ session: id, choice, provisional }) => {
      const session = await findSession(needs.context, id);
      const line = lineToGive(session, provisional);
      const step = choice === StateChoice.BEST ? (bestToGive(session, provisional)?.step ?? line) : line;
      if (step === 0 && session.line > 0)
        fail(
          "failed_precondition",
          `nothing of session ${id} is final yet: wait until its results are checked (dcnr session show ${id}), or ask for what is provisional`,
        );
      const states = [];
      // All lanes end with the same weights: those of the first have the network's own names.
      for (const vnode of session.vnodes.filter(isFirstLane))
        states.push(await grantedState(needs, session, vnode, step));
      return {
        step: BigInt(step),
        states,
        definition: await needs.compiled.text(session.identity.definition),
        settings: canonicalJson({ identity: session.identity, policy: session.policy }),
      };
    },
  });
}

async function grantedState({ context }: SessionApiNeeds, session: SessionRecord, vnode: string, step: number) {
  const record = await context.mirror.read(key.vnode(session.id, vnode));
  const state = record?.durable[String(step)];
  if (!state) {
    if (step === 0) return { vnode };
    fail("not_found", `session ${session.id} has no state of VNode ${vnode} at step ${step}`);
  }
  const { states } = context.blobs;
  const bytes = (await states.size(state.hash)) ?? fail("data_loss", `the state ${state.hash} is gone`);
  const grant = await states.grant("download", state.hash, bytes, downloadLifetimeMs);
  return { vnode, hash: state.hash, bytes: BigInt(state.bytes), url: grant.url, headers: { ...grant.headers } };
}

async function* watch(needs: SessionApiNeeds, watchers: Watchers, id: string, { signal, caller }: CallContext) {
  const { mirror, world, tasks, events } = needs.context;
  const first = await findSession(needs.context, id);
  const newEvents = new Backlog<LoggedEvent>(backlogMax.events, events.list({ session: first.id, limit: 50 }));
  const newMetrics = new Backlog<MetricPoint>(backlogMax.metrics, needs.metrics.recent(first.id));
  const forget = [
    watchers.enter(caller.address),
    events.subscribe((event) => event.session === first.id && newEvents.add([event])),
    needs.metrics.subscribe((session, points) => session === first.id && newMetrics.add(points)),
  ];
  try {
    while (!signal.aborted && !tasks.stopped) {
      const record = mirror.get(key.session(first.id));
      const session = needs.views.session(record ?? { ...first, status: "deleted" });
      yield { session, metrics: newMetrics.take().map(metricView), events: newEvents.take().map(eventView) };
      if (!record || record.status === "done" || record.status === "failed" || record.status === "deleted") return;
      await pause(needs.context, watchFrameMs, signal);
      await needs.bell.wait(world.timers, watchIdleMs, signal, tasks.signal);
    }
  } finally {
    for (const one of forget) one();
  }
}
