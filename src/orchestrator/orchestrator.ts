// One orchestrator: its parts put together, its services on one port. It keeps nothing that matters: all state is
// in the store, so any number of them share one, and any of them may die.

import { type Aside, asideHere } from "../core/aside.ts";
import { fail, messageOf, outlookOf } from "../core/errors.ts";
import type { KeyId, OrchestratorId, PNodeId } from "../core/ids.ts";
import { parseId } from "../core/ids.ts";
import type { Identity } from "../core/keys.ts";
import type { World } from "../core/world.ts";
import { sleep, withFields } from "../core/world.ts";
import type { Membership } from "../membership/membership.ts";
import { healthService } from "../protocol/health.ts";
import type { Caller, HttpHandler, Network, ServedService } from "../protocol/network.ts";
import { callsOnly, type RelayLimits } from "../relay/limits.ts";
import { Relay } from "../relay/relay.ts";
import type { Rules } from "../scheduler/jobs.ts";
import { blobHttpHandler } from "../store/blob-http.ts";
import type { BlobStore } from "../store/blob-store.ts";
import type { StateStore } from "../store/state-store.ts";
import type { VerifyBy } from "../trust/signing.ts";
import { datasetService } from "./api/datasets.ts";
import { fleetService } from "./api/fleet.ts";
import { inferenceService } from "./api/inference.ts";
import { jobService } from "./api/jobs.ts";
import { ledgerService } from "./api/ledger.ts";
import { membershipService } from "./api/membership.ts";
import { networkService } from "./api/networks.ts";
import { pnodeService } from "./api/pnodes.ts";
import { providerService } from "./api/providers.ts";
import { rightsService } from "./api/rights.ts";
import { sessionService } from "./api/sessions.ts";
import { systemService } from "./api/system.ts";
import { trustService } from "./api/trust.ts";
import { vocabularyService } from "./api/vocabularies.ts";
import { vouchingService } from "./api/vouching.ts";
import type { Context } from "./context.ts";
import { Assignments } from "./fleet/attached/assignments.ts";
import type { Attachment } from "./fleet/attached/attachment.ts";
import { Departed } from "./fleet/attached/departed.ts";
import { Heartbeats } from "./fleet/attached/heartbeats.ts";
import { Members } from "./fleet/attached/members.ts";
import { Registry } from "./fleet/attached/registry.ts";
import { Flapping } from "./fleet/believed/flapping.ts";
import { Capacity } from "./fleet/capacity/capacity.ts";
import { Rooms } from "./fleet/capacity/rooms.ts";
import { type GossipDependencies, OrchestratorGossip } from "./fleet/orchestrators/gossip.ts";
import { Orphans } from "./fleet/orchestrators/orphans.ts";
import { Presence } from "./fleet/orchestrators/presence.ts";
import { Callbacks } from "./fleet/reach/callbacks.ts";
import { Reachability } from "./fleet/reach/reachability.ts";
import { Relays } from "./fleet/reach/relays.ts";
import { orchestratorGate } from "./gate.ts";
import { EvaluateKind } from "./jobs/evaluate.ts";
import { JobSessions } from "./jobs/job-sessions.ts";
import { Jobs } from "./jobs/jobs.ts";
import { unlimitedCredits } from "./jobs/queue-view.ts";
import { TrainKind } from "./jobs/train.ts";
import { Budgets } from "./ledger/budgets.ts";
import { HeadsKeeper } from "./ledger/heads-keeper.ts";
import { Ledger } from "./ledger/ledger.ts";
import { ProviderCare, type ProviderRights } from "./providers/provider-care.ts";
import { Providers } from "./providers/providers.ts";
import { endFormerReplicas } from "./records/former-replicas.ts";
import { Mirror } from "./records/mirror.ts";
import { key, prefix } from "./records/store-keys.ts";
import { isChecked, isLive } from "./records/workloads.ts";
import { Acts } from "./rights/acts.ts";
import { checkModel } from "./rights/belongings.ts";
import { enforced } from "./rights/enforced.ts";
import { Identities } from "./rights/identities.ts";
import { ApiKeys } from "./rights/keys.ts";
import { Proofs } from "./rights/proofs.ts";
import { Gateway } from "./serving/gateway.ts";
import { openAiHandler } from "./serving/openai.ts";
import { ReplicaCare } from "./serving/replica-care.ts";
import { UnnamedReplicas } from "./serving/unnamed.ts";
import { Adoption } from "./sessions/adoption.ts";
import { Charters } from "./sessions/charters.ts";
import { Circles } from "./sessions/circles.ts";
import { Compiled } from "./sessions/compiled.ts";
import { Garbage } from "./sessions/garbage.ts";
import { Preparing } from "./sessions/preparing.ts";
import { Rates } from "./sessions/rates.ts";
import { rebalanceSessions } from "./sessions/rebalancing.ts";
import { SessionCare } from "./sessions/session-care.ts";
import { Tasks } from "./tasks.ts";
import { type Timings, timingsDefault } from "./timings.ts";
import { Auditors } from "./trust/auditors.ts";
import { hashLottery, type Lottery } from "./trust/lottery.ts";
import { Standings } from "./trust/standings.ts";
import { TrustCare } from "./trust/trust-care.ts";
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
import { BlobRights } from "./workloads/blob-rights.ts";
import { Controller } from "./workloads/controller.ts";
import { Leases } from "./workloads/leases.ts";
import { Placing } from "./workloads/placing.ts";
import { UploadAllowance } from "./workloads/upload-allowance.ts";

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
  /** Of the queue, where they are not the usual ones. */
  readonly queueRules?: Partial<Rules>;
  /** False behind a proxy on the same machine: then local callers need API keys too. */
  readonly trustLoopback?: boolean;
  /** Served on the same port, beside blobs: the dashboard, the OpenAI-compatible API. */
  readonly http?: HttpHandler;
  /** What it carries for machines that cannot be called; calls alone if absent. */
  readonly relay?: RelayLimits;
}

