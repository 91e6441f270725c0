// One run: a whole network of production code in a faulty world, from an empty store to the last step of every session
// and the last answer of every model, with every checker watching. Without faults it gives what to compare with.

import type { PNodeId, SessionId, Sha256 } from "../src/core/ids.ts";
import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import { key } from "../src/orchestrator/records/store-keys.ts";
import { standingAtFirst } from "../src/orchestrator/trust/standing.ts";
import { type AttachRequest, type AttachResponse, PNodeService } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import {
  SessionPeerService,
  type TellRequest,
  type TellResponse,
} from "../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import { CrewWatch, lastsUntilFinished } from "./autonomy.ts";
import { addressOf, type Site, startHost } from "./boot.ts";
import { Violations } from "./checks/checkers.ts";
import { Records } from "./checks/records.ts";
import type { RoundChecker } from "./checks/rounds.ts";
import type { Expectation, Result } from "./checks/session-watch.ts";
import { Witness } from "./checks/witness.ts";
import { Conversation } from "./conversation.ts";
import type { CrewAim } from "./crew-worlds.ts";
import type { RunSettings, SessionWish } from "./draw.ts";
import type { AimedKind, FaultPlan } from "./faults.ts";
import { crewsPatienceMs, inject } from "./injector.ts";
import { Liar } from "./lies/liar.ts";
import { Maintainer, storeData } from "./maintainer.ts";
import { mutants } from "./mutants.ts";
import type { SeedReport } from "./report.ts";
import { SimulatedBlobs } from "./world/blobs.ts";
import { Fabric } from "./world/network.ts";
import { SimulatedStore } from "./world/store.ts";
import { Wire } from "./world/wire.ts";
import { SimulatedWorld } from "./world/world.ts";

export interface RunOptions {
  /** Some of its machines lie. */
  readonly byzantine?: boolean;
  /** Some lie where a model answers. */
  readonly answers?: boolean;
  readonly readable?: boolean;
  readonly mutant?: string;
  /** A machine that speaks for others is among the PNodes. */
  readonly liar?: boolean;
  /** Its sessions go on without orchestrators, whatever the seed draws. */
  readonly autonomy?: boolean;
  /** Its only session has lanes, whatever the seed draws. */
  readonly lanes?: boolean;
  /** Instead of what the seed draws: a quiet world in which one rule of a crew decides. */
  readonly crew?: CrewAim;
  /** Some of its machines are behind routers, whatever the seed draws. */
  readonly routers?: boolean;
  /** Instead of the seed's own faults, to find out which of them matter. */
  readonly plan?: FaultPlan;
  /** Faults on top of the seed's own, instead of those that the seed draws or the mutant asks for. */
  readonly aims?: readonly AimedKind[];
}

/** After the faults have ended a world gets this much virtual time, and more for each session; beyond it is a hang. */
const patienceMs = 120_000;
const patiencePerSessionMs = 40_000;

/** Room that was given back, and replicas that nobody names, are found by whoever sweeps within this. */
const sweepMs = 240_000;

export class NetworkRun {
  readonly #settings: RunSettings;
  readonly #options: RunOptions;
  readonly #expected: Expectation;
  readonly #site: Site;
  readonly #violations = new Violations();
  readonly #witness: Witness;
  readonly #conversations: Conversation[] = [];
  readonly #crews: CrewWatch;
  #liar: Liar | undefined;
  /** Maintainers who have not got what they came for. */
  #waiting: number;

  constructor(seed: number, settings: RunSettings, expected: Expectation, options: RunOptions) {
    this.#settings = settings;
    this.#expected = expected;
    this.#options = options;
    this.#waiting = settings.sessions.length;
    const world = new SimulatedWorld(seed, { readable: options.readable === true });
    const wire = new Wire(world, { delayMs: settings.delayMs, bytesPerMs: settings.bytesPerMs });
    const fabric = new Fabric(wire, { windowBytes: settings.windowBytes });
    const store = new SimulatedStore(world);
    const blobs = new SimulatedBlobs(world);
    const records = new Records(store);
    const mutant = options.mutant === undefined ? undefined : mutants[options.mutant];
    this.#site = {
      world,
      fabric,
      store,
      blobs,
      records,
      addresses: settings.fleet.orchestrators.map(addressOf),
      builds: settings.builds,
      behaviours: settings.behaviours ?? new Map(),
      relays: settings.relays ?? [],
      whispers: new Map(),
      computeMs: settings.computeMs,
      workers: settings.workers,
      statePartBytes: settings.statePartBytes,
      retainedBytesMax: settings.retainedBytesMax,
      // Every other world cuts all its states on disk, as machines do with large ones.
      copyBytesMax: seed % 2 === 0 ? 0 : 1 << 20,
      vnodesPerPNode: settings.vnodesPerPNode,
      mutant,
      disks: new Map(),
      keptDisks: new Map(),
      refusesKept: (host, name) => this.#crews.refuses(host, name),
      onWork: (host, { session, vnode }) => this.#crews.worked(host, session, vnode),
      running: new Map(),
    };
    const isWhole = () => wire.isWhole && world.hosts.every(({ paused, slowness }) => !paused && slowness === 1);
    const { keptDisks, disks } = this.#site;
    const isHidden = (host: string) => fabric.hidden.has(host);
    this.#crews = new CrewWatch(world, records, keptDisks, this.#violations, isWhole, disks, isHidden);
    if (mutant?.tamper) fabric.tamper = mutant.tamper(records);
    if (mutant?.mistake) fabric.mistake = mutant.mistake(records);
    this.#witness = new Witness(this.#site, settings, expected, this.#violations, this.#crews);
    store.onWrite((write) => this.#witness.wrote(write));
    fabric.onSend = (message, method, side) => {
      this.#liar?.overhear(message, method);
      if (method === SessionPeerService.method.tell) this.#crews.tells(message as TellRequest | TellResponse);
      if (method !== PNodeService.method.attach) return;
      if (side === "input") this.#witness.told(message as AttachRequest);
      const { event } = message as AttachResponse;
      if (side === "output" && event.case === "assignments") this.#witness.trust.told(world.time.nowMs, event.value);
    };
    fabric.onAnswer = (answer) => {
      if (answer.method === PNodeService.method.recordDurable) this.#witness.recorded(answer);
      if (answer.method === SessionPeerService.method.tell) this.#crews.told(answer);
      if (answer.method === SessionPeerService.method.keep) this.#crews.kept(answer);
    };
  }

