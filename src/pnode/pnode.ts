// A PNode: hosts the VNodes that orchestrators assign to it. It opens connections to orchestrators and never the
// other way round; only peers call it, for tensors.

import { asideHere } from "../core/aside.ts";
import { Bandwidth } from "../core/bandwidth.ts";
import { hexOf } from "../core/bytes.ts";
import { fail, messageOf } from "../core/errors.ts";
import { digestHere, hashOfContent } from "../core/hash.ts";
import type { PNodeId, VNodeId, WorkloadId } from "../core/ids.ts";
import { lentMemoryBytes } from "../core/lent.ts";
import { Tasks } from "../core/tasks.ts";
import { sleep } from "../core/world.ts";
import { crewRules } from "../crew/crew.ts";
import { Membership } from "../membership/membership.ts";
import { shownFromWire } from "../membership/network-key.ts";
import { Links } from "../peer/links.ts";
import { type Assignments, type Circle, PNodeService, type SessionUpdate } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Server } from "../protocol/network.ts";
import { joinRoutes } from "../protocol/routes/routes.ts";
import { openProcess } from "../vnode/process.ts";
import { answeringOf, learningOf } from "./assignment.ts";
import { Attachment } from "./attachment.ts";
import { Auditor, auditsOf } from "./auditing/auditor.ts";
import { Autonomy } from "./autonomy/autonomy.ts";
import { KeptStates, memoryKept } from "./autonomy/kept-states.ts";
import { CrewPeers } from "./autonomy/peers.ts";
import { BlobClient } from "./blob-client.ts";
import { BlobOrigins } from "./blob-origins.ts";
import { openDoor } from "./door.ts";
import { type CallOrchestrator, probeLine, probeTimeoutMs } from "./line-probe.ts";
import {
  boundsWithin,
  type MembershipDependencies,
  type PNodeDependencies,
  type PNodeOptions,
  type Timings,
  timingsDefault,
} from "./options.ts";
import { Orchestrators } from "./orchestrators.ts";
import { Reports } from "./reports.ts";
import { Resolver } from "./resolver.ts";
import { Room } from "./room.ts";
import { type Readings, SelfReport } from "./self-report.ts";
import { Servings } from "./serving/servings.ts";
import { lineOf, type ToldLine } from "./told-line.ts";
import { Training } from "./training/training.ts";
import { Vouching } from "./vouching.ts";
import { type ReachFound, Whereabouts } from "./whereabouts.ts";
import { Workshop } from "./workshop.ts";

export interface PNode {
  readonly id: PNodeId;
  /** The first route by which peers call it. */
  readonly address: string;
  /** How the network reaches it, as an orchestrator has tried. */
  readonly reach: ReachFound;
  /** Resolves when an orchestrator has registered it for the first time. */
  readonly attached: Promise<void>;
  /** Who is there, as told from member to member; absent without the means to take part. */
  readonly members: Membership | undefined;
  /** Resolves when one has called it back for the first time: `reach` says what came of it. */
  readonly calledBack: Promise<void>;
  /** What is wrong, one sentence each; empty when all is well. */
  problems(): string[];
  /** What it does now, for metrics. */
  readings(): Readings;
  /** The machine was measured again. */
  measured(gflops: number, numerics: readonly { readonly engine: string; readonly class: string }[]): void;
  /** Lends from now on what `lendable` says, given what its VNodes hold: PNodes of one machine share its memory. */
  shareMemory(lendable: (heldBytes: number) => number): void;
  /** Finds out how fast its line is and tells; fails if no orchestrator answers. */
  measureLine(): Promise<void>;
  /** Hands its VNodes over, then stops. */
  leave(reason?: string): Promise<void>;
  stop(): Promise<void>;
}

/** While no orchestrator answers, others of a session's crew are asked what it is. */
const describeAttempts = 12;

export async function startPNode(options: PNodeOptions, dependencies: PNodeDependencies): Promise<PNode> {
  const node = new HostingNode(options, dependencies);
  await node.start();
  return node;
}

class HostingNode implements PNode {
  readonly id: PNodeId;
  readonly #options: PNodeOptions;
  readonly #dependencies: PNodeDependencies;
  readonly #timings: Timings;
  readonly #ending = new AbortController();
  readonly #tasks: Tasks;
  readonly #orchestrators: Orchestrators;
  readonly #resolver: Resolver;
  readonly #links: Links;
  readonly #blobs: BlobClient;
  readonly #attachment: Attachment;
  readonly #workshop: Workshop;
  readonly #report: SelfReport;
  readonly #training: Training;
  readonly #servings: Servings;
  readonly #room: Room;
  readonly members: Membership | undefined;
  readonly #autonomy: Autonomy;
  readonly #auditor: Auditor;
  #server: Server | undefined;
  readonly #whereabouts: Whereabouts;
  #leaveGranted: () => void = () => {};

