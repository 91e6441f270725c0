// One seed: a whole network of production code in a faulty world, from an empty store to the last step, with
// every checker watching. Without faults the same function gives the step roots to compare with.

import type { Sha256 } from "../src/core/ids.ts";
import { compileText } from "../src/network/compile.ts";
import type { SessionRecord, StepRecord, VNodeRecord } from "../src/orchestrator/records/records.ts";
import { type AttachRequest, PNodeService, type RecordDurableRequest } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { SimulatedBlobs } from "./blobs.ts";
import { addressOf, type Site, startHost } from "./boot.ts";
import { SeededChance } from "./chance.ts";
import { FenceChecker, MetricChecker, RootChecker, Violations } from "./checkers.ts";
import { drawPlan, type FaultPlan, type Fleet, noFaults } from "./faults.ts";
import { inject } from "./injector.ts";
import { Maintainer, type SessionPolicy, storeData } from "./maintainer.ts";
import { mutants } from "./mutants.ts";
import { type Answer, Fabric } from "./network.ts";
import { Records } from "./records.ts";
import type { SeedReport } from "./report.ts";
import { RoomChecker } from "./rooms.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { type AcceptedWrite, SimulatedStore } from "./store.ts";
import { Wire } from "./wire.ts";
import { SimulatedWorld } from "./world.ts";

export interface RunSettings {
  readonly scenario: Scenario;
  readonly fleet: Fleet;
  readonly policy: SessionPolicy;
  /** Of one run of a graph. */
  readonly computeMs: number;
  /** One way. */
  readonly delayMs: number;
  readonly windowBytes: number;
  readonly retainedBytesMax: number;
  /** What fits into a PNode's memory: few, so that networks spread. */
  readonly vnodesPerPNode: number;
  readonly plan: FaultPlan;
}

export interface RunOptions {
  readonly readable?: boolean;
  readonly mutant?: string;
  /** Instead of the seed's own faults, to find out which of them matter. */
  readonly plan?: FaultPlan;
}

/** After the faults have ended a session gets this much virtual time; more is a hang. */
const patienceMs = 150_000;

/** What one step may add while the disk is still writing. */
const retainedSlackBytes = 1_000;

/** What a seed draws: network, fleet, policy, speeds and faults. */
export function drawRun(seed: number): RunSettings {
  const chance = new SeededChance(seed, "run");
  const fleet = fleetOf(chance.whole(2, 8), chance.whole(1, 3));
  const scenario = chance.pick(scenarios);
  const replicas = fleet.pnodes.length >= 3 && chance.happens(0.2) ? 2 : 1;
  const plan = drawPlan(seed, fleet);
  // A cut may leave one PNode out for good; the others must have room for all.
  const usable = Math.max(1, fleet.pnodes.length - plan.timed.filter(({ fault }) => fault.kind === "cut").length);
  const needed = Math.ceil((replicas * compileText(scenario.definition).vnodes.length) / usable);
  return {
    scenario,
    fleet,
    policy: { checkpointEvery: chance.pick([1, 2, 3, 4]), replicas },
    vnodesPerPNode: needed + chance.pick([0, 1, 1, 2, 8]),
    computeMs: chance.skewed(10, 150),
    delayMs: chance.skewed(0.5, 30),
    windowBytes: chance.pick([2_000, 64_000, 1_000_000]),
    retainedBytesMax: chance.pick([500, 4_000, 1_000_000]),
    plan,
  };
}