  /** The store's records as of now. */
  get records(): Records {
    return this.#site.records;
  }

  get sessionIds(): string[] {
    return [...this.#witness.sessions.keys()];
  }

  /** What is recorded of the rounds of a session. */
  roundsOf(session: string): RoundChecker {
    return this.#witness.roundsOf(session);
  }

  get nowMs(): number {
    return this.#site.world.time.nowMs;
  }

  /** Hears every record that is written under a prefix. */
  onWrite<T>(prefix: string, listener: (record: T) => void): void {
    this.#site.store.onWrite(({ key: name, after }) => {
      if (after !== undefined && name.startsWith(prefix)) listener(JSON.parse(after) as T);
    });
  }

  /** Of the only session. */
  get result(): Result {
    const [watch] = this.#witness.sessions.values();
    const answers = this.#conversations[0]?.answers ?? new Map();
    return { roots: watch?.roots ?? new Map(), metrics: watch?.metrics.values ?? new Map(), answers };
  }

  async finish(): Promise<SeedReport> {
    const { world } = this.#site;
    const onRejection = (error: unknown) => this.#error(`an unhandled rejection: ${describeError(error)}`);
    process.on("unhandledRejection", onRejection);
    try {
      await this.#start();
      const isBroken = () => this.#violations.found.length > 0;
      const limitMs =
        this.#settings.plan.windowMs +
        (lastsUntilFinished(this.#settings.plan) ? crewsPatienceMs : 0) +
        patienceMs +
        (this.#settings.patienceMs ?? 0) +
        patiencePerSessionMs * (this.#settings.sessions.length - 1);
      const end = await world.time.run(() => this.#waiting === 0 || isBroken(), limitMs);
      if (end !== "finished") this.#violations.add("hang", world.time.nowMs, `${this.#whoWaits()} (${end})`);
      for (const { host, atMs, error } of world.failures)
        this.#violations.add("error", atMs, `${host} threw: ${describeError(error)}`);
      if (!isBroken())
        for (const watch of this.#witness.sessions.values())
          watch.finish(world.time.nowMs, this.#witness.trust.isSeen(watch.id));
      if (!isBroken())
        for (const [id, rounds] of this.#witness.rounds) {
          const { microbatches = 0, sync } = this.records.session(id)?.identity ?? {};
          rounds.finish((sync?.after ?? 0) * microbatches);
        }
      this.#witness.trust.finish(world.time.nowMs);
      this.#witness.trust.answered(
        world.time.nowMs,
        this.#conversations.reduce((sum, { misled }) => sum + misled, 0),
      );
      if (!isBroken()) await this.#sweep();
    } finally {
      for (const { free } of this.#site.running.values()) free();
      this.#site.fabric.close();
      process.off("unhandledRejection", onRejection);
    }
    return this.#report();
  }

  /** No session is under way any more and no model is served, so nobody has room, and nothing is left of what was deleted. */
  async #sweep(): Promise<void> {
    const { world, records } = this.#site;
    const { time } = world;
    const left = () => [...this.#witness.rooms.claims(), ...records.strays()];
    await time.run(() => left().length === 0, time.nowMs + sweepMs);
    if (left().length > 0)
      this.#violations.add("room", time.nowMs, `everything has ended, and these are left: ${left().join(", ")}`);
  }

  #whoWaits(): string {
    const waits = [...this.#witness.sessions.values()].flatMap(({ id, status, reason }) =>
      status === "done" ? [] : [`${id} is ${status}${reason === "" ? "" : `: ${reason}`}`],
    );
    const silent = this.#conversations.flatMap(({ waitsFor }) => (waitsFor === undefined ? [] : [waitsFor]));
    return [`${this.#waiting} of ${this.#settings.sessions.length} maintainers wait`, ...waits, ...silent].join("; ");
  }

  async #start(): Promise<void> {
    const { world, fabric, store, blobs, records, running } = this.#site;
    const { fleet, plan, sessions, trusted = [] } = this.#settings;
    for (const pnode of trusted) {
      const standing = { ...standingAtFirst(pnode as PNodeId), trusted: true };
      await store.inner.put(key.standing(pnode as PNodeId), JSON.stringify(standing), 0);
    }
    for (const name of [...fleet.orchestrators, ...fleet.pnodes]) startHost(this.#site, name);
    if (this.#options.liar || this.#site.mutant?.liar)
      this.#liar = new Liar(this.#site, (what) =>
        this.#violations.add("fence", world.time.nowMs, `the liar was believed: ${what}`),
      );
    for (const [index, wish] of sessions.entries()) await this.#maintain(index, wish);
    inject(plan, {
      world,
      wire: fabric.wire,
      hidden: fabric.hidden,
      store,
      blobs,
      start: (name) => startHost(this.#site, name),
      busy: () => records.owners(),
      checkpoints: () => this.#damageable(),
      line: () => this.#loseableLine(),
      leave: (name) => void running.get(name)?.leave(),
      silence: (name, by) => fabric.silence(name, by),
      crews: this.#crews,
    });
  }

  /** Each session has a person who creates it, goes on with it, and asks its model questions. */
  async #maintain(index: number, { scenario, policy, atMs, questions, audit }: SessionWish): Promise<void> {
    const { world, fabric, addresses, blobs } = this.#site;
    const manifest = await storeData(scenario.data, blobs);
    const person = world.start(`maintainer${index + 1}`);
    const maintainer = new Maintainer(person, fabric.people(person), addresses);
    const life = async () => {
      const session = await maintainer.train({ scenario, manifest, policy, key: `session ${index + 1}`, atMs });
      const isOver = () => ["done", "failed"].includes(this.#witness.sessions.get(session)?.status ?? "");
      await maintainer.watch(session, isOver);
      if (questions > 0 && this.#witness.sessions.get(session)?.status === "done")
        await this.#converse(maintainer, session, questions, audit);
      this.#waiting -= 1;
    };
    life().catch((error) => this.#error(`maintainer ${index + 1} was refused: ${describeError(error)}`));
  }

  async #converse(maintainer: Maintainer, session: SessionId, questions: number, audit?: "on"): Promise<void> {
    const { identity, numericsClass } = this.#site.records.session(session) as SessionRecord;
    const answers = this.#expected(identity.definition)?.get(numericsClass)?.answers;
    const { nowMs } = this.#site.world.time;
    const model = `the-model-of-${session}`;
    const conversation = new Conversation(
      maintainer,
      model,
      // A replica keeps the class of its first placement as long as it lives; the answer is one that it had or has.
      answers && (() => this.#site.records.classesOf(model).flatMap((name) => answers.get(name) ?? [])),
      (kind, message) => this.#violations.add(kind, this.#site.world.time.nowMs, message),
      [...this.#site.behaviours.values()].includes("dozes"),
    );
    this.#conversations.push(conversation);
    await conversation.run(session, questions, Math.max(0, this.#settings.plan.windowMs - nowMs), audit);
  }

  /** One checkpoint may be lost at a time: with the line and the one before it gone, nobody could go on. */
  #damageable(): Sha256[] {
    const { records, blobs } = this.#site;
    const named = records.checkpoints();
    return named.some((hash) => blobs.damaged.has(hash)) ? [] : named;
  }

  #loseableLine(): { hash: Sha256; owner: string }[] {
    const allowed = new Set(this.#damageable());
    return this.#site.records.lineStates().filter(({ hash }) => allowed.has(hash));
  }

  #error(message: string): void {
    this.#violations.add("error", this.#site.world.time.nowMs, message);
  }

  #report(): SeedReport {
    const { world } = this.#site;
    const { sessions, fleet, builds } = this.#settings;
    const trained = sessions.map(
      ({ scenario, policy, questions }) =>
        `${scenario.name} (checkpoint every ${policy.checkpointEvery || "so often as is usual"}, ${policy.replicas} replica(s)${questions > 0 ? `, ${questions} questions` : ""})`,
    );
    const mixed = builds.size > 0 ? `, ${builds.size} of another build` : "";
    return {
      seed: world.seed,
      scenario: `${trained.join(", ")}; ${fleet.pnodes.length} PNodes${mixed}, ${fleet.orchestrators.length} orchestrators`,
      sessions: sessions.length,
      questions: this.#conversations.reduce((sum, { asked }) => sum + asked, 0),
      violations: this.#violations.found,
      faults: Object.fromEntries(world.trace.faults),
      virtualMs: world.time.nowMs,
      events: world.time.events,
      traceHash: world.trace.hash,
      ...(this.#site.behaviours.size > 0 ? { trust: this.#witness.trust.figures } : {}),
      ...(this.#options.readable ? { trace: world.trace.text() } : {}),
    };
  }
}

function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
