// Everything of a PNode that trains, put together: the VNodes it hosts, what they keep for each other, and how their
// messages travel.

import { hexOf } from "../../core/bytes.ts";
import { messageOf } from "../../core/errors.ts";
import type { ContentHash } from "../../core/hash.ts";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import { type World, withFields } from "../../core/world.ts";
import type { Links } from "../../peer/links.ts";
import type { StateImage } from "../../states/cut.ts";
import type { Signing } from "../../trust/signing.ts";
import type { OpenProcess } from "../../vnode/process.ts";
import { type Assignment, hostKey } from "../assignment.ts";
import type { Autonomy } from "../autonomy/autonomy.ts";
import { type CrewCheckpointOptions, persistWithCrew, recordStart } from "../autonomy/crew-checkpoints.ts";
import type { KeptStates } from "../autonomy/kept-states.ts";
import type { SessionCrew } from "../autonomy/session-crew.ts";
import type { BlobClient } from "../blob-client.ts";
import type { CheckpointOptions } from "../checkpoints.ts";
import type { Bounds, PerformedWork, SpillStorage, Timings } from "../options.ts";
import type { Orchestrators } from "../orchestrators.ts";
import type { Reports } from "../reports.ts";
import type { Resolver } from "../resolver.ts";
import type { Room } from "../room.ts";
import type { SessionContext } from "../session-context.ts";
import type { Snapshot } from "../snapshots.ts";
import type { ToldLine } from "../told-line.ts";
import { Arrivals } from "./arrivals.ts";
import { Exchange, type Sender } from "./exchange.ts";
import { HostedVNodes } from "./hosted.ts";
import { type Life, LifeOpener, type Persisted, persistLife } from "./life.ts";
import { Locker } from "./locker.ts";
import { PreparedLives } from "./prepared.ts";
import { Retention } from "./retention.ts";
import { type Owner, RunningVNode } from "./running-vnode.ts";
import { SessionContexts } from "./session-contexts.ts";
import { StandingBy } from "./standing-by.ts";
import { VNodeHost } from "./vnode-host.ts";

export interface TrainingOptions {
  readonly pnode: string;
  readonly world: World;
  readonly timings: Timings;
  readonly bounds: Bounds;
  readonly tasks: Tasks;
  readonly orchestrators: Orchestrators;
  readonly resolver: Resolver;
  readonly links: Links;
  readonly blobs: BlobClient;
  /** Of a state that is about to change. */
  readonly snapshot: (image: StateImage) => Snapshot;
  readonly reports: Reports;
  readonly spill: SpillStorage | undefined;
  readonly room: Room;
  readonly openProcess: OpenProcess;
  /** `computes`: VNodes of it will be computed here. */
  readonly openSession: (session: SessionId, computes: boolean) => Promise<SessionContext>;
  readonly onWork: ((work: PerformedWork) => void) | undefined;
  readonly signing: Signing | undefined;
  readonly hashOf: ContentHash;
  readonly signal: AbortSignal;
  /** Sends a heartbeat and waits a while until it is acknowledged. */
  readonly flush: () => Promise<void>;
  /** Of sessions that may go on without orchestrators. */
  readonly autonomy: () => Autonomy;
  readonly kept: KeptStates;
}

export class Training {
  readonly hosts: HostedVNodes;
  readonly retention: Retention;
  readonly standingBy: StandingBy;
  /** The protocol of what arrives from peers. */
  readonly arrivals: Arrivals;
  readonly #options: TrainingOptions;
  readonly #exchange: Exchange;
  readonly #opener: LifeOpener;
  readonly #prepared: PreparedLives;
  readonly #locker: Locker;
  readonly #contexts: SessionContexts;