export function fleetOf(pnodes: number, orchestrators: number): Fleet {
  const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`);
  return { pnodes: names("p", pnodes), orchestrators: names("o", orchestrators) };
}

/** What a scenario comes to. */
export interface Result {
  readonly roots: ReadonlyMap<number, string>;
  readonly metrics: ReadonlyMap<string, number>;
}

const baselines = new Map<string, Promise<Result>>();

/** The result of a scenario in a world without faults, on one PNode. */
export function baselineOf(scenario: Scenario): Promise<Result> {
  const known = baselines.get(scenario.name);
  if (known !== undefined) return known;
  const computed = undisturbed(scenario, fleetOf(1, 1), { checkpointEvery: 2, replicas: 1 });
  baselines.set(scenario.name, computed);
  return computed;
}

const calm = {
  computeMs: 5,
  delayMs: 1,
  windowBytes: 1_000_000,
  retainedBytesMax: 1_000_000,
  vnodesPerPNode: 100,
  plan: noFaults(1),
};

export async function undisturbed(
  scenario: Scenario,
  fleet: Fleet,
  policy: SessionPolicy,
  other: Partial<RunSettings> = {},
): Promise<Result> {
  const run = new NetworkRun(1, { scenario, fleet, policy, ...calm, ...other }, undefined, {});
  const [violation] = (await run.finish()).violations;
  if (violation !== undefined) throw new Error(`the undisturbed run of ${scenario.name} failed: ${violation.message}`);
  return run.result;
}

export async function runSeed(seed: number, options: RunOptions = {}): Promise<SeedReport> {
  const drawn = drawRun(seed);
  const settings = options.plan ? { ...drawn, plan: options.plan } : drawn;
  const expected = await baselineOf(settings.scenario);
  return new NetworkRun(seed, settings, expected, options).finish();
}

export class NetworkRun {
  readonly #roots = new Map<number, string>();
  readonly #settings: RunSettings;
  readonly #options: RunOptions;
  readonly #site: Site;
  readonly #violations = new Violations();
  readonly #fence: FenceChecker;
  readonly #accepted = new Set<string>();
  readonly #rooms = new RoomChecker((atMs, message) => this.#violations.add("room", atMs, message));
  readonly #rootChecker: RootChecker | undefined;
  readonly #metricChecker: MetricChecker;
  #status = "";

  constructor(seed: number, settings: RunSettings, expected: Result | undefined, options: RunOptions) {
    this.#settings = settings;
    this.#fence = new FenceChecker(this.#violations, settings.policy.replicas);
    this.#options = options;
    this.#rootChecker = expected && new RootChecker(expected.roots, this.#violations);
    this.#metricChecker = new MetricChecker(expected?.metrics, this.#violations);
    const world = new SimulatedWorld(seed, { readable: options.readable === true });
    const wire = new Wire(world, { delayMs: settings.delayMs });
    const fabric = new Fabric(wire, { windowBytes: settings.windowBytes });
    const store = new SimulatedStore(world);
    const blobs = new SimulatedBlobs(world);
    const addresses = settings.fleet.orchestrators.map(addressOf);
    const records = new Records(store);
    const mutant = options.mutant === undefined ? undefined : mutants[options.mutant];
    this.#site = {
      world,
      fabric,
      store,
      blobs,
      records,
      addresses,
      computeMs: settings.computeMs,
      retainedBytesMax: settings.retainedBytesMax,
      // Every other world cuts all its states on disk, as machines do with large ones.
      copyBytesMax: seed % 2 === 0 ? 0 : 1 << 20,
      vnodesPerPNode: settings.vnodesPerPNode,
      mutant,
      disks: new Map(),
      running: new Map(),
    };
    if (mutant?.tamper) fabric.tamper = mutant.tamper(records);
    store.onWrite((write) => this.#wrote(write));
    fabric.onSend = (message, method, side) => {
      if (method === PNodeService.method.attach && side === "input") this.#told(message as AttachRequest);
    };
    fabric.onAnswer = (answer) => {
      if (answer.method === PNodeService.method.recordDurable) this.#recorded(answer);
    };
  }

  get result(): Result {
    return { roots: this.#roots, metrics: this.#metricChecker.values };
  }

  async finish(): Promise<SeedReport> {
    const { world } = this.#site;
    const onRejection = (error: unknown) => this.#error(`an unhandled rejection: ${describeError(error)}`);
    process.on("unhandledRejection", onRejection);
    try {
      await this.#start();
      const limitMs = this.#settings.plan.windowMs + patienceMs;
      const end = await world.time.run(() => this.#status !== "" || this.#violations.found.length > 0, limitMs);
      if (end !== "finished") this.#violations.add("hang", world.time.nowMs, `the session did not finish (${end})`);
      for (const { host, atMs, error } of world.failures)
        this.#violations.add("error", atMs, `${host} threw: ${describeError(error)}`);
      if (this.#violations.found.length === 0) this.#rootChecker?.finish(world.time.nowMs);
    } finally {
      for (const { free } of this.#site.running.values()) free();
      process.off("unhandledRejection", onRejection);
    }
    return this.#report();
  }

  async #start(): Promise<void> {
    const { world, wire } = { world: this.#site.world, wire: this.#site.fabric.wire };
    const { fleet, plan, scenario, policy } = this.#settings;
    const manifest = await storeData(scenario.data, this.#site.blobs);
    for (const name of [...fleet.orchestrators, ...fleet.pnodes]) startHost(this.#site, name);
    const person = world.start("maintainer");
    const maintainer = new Maintainer(person, this.#site.fabric.network(person), this.#site.addresses);
    maintainer
      .train(scenario, manifest, policy)
      .then((session) => maintainer.watch(session, () => this.#status !== ""))
      .catch((error) => this.#error(`the maintainer was refused: ${describeError(error)}`));
    inject(plan, {
      world,
      wire,
      store: this.#site.store,
      blobs: this.#site.blobs,
      start: (name) => startHost(this.#site, name),
      busy: () => this.#site.records.owners(),
      checkpoints: () => this.#damageable(),
      leave: (name) => void this.#site.running.get(name)?.leave(),
    });
  }

  /** One checkpoint may be lost at a time: with the line and the one before it gone, nobody could go on. */
  #damageable(): Sha256[] {
    const { records, blobs } = this.#site;
    const named = records.checkpoints();
    return named.some((hash) => blobs.damaged.has(hash)) ? [] : named;
  }

  #recorded({ request, response, caller, incarnation, sentMs, askedMs }: Answer): void {
    const { nowMs } = this.#site.world.time;
    const { session, vnode, epoch, step } = request as RecordDurableRequest;
    const key = `vnode/${session}/${vnode}`;
    // Who called, not who it said it is: a missing fence would take its word. PNodes are named like their hosts.
    const process = `${caller}.${incarnation}`;
    this.#fence.asked(sentMs, nowMs, key, process, Number(epoch), Number(step));
    const name = `${key} ${process} ${epoch} ${step}`;
    if ((response as { accepted?: boolean }).accepted) {
      this.#accepted.add(name);
      this.#fence.accepted(askedMs, nowMs, key, caller, Number(epoch));
    }
    // The network repeats calls: nobody hears the answer to the repetition of one that was accepted.
    else if (!this.#accepted.has(name)) this.#fence.refused(nowMs, key, process, Number(epoch), Number(step));
  }

  /** What a PNode says on its stream to an orchestrator. */
  #told({ event }: Pick<AttachRequest, "event">): void {
    if (event?.case !== "heartbeat") return;
    const { world, retainedBytesMax } = this.#site;
    const usedBytes = Number(event.value.memoryUsedBytes ?? 0n);
    if (usedBytes > 2 * retainedBytesMax + retainedSlackBytes)
      this.#violations.add(
        "memory",
        world.time.nowMs,
        `a PNode retains ${usedBytes} bytes, its bound is ${retainedBytesMax}`,
      );
    for (const { name, step, value, vnode } of event.value.metrics ?? [])
      this.#metricChecker.reported(this.#site.world.time.nowMs, vnode, name, Number(step), value);
  }

  #wrote(write: AcceptedWrite): void {
    const { atMs, key, after } = write;
    this.#rooms.wrote(write);
    if (after === undefined) return;
    const [kind] = key.split("/");
    if (kind === "vnode") this.#fence.wrote(atMs, key, JSON.parse(after) as VNodeRecord);
    if (kind === "step")
      for (const { step, root } of (JSON.parse(after) as StepRecord).roots) this.#root(atMs, step, root);
    if (kind === "session") this.#session(atMs, JSON.parse(after) as SessionRecord);
  }

  #root(atMs: number, step: number, root: string): void {
    this.#roots.set(step, root);
    this.#rootChecker?.root(atMs, step, root);
  }

  #session(atMs: number, { id, line, vnodes, status, reason }: SessionRecord): void {
    this.#fence.line(
      atMs,
      line,
      vnodes.map((vnode) => `vnode/${id}/${vnode}`),
    );
    if (status === "failed") this.#error(`the session failed: ${reason}`);
    if (status === "done" || status === "failed") this.#status = status;
  }

  #error(message: string): void {
    this.#violations.add("error", this.#site.world.time.nowMs, message);
  }

  #report(): SeedReport {
    const { world } = this.#site;
    const { scenario, fleet, policy } = this.#settings;
    return {
      seed: world.seed,
      scenario: `${scenario.name}, ${fleet.pnodes.length} PNodes, ${fleet.orchestrators.length} orchestrators, checkpoint every ${policy.checkpointEvery}, ${policy.replicas} replica(s)`,
      violations: this.#violations.found,
      faults: Object.fromEntries(world.trace.faults),
      virtualMs: world.time.nowMs,
      events: world.time.events,
      traceHash: world.trace.hash,
      ...(this.#options.readable ? { trace: world.trace.text() } : {}),
    };
  }
}

function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