  constructor(options: PNodeOptions, dependencies: PNodeDependencies) {
    const { world, network } = dependencies;
    const { signal } = this.#ending;
    // Whoever is called by this key can be nobody else.
    this.id = (network.id ?? fail("failed_precondition", "a PNode needs a key of its own")) as string as PNodeId;
    this.#options = options;
    this.#dependencies = dependencies;
    this.#timings = { ...timingsDefault, ...options.timings };
    const { memoryBytes = 0n, diskBytes = 0n } = options.limits ?? {};
    const bounds = { ...boundsWithin(Number(memoryBytes), Number(diskBytes)), ...options.bounds };
    const incarnation = hexOf(world.chance.bytes(12));
    this.#report = new SelfReport(options, dependencies, incarnation, () => ({
      ...{ training: this.#training, servings: this.#servings, autonomy: this.#autonomy, links: this.#links },
      ...{ whereabouts: this.#whereabouts, attachment: this.#attachment },
    }));
    const timings = this.#timings;
    const tasks = new Tasks(world.log);
    this.#tasks = tasks;
    const orchestrators = new Orchestrators(network, world, timings, options.orchestrators);
    this.#orchestrators = orchestrators;
    this.members = dependencies.membership && this.#openMembership(dependencies.membership, incarnation, orchestrators);
    const resolver = new Resolver(orchestrators, world, tasks, signal);
    resolver.onLine = (workload, told) => this.#lineAdvanced(workload, told);
    resolver.onMoved = (workload) => this.#servings.moved(workload);
    this.#resolver = resolver;
    const bandwidth = new Bandwidth(world, Number(options.limits?.bandwidthBytesPerSecond ?? 0n));
    const common = { network, world, timings, tasks, signal };
    const { retryMinMs, retryMaxMs, askMaxMs: resendMs } = timings;
    const links = new Links({
      ...{ network, world, tasks, bandwidth, signal },
      timings: { retryMinMs, retryMaxMs, resendMs },
    });
    this.#links = links;
    const cache = dependencies.cache && { cache: dependencies.cache };
    const digest = dependencies.digest ?? digestHere;
    const aside = dependencies.aside ?? asideHere;
    const origins = new BlobOrigins(() => orchestrators.addresses);
    this.#blobs = new BlobClient({
      ...common,
      near: {
        find: (...wanted) => this.#autonomy.find(...wanted),
        isAlone: (session) => this.#autonomy.isAlone(session),
      },
      orchestrators,
      origins,
      bandwidth,
      transfer: dependencies.blobs,
      digest: dependencies.digestReceived ?? digest,
      ...cache,
    });
    const workshop = new Workshop({
      ...{ options, machine: dependencies, bounds, blobs: this.#blobs, digest, aside, signal },
      numerics: () => this.#report.numerics,
      describe: (session) => this.#autonomy.describe(session),
      classOf: (engine) => this.#report.classOf(engine),
    });
    this.#workshop = workshop;
    const machineBytes = Number(options.capabilities.memoryBytes ?? 0n);
    const isKnown = Number(memoryBytes) > 0 || machineBytes > 0;
    const lentBytes = isKnown ? lentMemoryBytes(Number(memoryBytes), machineBytes) : Number.POSITIVE_INFINITY;
    const room = dependencies.openRoom?.(lentBytes) ?? new Room(world.timers, lentBytes);
    this.#room = room;
    const reports = new Reports(world.clock);
    this.#attachment = new Attachment({
      ...common,
      orchestrators,
      reports,
      pulse: dependencies.pulse,
      locate: dependencies.reachable ? (towards) => this.#locate(towards) : undefined,
      register: () => this.#report.registration(),
      heartbeat: () => this.#report.heartbeat(),
      onRegistered: ({ blobOrigins, permit, networkPublicKey, networkFormer }) => {
        origins.learn(blobOrigins);
        if (permit) this.members?.admit(permit, shownFromWire(networkPublicKey, networkFormer));
      },
      onAssignments: (assignments) => this.#reconcile(assignments),
      onPrepare: ({ assignments }) => this.#training.hosts.prepare(learningOf(assignments)),
      onStandBy: ({ sessions }) => this.#training.standingBy.told(sessions),
      onSession: (update) => this.#sessionUpdate(update),
      onCircle: (circle) => this.#circle(circle),
      onLeaveGranted: () => this.#leaveGranted(),
      onReached: (reached) => this.#whereabouts.reached(reached),
      onRelays: (relays) => this.#whereabouts.learn(relays),
    });
    this.#whereabouts = new Whereabouts({
      ...{ pnode: this.id, network, world, tasks, signal, advertise: options.advertise, relay: options.relay },
      onlyByRelays: options.onlyByRelays ?? false,
      onMoved: (routes) => this.#attachment.tellMoved(routes),
    });
    reports.onUrgent = () => this.#attachment.beatSoon();
    const kept = new KeptStates(dependencies.kept ?? memoryKept());
    this.#training = new Training({
      ...{ pnode: this.id, world, timings, bounds, tasks, orchestrators, resolver, links, reports },
      blobs: this.#blobs,
      snapshot: (image) => workshop.snapshot(image),
      spill: dependencies.spill,
      room,
      openProcess: dependencies.openProcess ?? openProcess,
      openSession: (session, computes) => workshop.openSession(session, computes),
      onWork: dependencies.onWork,
      signing: dependencies.signing,
      hashOf: dependencies.hashOf ?? hashOfContent,
      signal,
      flush: () => this.#attachment.flush(),
      autonomy: () => this.#autonomy,
      kept,
    });
    const { hosts } = this.#training;
    this.#autonomy = new Autonomy({
      ...{ world, tasks, signal, timings, kept, resolver, networkKey: orchestrators.networkKey },
      self: { pnode: this.id, incarnation },
      rules: dependencies.crewRules ?? crewRules,
      cache: dependencies.cache,
      verify: dependencies.verify,
      peers: new CrewPeers({ ...{ network, world, bandwidth, signal }, digest }),
      routes: () => joinRoutes(this.#whereabouts.routes),
      orchestratorHeardMs: () => this.#attachment.heardMs,
      nobodyListens: () => this.#attachment.nobodyListens,
      describe: (session) =>
        orchestrators.call(PNodeService.method.describeSession, { session }, signal, describeAttempts),
      checkDescribed: (session, described) => workshop.checkDescribed(session, described),
      fetchStored: (session, hash, room, until) => this.#blobs.fetchState(session, hash, room, until),
      hosting: {
        of: (session) => hosts.of(session),
        hasRoom: (session, vnodes) => this.#training.hasRoom(session, vnodes),
        memoryBytesOf: (session, vnode) => this.#training.memoryBytesOf(session, vnode),
        takeOver: (assignment) => hosts.takeOver(assignment),
        giveUp: (session, vnode) => hosts.giveUp(session, vnode),
        reconcile: (assignments) => hosts.reconcile(assignments),
        prepare: (session, vnodes) => this.#training.prepare(session, vnodes),
      },
    });
    this.#auditor = new Auditor({
      ...{ world, tasks, timings, orchestrators, blobs: this.#blobs, room, signal, signing: dependencies.signing },
      aside,
      openProcess: dependencies.openProcess ?? openProcess,
      openSession: (session) => workshop.openSession(session, true),
      snapshot: (image) => workshop.snapshot(image),
    });
    this.#servings = new Servings({
      ...{ pnode: this.id, world, tasks, signal, links, resolver, orchestrators, blobs: this.#blobs },
      aside,
      room,
      executorFor: (engine) => workshop.executor(engine),
      tidy: () => this.#dependencies.tidy?.(),
      checkServed: (told) => workshop.checkServed(told),
    });
  }

  /** A PNode whose orchestrators are gone finds others by it. */
  #openMembership(
    given: MembershipDependencies,
    incarnation: string,
    orchestrators: Orchestrators,
  ): Membership | undefined {
    const { world, network } = this.#dependencies;
    const { networkKey } = orchestrators;
    if (networkKey === undefined) return undefined;
    const members = new Membership({
      ...given,
      ...{ id: this.id, role: "pnode" as const, incarnation: incarnation.slice(0, 16), networkKey, network, world },
      facts: () => this.#report.facts(),
      contacts: () => orchestrators.addresses,
    });
    members.onChange(({ roles }) => {
      if (roles.includes("orchestrator")) orchestrators.gossiped(members.orchestrators());
      if (roles.includes("relay")) this.#whereabouts.gossiped(members.relays());
    });
    return members;
  }

  get address(): string {
    return this.#whereabouts.routes[0] ?? "";
  }

  get reach(): ReachFound {
    return this.#whereabouts.reach;
  }

  get calledBack(): Promise<void> {
    return this.#whereabouts.calledBack;
  }

  get attached(): Promise<void> {
    return this.#attachment.first;
  }

  async start(): Promise<void> {
    const vouching = new Vouching(this.#orchestrators, this.#dependencies.world.clock, this.#ending.signal, {
      isCrew: (pnode) => this.#autonomy.isCrew(pnode),
      isPermitted: (pnode) => this.members?.alive(pnode) ?? false,
    });
    this.#server = await openDoor({
      ...{ id: this.id, options: this.#options, dependencies: this.#dependencies, vouching },
      ...{ resolver: this.#resolver, orchestrators: this.#orchestrators, attachment: this.#attachment },
      ...{ training: this.#training, servings: this.#servings, autonomy: this.#autonomy },
      others: [...(this.members ? [this.members.service] : []), ...this.#whereabouts.services],
      problems: () => this.problems(),
    });
    this.#whereabouts.serves(this.#server);
    this.#whereabouts.review((machine) => vouching.isStill(machine));
    await this.#autonomy.open();
    this.#tasks.run("attachment to an orchestrator", () => this.#attachment.run());
    this.#tasks.run("membership", async () => this.members?.start());
  }

  /** A laptop moves from network to network. */
  async #locate(orchestrator: string): Promise<void> {
    const bound = this.#server?.address ?? "";
    this.#whereabouts.locatedAt((await this.#dependencies.reachable?.(bound, orchestrator)) ?? bound);
  }

  readings(): Readings {
    return this.#report.readings(this.#workshop.dataWaitMs);
  }

  problems(): string[] {
    return this.#report.problems(this.#orchestrators.current);
  }

  measured(gflops: number, numerics: readonly { readonly engine: string; readonly class: string }[]): void {
    this.#report.measured(gflops, numerics);
    this.#attachment.tellMeasurement({ gflops, numerics: [...numerics] });
  }

  shareMemory(lendable: (heldBytes: number) => number): void {
    const bytes = lendable(this.#room.heldBytes);
    this.#room.lends(bytes);
    if (this.#report.lendsMemory(bytes)) this.#attachment.tellMeasurement({ memoryBytes: BigInt(bytes) });
  }

  async measureLine(): Promise<void> {
    const { network, world } = this.#dependencies;
    const place = this.#orchestrators.current;
    const options = { timeoutMs: probeTimeoutMs, signal: this.#ending.signal };
    const call: CallOrchestrator = (request) => network.call(place, PNodeService.method.measureLine, request, options);
    const bandwidthBytesPerSecond = await probeLine(call, world.clock);
    this.#report.measuredLine(bandwidthBytesPerSecond);
    this.#attachment.tellMeasurement({ bandwidthBytesPerSecond });
  }

  // What orchestrators say

  #reconcile(list: Assignments): void {
    this.#servings.reconcile(answeringOf(list.assignments));
    this.#training.hosts.reconcile(this.#autonomy.corrected(learningOf(list.assignments)));
    this.#auditor.reconcile(auditsOf(list.assignments));
  }

  #lineAdvanced(workload: WorkloadId, told: ToldLine): void {
    this.#autonomy.toldLine(workload, told.line, told.turn);
    this.#training.hosts.lineAdvanced(workload, told);
  }

  #sessionUpdate(update: SessionUpdate): void {
    const workload = update.session as WorkloadId;
    this.#resolver.update(workload, update.locations, update.revision);
    this.#autonomy.sessionUpdate(update);
    this.#links.keepOnly(this.#resolver.owners());
    this.#training.hosts.lineAdvanced(workload, lineOf(update));
    this.#training.hosts.setPaused(workload, update.status === "suspended");
  }

  /** Something between these VNodes is stuck. What is missing is asked for again by whoever waits for it. */
  #circle({ session, vnodes }: Circle): void {
    const owners = vnodes.flatMap((vnode) => this.#resolver.locate(session as WorkloadId, vnode as VNodeId));
    this.#links.renew(owners.map(({ pnode }) => pnode));
  }

  // Ending

  async leave(reason = "the owner asked it to leave"): Promise<void> {
    const { world } = this.#dependencies;
    this.#report.leaving = true;
    const granted = new Promise<void>((resolve) => {
      this.#leaveGranted = resolve;
    });
    this.#attachment.leave(reason);
    const idle = this.#training.hosts.all().length + this.#servings.hosted().length === 0;
    // Nobody is there to tell, and there is nothing to hand over.
    if (idle && !this.#attachment.attached) return this.stop();
    await Promise.race([granted, sleep(world.timers, this.#timings.leaveTimeoutMs, this.#ending.signal)]);
    await this.stop();
  }

  async stop(): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    await this.members?.stop(this.#report.leaving);
    this.#dependencies.pulse?.stop();
    this.#links.close();
    await this.#server?.close().catch((error) => {
      this.#dependencies.world.log("warn", `the server did not close well: ${messageOf(error)}`);
    });
    this.#autonomy.stop();
    await this.#training.hosts.stop();
    await this.#servings.stop();
    await this.#tasks.settled();
    await this.#workshop.close();
  }
}