export interface OrchestratorDependencies {
  readonly world: World;
  /** Shows the network's key, which all orchestrators of the network share. */
  readonly network: Network;
  readonly store: StateStore;
  readonly blobs: BlobStore;
  /** The network's key: signs the ledger and charters. Without it nothing is signed. */
  readonly identity?: Identity;
  /** Reads what strangers wrote, on another thread; on this one if absent. */
  readonly aside?: Aside;
  /** Takes part in gossip with this; unknown to those who have lost all orchestrators if absent. */
  readonly membership?: GossipDependencies;
  /** Replaces the network's key by one that it signs for; the new one's id. Absent where keys never change. */
  readonly rotateNetworkKey?: () => Promise<KeyId>;
  /** Which kinds of providers it may run on this machine; none if absent. */
  readonly providers?: ProviderRights;
  /** Judges signatures of machines; without it no session is checked. */
  readonly verify?: VerifyBy;
  /** Draws what is checked, so that anybody can verify it; without it nobody but the store can. */
  readonly lottery?: Lottery;
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
  /** Who is there, as told from member to member. */
  readonly membership: Membership | undefined;
  /** Hands its work to the others and ends; PNodes attach elsewhere. */
  stop(): Promise<void>;
}

const rateSampleMs = 1_000;
const actsTrimMs = 3_600_000;
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
    verify: dependencies.verify && verifyAnyKey(mirror, dependencies.verify),
    lottery: dependencies.lottery ?? hashLottery,
  };
  const relay = new Relay(world, options.relay ?? callsOnly);
  const keys = new ApiKeys(mirror.store, world, options.trustLoopback ?? true);
  const parts = {
    ...assemble(context, network, dependencies.identity, options.queueRules ?? {}, relay.limits.tensors),
    relay,
  };
  const networkKey = () => network.key ?? network.id;
  const rights = dependencies.providers ?? noProviders;
  const { scheduling } = parts.jobs;
  const care = new ProviderCare(context, { ...parts, scheduling, rights, networkKey });
  const providers = new Providers(context, care);
  const gateway = new Gateway({ ...parts, network });
  const gossip = dependencies.membership && new OrchestratorGossip({ ...parts, network }, dependencies.membership);
  parts.registry.admission = gossip && ((pnode) => gossip.admission(pnode));
  const acts = new Acts(mirror.store, world, id, incarnation);
  const identities = new Identities(
    context,
    acts,
    async (one) =>
      mirror.get(key.pnode(one)) !== undefined ||
      mirror.get(key.member(one)) !== undefined ||
      (await keys.isKnown(one)),
  );
  mirror.on("identity", (now) => {
    if (now) network.keys?.tell(now.id, identities.current(now.id));
  });
  const proofs = new Proofs(mirror.store, world, incarnation, () => [network.key, network.id]);
  const identify = async (connected: Caller, authorization: string | undefined) => {
    const caller = await proofs.read(connected, authorization);
    await identities.check(caller);
    return caller;
  };
  const plainServices = [
    systemService(context),
    healthService(() => !tasks.stopped, world.timers),
    pnodeService(parts),
    relay.service(),
    vouchingService(context, parts.members),
    fleetService(parts),
    membershipService({ ...parts, networkKey }),
    providerService(providers),
    networkService(parts),
    sessionService(parts),
    ledgerService(parts),
    datasetService(parts),
    vocabularyService(context),
    trustService(parts),
    inferenceService(parts, gateway, keys),
    rightsService({ keys, acts, proofs, network, rotateNetworkKey: dependencies.rotateNetworkKey }),
    ...(gossip ? [gossip.membership.service] : []),
    jobService(parts),
  ];
  const services = enforced(plainServices, mirror, acts);
  const blobHttp = blobHttpHandler(blobs);
  const openAi = openAiHandler({
    ...{ world, generator: gateway, keys, identify },
    checkModel: (roles, model) => checkModel(mirror, roles, model),
  });
  const http: HttpHandler = async (request, peer) =>
    (await blobHttp(request, peer)) ?? (await openAi(request, peer)) ?? options.http?.(request, peer);

  await firstRefresh(mirror, world);
  const gate = orchestratorGate({ context, members: parts.members, keys, network, identify });
  const server = await network.serve(options.listen, services, http, gate);
  context.address = options.advertise ?? (await dependencies.reachable?.(server.address)) ?? server.address;
  const unwatch = begin(parts);
  await gossip?.membership.start();
  if (rights.kinds.length > 0)
    tasks.every("the care for providers", context.timings.providerIntervalMs, () => care.look());
  tasks.every("the end of old acts", actsTrimMs, () => acts.trim());
  events.emit("info", "orchestrator.started", `orchestrator ${id} serves on ${context.address}`);

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    events.emit("info", "orchestrator.stopping", `orchestrator ${id} stops`);
    await gossip?.membership.stop(true);
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
    membership: gossip?.membership,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