  constructor(options: TrainingOptions) {
    const { pnode, world, tasks, resolver, links, blobs, bounds, openProcess, spill, signing, hashOf } = options;
    this.#options = options;
    this.retention = new Retention({
      memoryBytesMax: bounds.retainedBytesMax,
      diskBytesMax: bounds.spilledBytesMax,
      ...(spill && { storage: spill }),
      tasks,
      onFull: (full) => this.#retentionFull(full),
    });
    const contexts = new SessionContexts(options.openSession);
    this.#contexts = contexts;
    const session = (id: SessionId) => contexts.get(id, true);
    this.#locker = new Locker(options);
    this.#opener = new LifeOpener({
      ...{ session, blobs, openProcess, signing, snapshotBytesMax: bounds.snapshotBytesMax },
      newLifeName: () => hexOf(world.chance.bytes(12)),
    });
    this.#prepared = new PreparedLives((ahead, signal) => this.#openAhead(ahead, signal), world, tasks);
    const host = (assignment: Assignment) => this.#host(assignment);
    this.hosts = new HostedVNodes({
      world,
      tasks,
      resolver,
      prepared: this.#prepared,
      contexts,
      room: options.room,
      host,
      isAwaited: (id) => options.autonomy().crewOf(id) !== undefined || this.standingBy.has(id),
    });
    this.standingBy = new StandingBy({
      ...{ tasks, log: world.log },
      warm: (id, vnodes) => this.#warm(id, vnodes),
      onLeft: (id) => this.hosts.forgetUnused(id),
    });
    this.#exchange = new Exchange({
      ...{ pnode, links, resolver, directory: this.hosts, tasks, log: world.log, signing, hashOf },
      onGone: (session, peer) => options.autonomy().crewOf(session)?.askForNews(peer),
    });
    this.arrivals = new Arrivals(
      this.hosts,
      (sender, asker, message) => this.#exchange.sendToAsker(sender, asker, message),
      signing?.verify,
    );
  }

  /** Of messages that audits need, stored since it started. */
  get lockerBytes(): number {
    return this.#locker.bytes;
  }

  #host(assignment: Assignment): VNodeHost {
    const { session, vnode } = assignment;
    const { tasks, timings, reports, onWork, autonomy } = this.#options;
    const { log } = this.#options.world;
    const world: World = { ...this.#options.world, log: withFields(log, { session, vnode }) };
    const running = {
      ...{ world, timings, tasks, reports, onWork, exchange: this.#exchange, retention: this.retention },
      persist: (life: Life, step: number, sender: () => Sender, onFenced: () => void) =>
        this.#persist(world, life, step, sender, onFenced),
      checkpointTrouble: (of: SessionId) => autonomy().crewOf(of)?.keeping.troubleOf(vnode) ?? "",
      onBegin: (life: Life, sender: () => Sender, onFenced: () => void) => this.#begin(world, life, sender, onFenced),
      onLine: (of: SessionId, told: ToldLine) => this.hosts.lineAdvanced(of, told),
      locker: this.#locker,
    };
    const options = {
      ...{ world, timings, tasks },
      open: (wanted: Assignment, signal: AbortSignal) => this.#open(wanted, signal),
      run: (life: Life, owner: Owner) => new RunningVNode(running, life, owner),
      onUrgent: () => reports.onUrgent(),
      onFenced: (fenced: Assignment) => this.hosts.fenced(fenced),
    };
    return new VNodeHost(options, assignment);
  }

  /** What was loaded ahead, if that was for the same start. */
  async #open(assignment: Assignment, signal: AbortSignal): Promise<Life | undefined> {
    await this.#options.room.take(...(await this.#needOf(assignment)), signal);
    // What went wrong ahead, such as want of room, may go well now.
    const prepared = await this.#prepared.take(assignment)?.catch(() => undefined);
    if (prepared !== undefined && !signal.aborted) return prepared;
    await prepared?.compute.close();
    if (signal.aborted) return undefined;
    const crew = this.#options.autonomy().crewOf(assignment.session);
    if (crew === undefined) return this.#opener.open(assignment, signal);
    await crew.keeping.holdStart(assignment, signal).catch((error) => {
      const { vnode, line } = assignment;
      this.#options.world.log("debug", `VNode ${vnode} at step ${line} is not held here: ${messageOf(error)}`);
    });
    const life = await this.#opener.open(assignment, signal);
    if (life !== undefined) life.hashes = await crew.keeping.trail(assignment.vnode, assignment.line, signal);
    return life;
  }

  /** For whoever may take VNodes over, all of them: false until the session is known here. */
  hasRoom(session: SessionId, vnodes: readonly VNodeId[]): boolean {
    const context = this.#contexts.opened(session);
    if (context === undefined) return false;
    return this.#options.room.fits(
      new Map(vnodes.map((vnode) => [hostKey(session, vnode), context.memoryBytesOf(vnode)])),
    );
  }

  /** Undefined until the session is known here. */
  memoryBytesOf(session: SessionId, vnode: VNodeId): number | undefined {
    return this.#contexts.opened(session)?.memoryBytesOf(vnode);
  }

  /** Knows the session from now on, with its data if one of these VNodes reads any. */
  async prepare(session: SessionId, vnodes: readonly VNodeId[]): Promise<void> {
    const context = await this.#contexts.get(session);
    await context.workers();
    if (vnodes.some((vnode) => context.readsData(vnode))) await context.fetchData(this.#options.pnode);
  }

  /** Everything of a start but the state. */
  async #warm(id: SessionId, vnodes: readonly VNodeId[]): Promise<void> {
    const { room } = this.#options;
    const context = await this.#contexts.get(id, true);
    for (const vnode of vnodes) {
      const key = `standing by: ${hostKey(id, vnode)}`;
      room.takeAhead(key, context.memoryBytesOf(vnode));
      try {
        await context.warm(vnode, `${id}/${vnode}/warm`);
      } finally {
        room.giveBackAhead(key);
      }
    }
  }

  #begin(world: World, life: Life, sender: () => Sender, onFenced: () => void): void {
    const crew = this.#options.autonomy().crewOf(sender().session);
    if (crew !== undefined && life.start > 0)
      recordStart(this.#crewCheckpoint(world, life, sender, crew, onFenced), life);
  }

  #crewCheckpoint(
    world: World,
    life: Life,
    sender: () => Sender,
    crew: SessionCrew,
    onFenced: () => void,
  ): CrewCheckpointOptions {
    return {
      ...this.#checkpoint(world, life, sender),
      crew,
      kept: this.#options.kept,
      flush: this.#options.flush,
      onFenced,
    };
  }

  #checkpoint(world: World, life: Life, sender: () => Sender): CheckpointOptions {
    const { orchestrators, blobs, snapshot, timings } = this.#options;
    const { session, vnode } = sender();
    const epoch = () => sender().epoch;
    const { signal } = life.ending;
    return { session, vnode, orchestrators, blobs, snapshot, world, timings, signal, epoch };
  }

  /** Only into room that is free. */
  async #openAhead(assignment: Assignment, signal: AbortSignal): Promise<Life | undefined> {
    const { room } = this.#options;
    const need = await this.#needOf(assignment);
    if (signal.aborted) return undefined;
    room.takeAhead(...need);
    signal.addEventListener("abort", () => room.giveBackAhead(need[0]), { once: true });
    return this.#opener.open(assignment, signal);
  }

  async #needOf({ session, vnode }: Assignment): Promise<[key: string, bytes: number]> {
    const context = await this.#contexts.get(session);
    return [hostKey(session, vnode), context.memoryBytesOf(vnode)];
  }

  #persist(
    world: World,
    life: Life,
    step: number,
    sender: () => Sender,
    onFenced: () => void,
  ): Promise<Persisted | undefined> {
    const crew = this.#options.autonomy().crewOf(sender().session);
    if (crew !== undefined)
      return persistWithCrew(this.#crewCheckpoint(world, life, sender, crew, onFenced), life, step);
    return persistLife(this.#checkpoint(world, life, sender), life, step, this.#options.flush);
  }

  #retentionFull(full: boolean): void {
    if (full)
      this.#options.world.log("warn", "retained messages have reached their bound; VNodes wait for checkpoints");
    this.hosts.setFull(full);
  }
}
