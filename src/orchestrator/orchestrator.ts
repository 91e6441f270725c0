// One orchestrator: its parts put together, its services on one port. It keeps nothing that matters: all state is
// in the store, so any number of them share one, and any of them may die.

import { type Aside, asideHere } from "../core/aside.ts";
import { fail, messageOf, outlookOf } from "../core/errors.ts";
import type { KeyId, OrchestratorId } from "../core/ids.ts";
import { parseId } from "../core/ids.ts";
import type { Identity } from "../core/keys.ts";
import type { World } from "../core/world.ts";
import { sleep, withFields } from "../core/world.ts";
import type { Membership } from "../membership/membership.ts";
import type { Caller, HttpHandler, Network, Roles, ServedService } from "../protocol/network.ts";
import { healthService } from "../protocol/server/health.ts";
import { firstOf } from "../protocol/server/http.ts";
import { callsOnly, type RelayLimits } from "../relay/limits.ts";
import { Relay } from "../relay/relay.ts";
import type { Rules } from "../scheduler/jobs.ts";
import { blobHttpHandler } from "../store/blobs/blob-http.ts";
import type { BlobStore } from "../store/blobs/blob-store.ts";
import { readingAgain } from "../store/blobs/reading-again.ts";
import type { StateStore } from "../store/records/state-store.ts";
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
import { reportService } from "./api/report.ts";
import { rightsService } from "./api/rights.ts";
import { sessionService } from "./api/sessions.ts";
import { studyService } from "./api/studies.ts";
import { systemService } from "./api/system.ts";
import { trustService } from "./api/trust.ts";
import { vocabularyService } from "./api/vocabularies.ts";
import { vouchingService } from "./api/vouching.ts";
import { type GossipDependencies, OrchestratorGossip } from "./fleet/orchestrators/gossip.ts";
import { orchestratorGate } from "./gate.ts";
import { assemble, begin, type Parts } from "./parts.ts";
import { ProviderCare, type ProviderRights } from "./providers/provider-care.ts";
import { Providers } from "./providers/providers.ts";
import { endFormerReplicas } from "./records/former-replicas.ts";
import { Mirror } from "./records/mirror.ts";
import { key } from "./records/store-keys.ts";
import { Acts } from "./rights/acts.ts";
import { checkModel } from "./rights/belongings.ts";
import { enforced } from "./rights/enforced.ts";
import { Identities } from "./rights/identities.ts";
import { ApiKeys } from "./rights/keys.ts";
import { Proofs } from "./rights/proofs.ts";
import { Gateway } from "./serving/gateway.ts";
import { ollamaHandler } from "./serving/http/ollama.ts";
import { openAiHandler } from "./serving/http/openai.ts";
import { type AllowsPage, forPages } from "./serving/http/origins.ts";
import type { ModelLoads } from "./serving/loads.ts";
import { ModelScaling } from "./serving/scaling.ts";
import { Tasks } from "./tasks.ts";
import { type Timings, timingsDefault } from "./timings.ts";
import { hashLottery, type Lottery } from "./trust/lottery.ts";
import { Events } from "./views/events.ts";

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
  /** Pages of other sites that may ask served models; none may if absent. */
  readonly allowsPage?: AllowsPage;
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
  /** What is asked of served models here. */
  readonly asked: ModelLoads;
  /** Hands its work to the others and ends; PNodes attach elsewhere. */
  stop(): Promise<void>;
}

const actsTrimMs = 3_600_000;
const firstRefreshMs = 60_000;
/** An attempt counts for no more, so that a clock that leaps ahead does not end the wait. */
const refreshCountsMs = 5_000;

export async function startOrchestrator(
  options: OrchestratorOptions,
  dependencies: OrchestratorDependencies,
): Promise<Orchestrator> {
  const { network, store } = dependencies;
  const blobs = readingAgain(dependencies.blobs);
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
  mirror.on("member", (now) => {
    if (now?.standing === "revoked") relay.dismiss(now.pnode);
  });
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
  const scaling = new ModelScaling(parts);
  const gateway = new Gateway({ ...parts, network, wake: (model) => scaling.wake(model) });
  parts.presence.loads = () => gateway.told();
  parts.canaries.ask = (model, replica, request) => gateway.tried(model, replica, request, tasks.signal);
  parts.mapKind.generator = gateway;
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
    reportService(parts),
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
    studyService(parts),
  ];
  const services = enforced(plainServices, mirror, acts);
  const blobHttp = blobHttpHandler(blobs);
  const answering = {
    ...{ world, generator: gateway, keys, identify, aside: context.aside },
    checkModel: (roles: Roles, model: string) => checkModel(mirror, roles, model),
  };
  const allows = options.allowsPage ?? (() => false);
  const answers = forPages(firstOf(openAiHandler(answering), ollamaHandler(answering)), allows);
  const http: HttpHandler = firstOf(blobHttp, answers, ...(options.http ? [options.http] : []));

  await firstRefresh(mirror, world);
  const gate = orchestratorGate({ context, members: parts.members, keys, network, identify });
  const server = await network.serve(options.listen, services, http, gate);
  context.address = options.advertise ?? (await dependencies.reachable?.(server.address)) ?? server.address;
  const unwatch = begin(parts);
  await gossip?.membership.start();
  tasks.every("the scaling of models", context.timings.providerIntervalMs, () => scaling.look());
  if (rights.kinds.length > 0)
    tasks.every("the care for providers", context.timings.providerIntervalMs, () => care.look());
  tasks.every("the end of old acts", actsTrimMs, () => acts.trim());
  events.emit("info", "orchestrator.started", `orchestrator ${id} serves on ${context.address}`);

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    events.emit("info", "orchestrator.stopping", `orchestrator ${id} stops`);
    await gossip?.membership.stop(true);
    await Promise.allSettled([
      events.flush(),
      parts.metrics.flush(),
      parts.availability.flush(),
      parts.presence.stop(),
    ]);
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
    asked: gateway.loads,
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
  for (let waitedMs = 0; ; ) {
    const beganMs = world.clock.monotonicMs();
    try {
      await mirror.refresh();
      await endFormerReplicas(mirror);
      return;
    } catch (thrown) {
      if (outlookOf(thrown) !== "passing" || waitedMs >= firstRefreshMs) throw thrown;
      world.log("warn", `the store does not answer yet: ${messageOf(thrown)}`);
      await sleep(world.timers, 200);
    }
    waitedMs += Math.min(world.clock.monotonicMs() - beganMs, refreshCountsMs);
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