const noProviders: ProviderRights = {
  kinds: [],
  tools: {
    command: () => fail("failed_precondition", "this orchestrator runs no providers"),
    http: () => fail("failed_precondition", "this orchestrator runs no providers"),
    readFile: () => fail("failed_precondition", "this orchestrator runs no providers"),
    ...{ program: "dcnr", folder: "" },
  },
};

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

/** Whoever has changed its key signs with the new one, and has signed with the former. */
function verifyAnyKey(mirror: Mirror, verify: VerifyBy): VerifyBy {
  return (id, publicKey, content, signature) => {
    const former = mirror.get(key.identity(id))?.keys.map((one) => one.key as string) ?? [];
    return [id, ...former].some((one) => verify(one, publicKey, content, signature));
  };
}

/** Silence is counted in missed heartbeats, whatever their interval. */
function timingsFor(given: Partial<Timings>): Timings {
  const intervalMs = given.heartbeatIntervalMs ?? timingsDefault.heartbeatIntervalMs;
  return { ...timingsDefault, silentMs: 3 * intervalMs, ...given };
}

function assemble(
  context: Context,
  network: Network,
  identity: Identity | undefined,
  rules: Partial<Rules>,
  relaysTensors: boolean,
) {
  /** Rings when anything that watchers see has changed. */
  const bell = new Bell();
  const attachments = new Map<PNodeId, Attachment>();
  const flapping = new Flapping(context.world.clock);
  const capacity = new Capacity(context, attachments, flapping);
  const compiled = new Compiled(context.blobs.definitions, context.aside);
  const charters = new Charters(context, identity);
  const assignments = new Assignments(context, capacity, compiled, charters, attachments);
  const presence = new Presence(context, network, relaysTensors, () => controller.touchAll());
  const leases = new Leases(context, presence);
  const metrics = new Metrics(context);
  const garbage = new Garbage(context);
  const rooms = new Rooms(context);
  const placing = new Placing(context, capacity, rooms);
  const ledger = new Ledger(context);
  const heads = new HeadsKeeper(context, ledger, identity);
  const budgets = new Budgets(context, ledger);
  const adoption = new Adoption(context, { charters, rooms, touch: (session) => controller.touch(session, true) });
  const standings = new Standings(context);
  const auditors = new Auditors(context, { capacity, compiled, standings });
  const trust = new TrustCare(context, { auditors, standings, compiled, garbage, onFinal: () => {} });
  const sessions = new SessionCare(context, { compiled, metrics, garbage, ledger, budgets, adoption, trust });
  const replicas = new ReplicaCare(compiled, garbage);
  const controller = new Controller(context, { capacity, rooms, placing, leases, garbage, sessions, replicas });
  const blobRights = new BlobRights(context, compiled, (id, pnode) => charters.crewOf(id).has(pnode));
  const allowance = new UploadAllowance(context.world.clock, context.timings.unrecordedAfterMs);
  const preparing = new Preparing(context, { capacity, sessions, attachments, blobRights });
  const heartbeats = new Heartbeats(context, metrics, capacity, new Rates(context, compiled, metrics), rooms);
  const reachability = new Reachability(context, {
    isHere: (pnode) => attachments.get(pnode)?.status === "online",
    onFleetChange: (pnode) => controller.fleetChanged(pnode, true),
  });
  const members = new Members(context);
  const relays = new Relays(context, presence, () => {
    for (const attachment of attachments.values()) attachment.tellRelays(relays.list());
  });
  const callbacks = new Callbacks(context, network, {
    isHere: (pnode) => attachments.has(pnode),
    tell: (pnode, { how, problem }) => attachments.get(pnode)?.tellReached(how, problem),
    relayName: (name) => relays.nameOf(name),
    anyRelay: () => relays.anyTensors,
    onFleetChange: (pnode) => controller.fleetChanged(pnode, true),
  });
  const registry = new Registry(
    { context, presence, composer: assignments, attachments, flapping, members, relays: () => relays.list() },
    {
      callBack: (pnode, routes) => callbacks.atTheDoor(pnode, routes),
      onMoved: (pnode, isFirst) => callbacks.begin(pnode, isFirst),
      onFleetChange: (pnode, urgent) => controller.fleetChanged(pnode, urgent),
      onDoubt: (pnode) => preparing.doubt(pnode),
      onHeartbeat: (attachment, heartbeat) => {
        heartbeats.hear(attachment, heartbeat);
        adoption.hear(attachment.pnode, heartbeat.crews);
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
  const jobSessions = new JobSessions(context, { sessions, controller, metrics, steps });
  const kindNeeds = { context, compiled, capacity, controller, metrics, jobSessions };
  const kinds = [new TrainKind(kindNeeds), new EvaluateKind(kindNeeds)];
  const jobs = new Jobs(context, { capacity, jobSessions, leases, placing, kinds, rules, credits: unlimitedCredits });
  const orphans = new Orphans(context, presence, {
    looksAfter: (pnode) => registry.looksAfter(pnode),
    onFound: ({ id }) => preparing.doubt(id),
    onLost: ({ id }) => controller.fleetChanged(id, true),
    mayJudge: () => adoption.mayJudge(),
  });
  presence.onRead = () => orphans.check();
  const departed = new Departed(context, capacity);
  context.mirror.onAny(() => bell.ring());
  return {
    context,
    presence,
    leases,
    members,
    registry,
    relays,
    capacity,
    rooms,
    assignments,
    compiled,
    sessions,
    controller,
    blobRights,
    allowance,
    garbage,
    ledger,
    heads,
    budgets,
    standings,
    trust,
    metrics,
    utilisation,
    steps,
    waits,
    recoveries,
    views,
    bell,
    circles,
    departed,
    jobs,
  };
}

type Parts = ReturnType<typeof assemble> & { readonly relay: Relay };

function begin(parts: Parts): (() => void)[] {
  const { context, controller, presence, registry, metrics, bell } = parts;
  const { tasks, timings, mirror, events } = context;
  mirror.start();
  registry.start();
  presence.start();
  parts.relays.start();
  parts.circles.start();
  parts.heads.start();
  tasks.every("the listing of records", timings.refreshIntervalMs, async () => {
    await mirror.refresh();
    controller.touchAll();
  });
  tasks.every("audits", timings.auditIntervalMs, () => {
    for (const session of mirror.under(prefix.sessions))
      if (isChecked(session) && isLive(session) && parts.leases.isHeldHere(session.id)) controller.touch(session.id);
  });
  tasks.every("the sweep of claims", timings.refreshIntervalMs, () => parts.rooms.sweep());
  tasks.every("the look at jobs", timings.refreshIntervalMs, () => parts.jobs.look());
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
  parts.jobs.care.touchOpen();
  parts.jobs.scheduling.request();
  return [events.start(tasks, timings), metrics.start()];
}
