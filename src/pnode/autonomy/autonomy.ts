// Sessions that go on while no orchestrator is there, at one PNode: which crews it belongs to, what it says to the others
// of them, and what that does to the VNodes that it hosts.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { fail, messageOf, outlookOf } from "../../core/errors.ts";
import type { KeyId, SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import type { Verify } from "../../core/keys.ts";
import { Backoff } from "../../core/retry.ts";
import type { Tasks } from "../../core/tasks.ts";
import { sleep, type World } from "../../core/world.ts";
import {
  type Charter,
  charterToWire,
  isExpired,
  readCharter,
  type SignedCharter,
  tenureFromWire,
  tenureToWire,
} from "../../crew/charter.ts";
import type { CrewRules } from "../../crew/crew.ts";
import { successorsOf } from "../../crew/successors.ts";
import { isOwnedBy, type Tenure, type TenureOwner } from "../../crew/tenures.ts";
import type { DescribeSessionResponse, Location, SessionUpdate } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { KeptCharterSchema, type CrewNews as WireNews } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { ServedService } from "../../protocol/network.ts";
import { joinRoutes, splitRoutes } from "../../protocol/routes/routes.ts";
import type { Assignment } from "../assignment.ts";
import type { NearBlobs } from "../blob-client.ts";
import type { BlobCache, Timings } from "../options.ts";
import type { Resolver } from "../resolver.ts";
import type { SessionCrewOptions } from "./crew-cell.ts";
import { crewService } from "./crew-service.ts";
import { Descriptions, type DescriptionsOptions } from "./descriptions.ts";
import type { KeptStates } from "./kept-states.ts";
import type { CrewPeers } from "./peers.ts";
import { SessionCrew } from "./session-crew.ts";

export interface AutonomyOptions {
  readonly self: TenureOwner;
  readonly world: World;
  readonly tasks: Tasks;
  readonly signal: AbortSignal;
  readonly timings: Timings;
  readonly rules: CrewRules;
  readonly kept: KeptStates;
  readonly cache: BlobCache | undefined;
  readonly peers: CrewPeers;
  readonly resolver: Resolver;
  readonly networkKey: KeyId | undefined;
  readonly verify: Verify | undefined;
  readonly routes: () => string;
  readonly orchestratorHeardMs: () => number | undefined;
  readonly nobodyListens: () => boolean;
  readonly describe: DescriptionsOptions["describe"];
  readonly checkDescribed: DescriptionsOptions["check"];
  readonly fetchStored: SessionCrewOptions["fetchStored"];
  readonly hosting: Hosting;
}

/** The VNodes of this PNode that learn. */
export interface Hosting {
  of(session: SessionId): readonly Hosted[];
  /** Whether there is room; false until the session is known here. */
  hasRoom(session: SessionId, vnodes: readonly VNodeId[]): boolean;
  memoryBytesOf(session: SessionId, vnode: VNodeId): number | undefined;
  takeOver(assignment: Assignment): void;
  giveUp(session: SessionId, vnode: VNodeId): void;
  /** Hosts exactly these. */
  reconcile(assignments: readonly Assignment[]): void;
  /** Makes the session known here, ahead of a takeover; with its data if one of these VNodes reads any. */
  prepare(session: SessionId, successorOf: readonly VNodeId[]): Promise<void>;
}

export interface Hosted {
  readonly assignment: Assignment;
  crewLine(line: number, turn: number, state: string, staysBelow: boolean): void;
}

const endedStatuses: ReadonlySet<string> = new Set(["done", "failed", "deleted", "suspended"]);
const describePauseMs = 2_000;

export class Autonomy implements NearBlobs {
  readonly #options: AutonomyOptions;
  readonly #crews = new Map<SessionId, SessionCrew>();
  readonly #descriptions: Descriptions;
  /** The newest list of an orchestrator, as it was told. */
  #told: readonly Assignment[] = [];
  readonly #preparing = new Set<SessionId>();
  /** Of which VNodes this PNode could go on with each session. */
  readonly #prepared = new Map<SessionId, ReadonlySet<VNodeId>>();

  constructor(options: AutonomyOptions) {
    this.#options = options;
    const { peers, cache, describe, checkDescribed: check } = options;
    this.#descriptions = new Descriptions({ peers, cache, describe, check });
  }

  /** Goes on with what an earlier process of this PNode belonged to. */
  async open(): Promise<void> {
    const { kept, world } = this.#options;
    await kept.open();
    for (const [session, content] of [...kept.charters]) {
      try {
        const { charter, described } = fromBinary(KeptCharterSchema, content);
        if (charter === undefined) fail("data_loss", "it is empty");
        this.#descriptions.found(session, described);
        this.#learn(charter);
      } catch (error) {
        world.log("warn", `the charter of session ${session} on this disk is of no use: ${messageOf(error)}`);
        await kept.forget(session);
      }
    }
  }

  crewOf(session: string): SessionCrew | undefined {
    return this.#crews.get(session as SessionId);
  }

  /** Sessions of whose crew this PNode is. */
  get sessions(): SessionId[] {
    return [...this.#crews.keys()];
  }

  isCrew(pnode: string): boolean {
    return [...this.#crews.values()].some((crew) => crew.isCrew(pnode));
  }

  /** What is known here, else an orchestrator's word; the crew may tell it while nobody answers. */
  async describe(session: SessionId): Promise<DescribeSessionResponse> {
    const { world, signal, describe } = this.#options;
    for (;;) {
      const known = this.#descriptions.of(session);
      if (known !== undefined) return known;
      try {
        return await describe(session);
      } catch (error) {
        if (signal.aborted || outlookOf(error) !== "passing") throw error;
        await sleep(world.timers, describePauseMs, signal);
      }
    }
  }

  stop(): void {
    for (const crew of this.#crews.values()) crew.stop();
  }

  // What orchestrators say

  sessionUpdate(update: SessionUpdate): void {
    const session = update.session as SessionId;
    if (endedStatuses.has(update.status)) {
      this.#forget(session);
      return;
    }
    if (update.charter !== undefined) this.#learnSafely(update.charter);
    const crew = this.#crews.get(session);
    crew?.toldOwners([...tenuresOf(update.locations), ...update.vacant.map(tenureFromWire)]);
    crew?.toldLine(Number(update.line), Number(update.turn));
  }

  toldLine(session: string, line: number, turn: number): void {
    this.crewOf(session)?.toldLine(line, turn);
  }

  /** An orchestrator's list, corrected by what it does not know yet: takeovers count until it says more. */
  corrected(list: readonly Assignment[]): Assignment[] {
    const { self, hosting } = this.#options;
    this.#told = list;
    const wanted = new Map(list.map((assignment) => [`${assignment.session}/${assignment.vnode}`, assignment]));
    for (const [session, crew] of this.#crews) {
      const own = new Map(hosting.of(session).map(({ assignment }) => [assignment.vnode, assignment]));
      for (const tenure of crew.takeovers()) {
        const key = `${session}/${tenure.vnode}`;
        if ((wanted.get(key)?.epoch ?? -1) > tenure.epoch) continue;
        const hosted = own.get(tenure.vnode);
        if (isOwnedBy(tenure, self) && hosted !== undefined) wanted.set(key, hosted);
        else wanted.delete(key);
      }
    }
    return Array.from(
      wanted.values(),
      (assignment) => this.crewOf(assignment.session)?.raised(assignment) ?? assignment,
    );
  }

  /** What happened without them, for heartbeats. */
  reports() {
    return Array.from(this.#crews, ([session, crew]) => ({
      session,
      takeovers: crew.takeovers().map(tenureToWire),
      line: BigInt(crew.line),
      turn: BigInt(crew.turn),
      keptBytes: BigInt(crew.keeping.keptBytes + crew.telling.newsBytes),
      keptStates: BigInt(crew.keeping.keptStates),
    }));
  }

  // Charters

  #learnSafely(signed: SignedCharter): void {
    try {
      this.#learn(signed);
    } catch (error) {
      this.#options.world.log("warn", `a charter is not believed: ${messageOf(error)}`);
    }
  }

  #learn(signed: SignedCharter): void {
    const { networkKey, verify, self, tasks } = this.#options;
    if (networkKey === undefined || verify === undefined) return;
    const charter = readCharter(signed, networkKey, verify);
    const { session } = charter;
    const known = this.#crews.get(session);
    if (known !== undefined && known.charter.revision >= charter.revision) return;
    if (!charter.crew.has(self.pnode)) {
      if (known?.isAlone) this.#superseded(session);
      return;
    }
    if (known === undefined) this.#crews.set(session, this.#open(charter, signed));
    else known.learn(charter, signed);
    tasks.run(`the charter of session ${session}`, () => this.#keepCharter(session));
    if (!this.#preparing.has(session)) {
      this.#preparing.add(session);
      tasks.run(`what the crew of session ${session} needs`, () => this.#prepare(session));
    }
  }

  /** The others go on by a newer charter, without this PNode, and take no word of it: whatever it did alone would be for nobody. */
  #superseded(session: SessionId): void {
    const { hosting, world } = this.#options;
    world.log("warn", "others go on by a newer charter, which does not name this PNode", { session });
    for (const { assignment } of hosting.of(session)) hosting.giveUp(session, assignment.vnode);
    this.#forget(session);
  }

  #open(charter: Charter, signed: SignedCharter): SessionCrew {
    const { self, world, tasks, signal, timings, rules, kept, peers, routes, hosting, resolver } = this.#options;
    const { orchestratorHeardMs, nobodyListens } = this.#options;
    const { session } = charter;
    const crew: SessionCrew = new SessionCrew(charter, signed, {
      ...{ self, world, tasks, signal, rules, kept, peers, routes, orchestratorHeardMs, nobodyListens },
      timings: { ...timings, silentMs: timings.crewSilentMs },
      fetchStored: this.#options.fetchStored,
      hooks: {
        hosted: () => hosting.of(session).map(({ assignment }) => assignment),
        lastStep: () => this.#descriptions.lastStep(session),
        hasRoom: (vnodes) => hosting.hasRoom(session, vnodes),
        memoryBytesOf: (vnode) => hosting.memoryBytesOf(session, vnode),
        host: (assignment) => hosting.takeOver(assignment),
        giveUp: (vnode) => hosting.giveUp(session, vnode),
        startOver: () => {
          for (const { assignment } of hosting.of(session)) hosting.giveUp(session, assignment.vnode);
          hosting.reconcile(this.corrected(this.#told));
        },
        onLine: (line, turn, stateOf) => {
          for (const host of hosting.of(session)) {
            const state = stateOf(host.assignment.vnode);
            if (state !== undefined) host.crewLine(line, turn, state, rules.staysBelowTheLine);
          }
        },
        onTenures: (tenures, routesOf) => {
          const words = tenures.map(({ vnode, epoch, count, owners }) => {
            const locations = owners.map(({ pnode }, replica) => {
              // Read by the transport alone, which checks it.
              const routes = joinRoutes(splitRoutes(routesOf(pnode)));
              return { epoch, pnode, routes, replica };
            });
            return [vnode, { epoch, count, locations }] as const;
          });
          resolver.crewSays(session, new Map(words));
        },
      },
    });
    crew.telling.onNews = (pnode, incarnation, news) => this.#heard(crew, pnode, incarnation, "", news);
    crew.telling.onCharter = (newer) => this.#learnSafely(newer);
    return crew;
  }

  async #keepCharter(session: SessionId): Promise<void> {
    const crew = this.#crews.get(session);
    if (crew === undefined) return;
    const described = this.#descriptions.bytesOf(session);
    const kept = create(KeptCharterSchema, { charter: charterToWire(crew.signed), described });
    await this.#options.kept.keepCharter(session, toBinary(KeptCharterSchema, kept));
  }

  /** Whoever may have to take over knows the session by then, and has the data that it would need; until its charter asks no more. */
  async #prepare(session: SessionId): Promise<void> {
    const { world, signal, timings } = this.#options;
    const backoff = new Backoff(timings.retryMinMs, describePauseMs, world.chance);
    for (let crew = this.#crews.get(session); !signal.aborted && crew; crew = this.#crews.get(session)) {
      const { charter } = crew;
      try {
        await this.#prepareFor(crew);
        // A newer one may let this PNode host, or name it as an owner.
        if (this.#crews.get(session)?.charter === charter) break;
        backoff.reset();
      } catch (error) {
        world.log("debug", `session ${session} is not prepared: ${messageOf(error)}; trying again`);
        await sleep(world.timers, backoff.next(), signal);
      }
    }
    this.#preparing.delete(session);
  }

  async #prepareFor(crew: SessionCrew): Promise<void> {
    const { hosting, self } = this.#options;
    const { charter, mayHost } = crew;
    const { session } = charter;
    if (this.#descriptions.of(session) === undefined) {
      await this.#descriptions.ask(session, crew.others(), crew.isAlone);
      await this.#keepCharter(session);
    }
    if (!mayHost) return;
    const hosts = [...charter.crew].filter(([, { hosts }]) => hosts).map(([pnode]) => pnode);
    // Owners read their data as they go: what they have not read yet would be nobody's.
    const needsData = ({ vnode, tenure }: Charter["vnodes"][number]) => {
      if (tenure.owners.some((owner) => owner.pnode === self.pnode)) return true;
      const others = hosts.filter((pnode) => !tenure.owners.some((owner) => owner.pnode === pnode));
      return successorsOf(session, vnode, others).slice(0, charter.keepers).includes(self.pnode);
    };
    const needed = charter.vnodes.filter(needsData).map(({ vnode }) => vnode);
    const prepared = this.#prepared.get(session);
    if (prepared !== undefined && needed.every((vnode) => prepared.has(vnode))) return;
    await hosting.prepare(session, needed);
    if (this.#crews.get(session) === crew) this.#prepared.set(session, new Set([...(prepared ?? []), ...needed]));
  }

  #forget(session: SessionId): void {
    const { kept, tasks, resolver } = this.#options;
    const crew = this.#crews.get(session);
    if (crew === undefined) return;
    crew.stop();
    this.#crews.delete(session);
    this.#descriptions.forget(session);
    this.#prepared.delete(session);
    resolver.crewSays(session, undefined);
    tasks.run(`forget the crew of session ${session}`, () => kept.forget(session));
  }

  // Blobs

  isAlone(session: string): boolean {
    return this.crewOf(session)?.isAlone ?? false;
  }

  async find(
    session: string,
    hash: Sha256,
    room: (bytes: number) => Uint8Array,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    const crew = this.crewOf(session);
    const own = await this.#options.kept.read(hash).catch(() => undefined);
    if (own !== undefined) {
      const content = room(own.byteLength);
      content.set(own);
      return content;
    }
    if (crew === undefined || !crew.isAlone) return undefined;
    return crew.keeping.fetchBlob(hash, crew.sources(hash), room, signal).catch(() => undefined);
  }

  // What peers say

  service(): ServedService {
    const { self, kept, peers } = this.#options;
    return crewService({
      ...{ self, kept, peers },
      data: (session, hash) => this.#descriptions.data(session, hash),
      describe: (session) => this.#descriptions.bytesOf(session),
      enlist: (signed, caller) => this.#enlist(signed, caller),
      crewOf: (session) => this.crewOf(session),
      heard: (...news) => this.#heard(...news),
    });
  }

  /**
   * A charter that one of those whom it names has brought. While an orchestrator is there it tells by itself what this PNode
   * belongs to; without one, a disk that was lost would leave the crew one short for ever.
   */
  #enlist(signed: SignedCharter, caller: string | undefined): SignedCharter | undefined {
    const { networkKey, verify, self, world, orchestratorHeardMs } = this.#options;
    if (networkKey === undefined || verify === undefined || orchestratorHeardMs() !== undefined)
      fail("failed_precondition", "this PNode takes charters from its orchestrator");
    const charter = readCharter(signed, networkKey, verify);
    if (caller === undefined || !charter.crew.has(caller) || !charter.crew.has(self.pnode))
      fail("permission_denied", `the charter of session ${charter.session} does not name both`);
    if (isExpired(charter, world.clock.wallMs())) fail("failed_precondition", "the charter has expired");
    const known = this.#crews.get(charter.session);
    if (known !== undefined && known.charter.revision > charter.revision) return known.signed;
    this.#learn(signed);
    return undefined;
  }

  #heard(crew: SessionCrew, peer: string, incarnation: string, routes: string, news: WireNews): void {
    if (news.charter !== undefined && news.charterRevision > crew.charter.revision) this.#learnSafely(news.charter);
    crew.heard(peer, incarnation, routes, news);
  }
}

/** Locations do not say which process of a PNode hosts; charters do. */
function tenuresOf(locations: readonly Location[]): Tenure[] {
  return Array.from(
    Map.groupBy(locations, ({ vnode }) => vnode as VNodeId),
    ([vnode, places]) => ({
      vnode,
      epoch: Math.max(...places.map(({ epoch }) => Number(epoch))),
      count: 0,
      owners: places.map(({ pnode }) => ({ pnode, incarnation: "" })),
    }),
  );
}
