// The parts of an orchestrator, put together by hand: each is given what it needs and nothing else. What runs by itself, and how often,
// is below.

import type { PNodeId } from "../core/ids.ts";
import type { Identity } from "../core/keys.ts";
import { retry } from "../core/retry.ts";
import type { Network } from "../protocol/network.ts";
import type { Relay } from "../relay/relay.ts";
import type { Rules } from "../scheduler/jobs.ts";
import { AnswerCare } from "./answers/answer-care.ts";
import { Canaries } from "./answers/canaries.ts";
import { LatelyLost } from "./answers/lately-lost.ts";
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
import { Orphans } from "./fleet/orchestrators/orphans.ts";
import { Presence } from "./fleet/orchestrators/presence.ts";
import { Callbacks } from "./fleet/reach/callbacks.ts";
import { Reachability } from "./fleet/reach/reachability.ts";
import { Relays } from "./fleet/reach/relays.ts";
import { DataKind } from "./jobs/data.ts";
import { EvaluateKind } from "./jobs/evaluate.ts";
import { JobSessions } from "./jobs/job-sessions.ts";
import { Jobs } from "./jobs/jobs.ts";
import { MapKind } from "./jobs/map.ts";
import { TrainKind } from "./jobs/train.ts";
import { Budgets } from "./ledger/budgets.ts";
import { HeadsKeeper } from "./ledger/heads-keeper.ts";
import { Ledger } from "./ledger/ledger.ts";
import { localOwner } from "./records/jobs.ts";
import { prefix } from "./records/store-keys.ts";
import { isChecked, isLive } from "./records/workloads.ts";
import { ReplicaCare } from "./serving/replica-care.ts";
import { UnnamedReplicas } from "./serving/unnamed.ts";
import { Adoption } from "./sessions/adoption.ts";
import { Charters } from "./sessions/charters.ts";
import { Circles } from "./sessions/circles.ts";
import { Compiled } from "./sessions/compiled.ts";
import { Eras } from "./sessions/eras.ts";
import { Garbage } from "./sessions/garbage.ts";
import { Preparing } from "./sessions/preparing.ts";
import { Rates } from "./sessions/rates.ts";
import { rebalanceSessions } from "./sessions/rebalancing.ts";
import { RoundCare } from "./sessions/rounds/round-care.ts";
import { SessionCare } from "./sessions/session-care.ts";
import { StandingBy } from "./sessions/standing-by.ts";
import { TuneKind } from "./studies/tune.ts";
import { Auditors } from "./trust/auditors.ts";
import { Weigher } from "./trust/cap/weigher.ts";
import { Standings } from "./trust/standings.ts";
import { TrustCare } from "./trust/trust-care.ts";
import { Availability } from "./views/availability.ts";
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

const rateSampleMs = 1_000;
/** Between two listings of which the first failed. */
const listingAgain = { minMs: 250, maxMs: 1_000 };

