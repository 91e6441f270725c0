// One orchestrator: its parts put together, its services on one port. It keeps nothing that matters: all state is
// in the store, so any number of them share one, and any of them may die.

import { type Aside, asideHere } from "../core/aside.ts";
import { messageOf, outlookOf } from "../core/errors.ts";
import type { OrchestratorId, PNodeId } from "../core/ids.ts";
import { parseId } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import { sleep, withFields } from "../core/world.ts";
import { healthService } from "../protocol/health.ts";
import type { HttpHandler, Network, ServedService } from "../protocol/network.ts";
import { blobHttpHandler } from "../store/blob-http.ts";
import type { BlobStore } from "../store/blob-store.ts";
import type { StateStore } from "../store/state-store.ts";
import { datasetService } from "./api/datasets.ts";
import { fleetService } from "./api/fleet.ts";
import { inferenceService } from "./api/inference.ts";
import { membershipService } from "./api/membership.ts";
import { networkService } from "./api/networks.ts";
import { pnodeService } from "./api/pnodes.ts";
import { sessionService } from "./api/sessions.ts";
import { systemService } from "./api/system.ts";
import { vocabularyService } from "./api/vocabularies.ts";
import type { Context } from "./context.ts";
import { Assignments } from "./fleet/assignments.ts";
import type { Attachment } from "./fleet/attachment.ts";
import { Capacity } from "./fleet/capacity.ts";
import { Flapping } from "./fleet/flapping.ts";
import { Heartbeats } from "./fleet/heartbeats.ts";
import { Members } from "./fleet/members.ts";
import { Orphans } from "./fleet/orphans.ts";
import { Presence } from "./fleet/presence.ts";
import { Reachability } from "./fleet/reachability.ts";
import { Registry } from "./fleet/registry.ts";
import { Rooms } from "./fleet/rooms.ts";
import { orchestratorGate } from "./gate.ts";
import { endFormerReplicas } from "./records/former-replicas.ts";
import { Mirror } from "./records/mirror.ts";
import { Gateway } from "./serving/gateway.ts";
import { ApiKeys } from "./serving/keys.ts";
import { openAiHandler } from "./serving/openai.ts";
import { ReplicaCare } from "./serving/replica-care.ts";
import { UnnamedReplicas } from "./serving/unnamed.ts";
import { Circles } from "./sessions/circles.ts";
import { Compiled } from "./sessions/compiled.ts";
import { Garbage } from "./sessions/garbage.ts";
import { Preparing } from "./sessions/preparing.ts";
import { Rates } from "./sessions/rates.ts";
import { rebalanceSessions } from "./sessions/rebalancing.ts";
import { SessionCare } from "./sessions/session-care.ts";
import { Tasks } from "./tasks.ts";
import { type Timings, timingsDefault } from "./timings.ts";
import { Events } from "./views/events.ts";
import { Heard } from "./views/heard.ts";
import { Metrics } from "./views/metrics.ts";
import { Peers } from "./views/peers.ts";
import { Recoveries } from "./views/recoveries.ts";
import { Steps } from "./views/steps.ts";
import { Utilisation } from "./views/utilisation.ts";
import { Views } from "./views/views.ts";
import { Waits } from "./views/waits.ts";
import { Bell } from "./views/watching.ts";
import { Controller } from "./workloads/controller.ts";
import { Leases } from "./workloads/leases.ts";
import { Placing } from "./workloads/placing.ts";

export interface OrchestratorOptions {
  /** New at every start unless given. */
  readonly id?: string;
  /** "host:port"; port 0 takes a free one. */
  readonly listen: string;
  /** Where others reach it, if that differs from where it listens. */
  readonly advertise?: string;
  /** The software's version, for people. */
  readonly software?: string;
  readonly timings?: Partial<Timings>;
  /** False behind a proxy on the same machine: then local callers need API keys too. */
  readonly trustLoopback?: boolean;
  /** Served on the same port, beside blobs: the dashboard, the OpenAI-compatible API. */
  readonly http?: HttpHandler;
}

export interface OrchestratorDependencies {
  readonly world: World;
  /** Shows the network's key, which all orchestrators of the network share. */
  readonly network: Network;
  readonly store: StateStore;
  readonly blobs: BlobStore;
  /** Reads what strangers wrote, on another thread; on this one if absent. */
  readonly aside?: Aside;
  /** Where others reach a server of this machine that is bound to an address. */
  reachable?(bound: string): Promise<string>;
}