export function assemble(
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
  const adoption = new Adoption(context, {
    ...{ charters, rooms },
    touch: (session) => controller.touch(session, true),
    isAttached: ({ orchestrator, orchestratorIncarnation }) => presence.alive(orchestrator, orchestratorIncarnation),
    onAwaited: () => {
      capacity.lookAgain();
      controller.touchAll();
    },
  });
  capacity.isAwaited = (pnode) => adoption.isAwaited(pnode);
  const standings = new Standings(context);
  const auditors = new Auditors(context, { capacity, compiled, standings });
  const weigher = new Weigher(context, { compiled, standings, rooms });
  const trust = new TrustCare(context, { auditors, compiled, rooms, standings, garbage, ledger });
  const rounds = new RoundCare(context, {
    ...{ compiled, capacity, rooms },
    touch: (session) => controller.touch(session, true),
  });
  const answers = new AnswerCare(context, { network, compiled, rooms, auditors, standings, presence });
  const lost = new LatelyLost(context);
  const canaries = new Canaries(context, { compiled, standings, leases, auditors, lost, care: answers });
  const sessions = new SessionCare(context, { compiled, metrics, garbage, ledger, budgets, adoption, trust, rounds });
  const replicas = new ReplicaCare(context.mirror, compiled, garbage);
  const controller = new Controller(context, { capacity, rooms, placing, leases, garbage, sessions, replicas });
  const blobRights = new BlobRights(context, compiled, {
    isCrew: (id, pnode) => charters.crewOf(id).has(pnode),
    isAlive: (orchestrator, incarnation) => presence.alive(orchestrator, incarnation),
  });
  const allowance = new UploadAllowance(context.world.clock, context.timings.unrecordedAfterMs);
  const preparing = new Preparing(context, { capacity, sessions, attachments, blobRights });
  new StandingBy(context, { capacity, sessions, attachments });
  const heartbeats = new Heartbeats(context, metrics, capacity, new Rates(context, compiled, metrics), rooms);
  const reachability = new Reachability(context, {
    isHere: (pnode) => attachments.get(pnode)?.status === "online",
    onFleetChange: (pnode) => controller.fleetChanged(pnode, true),
  });
  const members = new Members(context);
  const relays = new Relays(context, presence, (places) => {
    for (const attachment of attachments.values()) attachment.tellRelays(places);
  });
  const callbacks = new Callbacks(context, network, {
    isHere: (pnode) => attachments.has(pnode),
    tell: (pnode, { how, problem }) => attachments.get(pnode)?.tellReached(how, problem),
    relayName: (name) => relays.nameOf(name),
    anyRelay: () => relays.anyTensors,
    onFleetChange: (pnode) => controller.fleetChanged(pnode, true),
  });
  const registry = new Registry(
    { context, presence, composer: assignments, attachments, flapping, members, relays: () => relays.look() },
    {
      callBack: (pnode, routes) => callbacks.atTheDoor(pnode, routes),
      hasTakenOver: (pnode, register) => adoption.hasTakenOver(pnode, register),
      count: (pnode, register) => adoption.count(pnode, register),
      isGone: (pnode) => callbacks.isGone(pnode),
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
  const utilisation = new Utilisation(context, capacity, attachments);
  const heard = new Heard(context, attachments, new Peers(context, presence, network));
  const circles = new Circles(context, { attachments, heard });
  const steps = new Steps(context, heard);
  const waits = new Waits(context, { heard, steps, controller, leases, auditors });
  const recoveries = new Recoveries(context, { heard, capacity, steps, leases });
  const availability = new Availability(context, leases);
  recoveries.onRecovered = (tookMs, repeated) => availability.recovered(tookMs, repeated);
  const views = new Views(context, { heard, steps, waits, flapping, capacity, controller, metrics });
  const jobSessions = new JobSessions(context, { sessions, controller, metrics, steps });
  const kindNeeds = { context, compiled, capacity, controller, metrics, jobSessions };
  const mapKind = new MapKind(context);
  const dataKind = new DataKind(context);
  // Jobs without a key are charged to nobody by name.
  const credits = { of: (owner: string) => budgets.left(owner === localOwner ? "" : owner) };
  const tune = new TuneKind({ ...kindNeeds, jobs: () => jobs });
  const kinds = [new TrainKind(kindNeeds), new EvaluateKind(kindNeeds), mapKind, dataKind, tune];
  const jobs: Jobs = new Jobs(context, {
    capacity,
    jobSessions,
    leases,
    placing,
    kinds,
    rules,
    credits,
  });
  mapKind.onOutcome = (job) => jobs.care.touch(job);
  dataKind.onOutcome = (job) => jobs.care.touch(job);
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
    weigher,
    trust,
    answers,
    canaries,
    metrics,
    utilisation,
    steps,
    waits,
    recoveries,
    availability,
    views,
    bell,
    circles,
    departed,
    jobs,
    mapKind,
    dataKind,
    tune,
  };
}

export type Parts = ReturnType<typeof assemble> & { readonly relay: Relay };

/** Starts what runs by itself; the answer ends it. */
export function begin(parts: Parts): (() => void)[] {
  const { context, controller, presence, registry, metrics, bell } = parts;
  const { tasks, timings, mirror, events } = context;
  mirror.start();
  registry.start();
  presence.start();
  parts.relays.start();
  parts.circles.start();
  parts.heads.start();
  parts.availability.start();
  tasks.every("the listing of records", timings.refreshIntervalMs, async () => {
    // Soon after the store was away: hints are lost then, and PNodes wait to hear what is no longer theirs.
    await retry({ world: context.world, ...listingAgain, signal: tasks.signal }, () => mirror.refresh());
    controller.touchAll();
  });
  tasks.every("audits", timings.auditIntervalMs, () => {
    for (const session of mirror.under(prefix.sessions))
      if (isChecked(session) && isLive(session) && parts.leases.isHeldHere(session.id)) controller.touch(session.id);
  });
  tasks.every("questions of the network's own", timings.auditIntervalMs, () =>
    parts.canaries.look(timings.auditIntervalMs),
  );
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
  const eras = new Eras(context, parts, timings.eraPatienceMs);
  tasks.every("the look for eras", timings.eraIntervalMs, () => eras.look());
  tasks.every("rebalancing", timings.rebalanceIntervalMs, () => rebalanceSessions(context, parts));
  controller.touchAll();
  parts.jobs.care.touchOpen();
  parts.jobs.scheduling.request();
  return [events.start(tasks, timings), metrics.start()];
}