export interface Orchestrator {
  readonly id: OrchestratorId;
  /** Where others reach it. */
  readonly address: string;
  readonly services: readonly ServedService[];
  readonly http: HttpHandler;
  /** The parts, for tests and benchmarks. */
  readonly parts: Parts;
  /** Hands its work to the others and ends; PNodes attach elsewhere. */
  stop(): Promise<void>;
}

const rateSampleMs = 1_000;
const firstRefreshMs = 60_000;
const firstRefreshesLeast = 10;

export async function startOrchestrator(
  options: OrchestratorOptions,
  dependencies: OrchestratorDependencies,
): Promise<Orchestrator> {
  const { network, store, blobs } = dependencies;
  const incarnation = Buffer.from(dependencies.world.chance.bytes(6)).toString("hex");
  const id = parseId<OrchestratorId>(options.id ?? `orchestrator-${incarnation}`, "the orchestrator's id");
  const world = { ...dependencies.world, log: withFields(dependencies.world.log, { orchestrator: id }) };
  const tasks = new Tasks(world);
  const mirror = new Mirror(store, world);
  const events = new Events(world, mirror.store, id, incarnation);
  const context = {
    id,
    incarnation,
    address: options.advertise ?? options.listen,
    software: options.software ?? "unknown",
    world,
    aside: dependencies.aside ?? asideHere,
    mirror,
    blobs,
    events,
    tasks,
    timings: timingsFor(options.timings ?? {}),
  };
  const parts = assemble(context, network);
  const keys = new ApiKeys(mirror.store, world, options.trustLoopback ?? true);
  const gateway = new Gateway({ ...parts, network });
  const services = [
    systemService(context),
    healthService(() => !tasks.stopped, world.timers),
    pnodeService(parts),
    fleetService(parts),
    membershipService({ ...parts, networkKey: network.id }),
    networkService(parts),
    sessionService(parts),
    datasetService(parts),
    vocabularyService(context),
    inferenceService(parts, gateway, keys),
  ];
  const blobHttp = blobHttpHandler(blobs);
  const openAi = openAiHandler({ world, generator: gateway, keys });
  const http: HttpHandler = async (request, peer) =>
    (await blobHttp(request, peer)) ?? (await openAi(request, peer)) ?? options.http?.(request, peer);

  await firstRefresh(mirror, world);
  const gate = orchestratorGate(context, parts.members, keys, network.id);
  const server = await network.serve(options.listen, services, http, gate);
  context.address = options.advertise ?? (await dependencies.reachable?.(server.address)) ?? server.address;
  const unwatch = begin(parts);
  events.emit("info", "orchestrator.started", `orchestrator ${id} serves on ${context.address}`);

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    events.emit("info", "orchestrator.stopping", `orchestrator ${id} stops`);
    await Promise.allSettled([events.flush(), parts.metrics.flush(), parts.presence.stop()]);
    for (const one of unwatch) one();
    mirror.stop();
    parts.registry.stop();
    await tasks.stop();
    await server.close();
  };
  return {
    id,
    address: context.address,
    services,
    http,
    parts,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

/** A store that is still starting is waited for; one that refuses for good is not. */
async function firstRefresh(mirror: Mirror, world: World): Promise<void> {
  const untilMs = world.clock.monotonicMs() + firstRefreshMs;
  for (let attempt = 1; ; attempt++) {
    try {
      await mirror.refresh();
      await endFormerReplicas(mirror);
      return;
    } catch (thrown) {
      // Counting attempts as well guards against a clock that leaps ahead.
      const late = world.clock.monotonicMs() > untilMs && attempt >= firstRefreshesLeast;
      if (outlookOf(thrown) !== "passing" || late) throw thrown;
      world.log("warn", `the store does not answer yet: ${messageOf(thrown)}`);
      await sleep(world.timers, 200);
    }
  }
}

/** Silence is counted in missed heartbeats, whatever their interval. */
function timingsFor(given: Partial<Timings>): Timings {
  const intervalMs = given.heartbeatIntervalMs ?? timingsDefault.heartbeatIntervalMs;
  return { ...timingsDefault, silentMs: 3 * intervalMs, ...given };
}

function assemble(context: Context, network: Network) {
  /** Rings when anything that watchers see has changed. */
  const bell = new Bell();
  const attachments = new Map<PNodeId, Attachment>();
  const flapping = new Flapping(context.world.clock);
  const capacity = new Capacity(context, attachments, flapping);
  const compiled = new Compiled(context.blobs.definitions, context.aside);
  const assignments = new Assignments(context, capacity, compiled, attachments);
  const presence = new Presence(context, network, () => controller.touchAll());
  const leases = new Leases(context, presence);
  const metrics = new Metrics(context);
  const garbage = new Garbage(context);
  const rooms = new Rooms(context);
  const placing = new Placing(context, capacity, rooms);
  const sessions = new SessionCare(context, { compiled, metrics, garbage });
  const replicas = new ReplicaCare(compiled, garbage);
  const controller = new Controller(context, { capacity, rooms, placing, leases, garbage, sessions, replicas });
  const preparing = new Preparing(context, { capacity, sessions, attachments });
  const heartbeats = new Heartbeats(context, metrics, capacity, new Rates(context, compiled, metrics), rooms);
  const reachability = new Reachability(context, {
    isHere: (pnode) => attachments.get(pnode)?.status === "online",
    onFleetChange: (pnode) => controller.fleetChanged(pnode, true),
  });
  const members = new Members(context);
  const registry = new Registry(
    { context, presence, composer: assignments, attachments, flapping, members },
    {
      onFleetChange: (pnode, urgent) => controller.fleetChanged(pnode, urgent),
      onDoubt: (pnode) => preparing.doubt(pnode),
      onHeartbeat: (attachment, heartbeat) => {
        heartbeats.hear(attachment, heartbeat);
        reachability.hear(attachment, heartbeat);
        recoveries.look();
      },
      onEvidence: (attachment, evidence) => heartbeats.evidence(attachment, evidence),
      handOver: (pnode) => controller.handOver(pnode),
    },
  );
  const circles = new Circles(context, attachments);
  const utilisation = new Utilisation(context, capacity, attachments);
  const heard = new Heard(context, attachments, new Peers(context, presence, network));
  const steps = new Steps(context, heard);
  const waits = new Waits(context, { heard, steps, controller, leases });
  const recoveries = new Recoveries(context, { heard, steps, leases });
  const views = new Views(context, { heard, steps, waits, flapping, capacity, controller, metrics });
  const orphans = new Orphans(context, presence, {
    looksAfter: (pnode) => registry.looksAfter(pnode),
    onFound: ({ id }) => preparing.doubt(id),
    onLost: ({ id }) => controller.fleetChanged(id, true),
  });
  presence.onRead = () => orphans.check();
  context.mirror.onAny(() => bell.ring());
  return {
    context,
    presence,
    leases,
    members,
    registry,
    capacity,
    rooms,
    assignments,
    compiled,
    sessions,
    controller,
    garbage,
    metrics,
    utilisation,
    steps,
    waits,
    recoveries,
    views,
    bell,
    circles,
  };
}

type Parts = ReturnType<typeof assemble>;

function begin(parts: Parts): (() => void)[] {
  const { context, controller, presence, registry, metrics, bell } = parts;
  const { tasks, timings, mirror, events } = context;
  mirror.start();
  registry.start();
  presence.start();
  parts.circles.start();
  tasks.every("the listing of records", timings.refreshIntervalMs, async () => {
    await mirror.refresh();
    controller.touchAll();
  });
  tasks.every("the sweep of claims", timings.refreshIntervalMs, () => parts.rooms.sweep());
  const unnamed = new UnnamedReplicas(context, (replica) => controller.touch(replica, true));
  tasks.every("the sweep of replicas without a name", timings.rebalanceIntervalMs, () => unnamed.sweep());
  tasks.every("the sample of rates", rateSampleMs, () => {
    parts.steps.sample();
    parts.waits.sample();
    parts.recoveries.look();
    bell.ring();
  });
  tasks.every("rebalancing", timings.rebalanceIntervalMs, () => rebalanceSessions(context, parts));
  controller.touchAll();
  return [events.start(tasks, timings), metrics.start()];
}
