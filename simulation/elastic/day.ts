// A day of bursts against providers that are slow, lie, fail half-way and take machines away, with crashes of the one who decides:
// the autoscaler, the steps of a machine's life and what is learned of offers, as in production, around a world of numbers.

import type { PNodeId } from "../../src/core/ids.ts";
import { instanceStep, type Sight } from "../../src/orchestrator/providers/instance-step.ts";
import {
  afterBroken,
  afterEnd,
  afterJoin,
  isBlocked,
  lossPerHour,
  nothingLearned,
} from "../../src/orchestrator/providers/learned.ts";
import { costOf, type InstanceRecord, isThere, type OfferHistory } from "../../src/orchestrator/records/providers.ts";
import type { Offer } from "../../src/providers/provider.ts";
import { autoscale } from "../../src/scheduler/autoscale.ts";
import type { FleetNode } from "../../src/scheduler/placement/types.ts";
import type { ScaleView } from "../../src/scheduler/scale-types.ts";
import { SeededChance } from "../world/chance.ts";
import { gigabyte, type Job, lossOf, type Machine, nodeOf, offers, used, workOf } from "./market.ts";

/** What a mutant changes; absent: as in production. */
export interface ElasticMutant {
  readonly view?: (view: ScaleView) => ScaleView;
  readonly step?: typeof instanceStep;
  readonly blocks?: false;
  /** Forgets what it started when it crashes, as one without records does. */
  readonly forgets?: true;
}

export interface Day {
  readonly wrong: string[];
  spent: number;
  gpuHours: number;
  waitMinutes: number;
  starts: number;
  /** Machines that were started within ten minutes after one of the kind was given back. */
  flaps: number;
  losses: number;
  done: number;
}

const tickMs = 10_000;
const hourMs = 3_600_000;

export interface DayOptions {
  readonly seed: number;
  readonly budgetPerHour?: number;
  readonly budgetTotal?: number;
  readonly idleMs?: number;
  readonly coolDownMs?: number;
  readonly crashes?: boolean;
  /** A job every so often, of so long; bursts at odd times unless given. */
  readonly rhythm?: { readonly everyMs: number; readonly lastsMs: number };
}

export function elasticDay(options: DayOptions, mutant: ElasticMutant = {}): Day {
  return new World(options, mutant).run();
}

class World {
  readonly #options: Required<Omit<DayOptions, "rhythm">> & Pick<DayOptions, "rhythm">;
  readonly #mutant: ElasticMutant;
  readonly #chance: SeededChance;
  /** As the clusters know them. */
  readonly #real: Machine[] = [];
  /** As the store knows them. */
  #records = new Map<string, InstanceRecord>();
  readonly #learned = new Map<string, OfferHistory>();
  readonly #jobs: Job[] = [];
  readonly #day: Day = { wrong: [], spent: 0, gpuHours: 0, waitMinutes: 0, starts: 0, flaps: 0, losses: 0, done: 0 };
  readonly #endedMs = new Map<string, number>();
  #nowMs = 1;
  #next = 0;
  #lastStartMs = -hourMs;
  #past = 0;

  constructor(options: DayOptions, mutant: ElasticMutant) {
    this.#options = {
      budgetPerHour: 40,
      budgetTotal: 400,
      idleMs: 300_000,
      coolDownMs: 120_000,
      crashes: true,
      ...options,
    };
    this.#mutant = mutant;
    this.#chance = new SeededChance(options.seed, "elastic");
  }

  run(): Day {
    for (; this.#nowMs < 24 * hourMs; this.#nowMs += tickMs) {
      this.#arrive();
      this.#live();
      this.#work();
      if (this.#options.crashes && this.#nowMs % hourMs < tickMs) this.#crash();
      this.#care();
      if (this.#nowMs % 30_000 < tickMs) this.#scale();
      this.#check();
      this.#forget();
    }
    const leaked = this.#real.filter(({ isAlive, record }) => isAlive && !this.#isKnown(record.id)).length;
    if (leaked > 0) this.#day.wrong.push(`${leaked} machine(s) run at the end that nobody knows`);
    this.#day.waitMinutes /= Math.max(1, this.#day.done);
    return this.#day;
  }

  /** What is over is counted and forgotten, as in production. */
  #forget(): void {
    for (const [id, record] of this.#records) {
      if (isThere(record)) continue;
      this.#past += costOf(record, this.#nowMs);
      this.#records.delete(id);
    }
    for (const machine of this.#real.filter(({ isAlive, record }) => !isAlive && !this.#records.has(record.id)))
      this.#real.splice(this.#real.indexOf(machine), 1);
  }

  #isKnown(id: string): boolean {
    const record = this.#records.get(id);
    return record !== undefined && isThere(record);
  }

  #arrive(): void {
    const { rhythm } = this.#options;
    const burst = Math.floor(this.#nowMs / (2 * hourMs)) % 3 === 0 && this.#nowMs < 20 * hourMs;
    const comes = rhythm ? this.#nowMs % rhythm.everyMs < tickMs : this.#chance.uniform() < (burst ? 0.03 : 0.001);
    if (!comes) return;
    const vnodes = rhythm ? 1 : ([1, 2, 4, 8][Math.floor(this.#chance.uniform() * 4)] as number);
    const leftMs = rhythm?.lastsMs ?? 300_000 + this.#chance.uniform() * 3_000_000;
    this.#jobs.push({ id: this.#next++, vnodes, atMs: this.#nowMs, leftMs, on: undefined, waited: false });
  }

  /** Machines are taken away by those whose they are. */
  #live(): void {
    for (const machine of this.#real) {
      const joined = machine.isAlive && this.#hasJoined(machine);
      if (!joined || this.#chance.uniform() >= ((lossOf[machine.record.offer.name] ?? 0) * tickMs) / hourMs) continue;
      machine.isAlive = false;
      this.#day.losses++;
      for (const job of this.#jobs) if (job.on?.includes(machine)) this.#unplace(job);
    }
  }

  #hasJoined({ never, readyMs, isAlive }: Machine): boolean {
    return isAlive && !never && this.#nowMs >= readyMs;
  }

  #work(): void {
    for (const job of [...this.#jobs]) {
      if (job.on) {
        job.leftMs -= tickMs;
        this.#day.gpuHours += (job.vnodes * tickMs) / hourMs;
        if (job.leftMs > 0) continue;
        this.#unplace(job);
        this.#jobs.splice(this.#jobs.indexOf(job), 1);
        this.#day.done++;
        continue;
      }
      const on: Machine[] = [];
      for (const machine of this.#real) {
        if (this.#records.get(machine.record.id)?.status !== "joined" || !this.#hasJoined(machine)) continue;
        for (let free = 4 - used(machine); free > 0 && on.length < job.vnodes; free--) on.push(machine);
      }
      if (on.length < job.vnodes) continue;
      job.on = on;
      for (const machine of on) machine.jobs.set(job.id, (machine.jobs.get(job.id) ?? 0) + 1);
      if (!job.waited) this.#day.waitMinutes += (this.#nowMs - job.atMs) / 60_000;
      job.waited = true;
    }
  }

  #unplace(job: Job): void {
    for (const machine of job.on ?? []) {
      machine.jobs.delete(job.id);
      if (machine.jobs.size === 0) machine.idleSinceMs = this.#nowMs;
    }
    job.on = undefined;
  }

  /** Memory is lost, records are not; a mutant loses both. */
  #crash(): void {
    if (this.#mutant.forgets) this.#records = new Map();
  }

  #care(): void {
    for (const record of this.#records.values()) {
      if (!isThere(record)) continue;
      const machine = this.#real.find((one) => one.record.id === record.id);
      const next = (this.#mutant.step ?? instanceStep)(record, this.#sight(record, machine));
      const history = this.#learned.get(record.offer.name) ?? nothingLearned;
      if ("blame" in next && next.blame) this.#learn(record, afterBroken(history, this.#nowMs, next.why));
      if (next.kind === "started") this.#change(record, { status: "started", startedWallMs: this.#nowMs });
      if (next.kind === "joined") {
        this.#learn(record, afterJoin(history, next.bootMs));
        if (machine) machine.idleSinceMs = this.#nowMs;
        this.#change(record, { status: "joined", joinedWallMs: this.#nowMs, pnode: record.id as PNodeId });
      }
      if (next.kind === "end") {
        if (machine && machine.jobs.size > 0 && machine.isAlive)
          this.#day.wrong.push(`${record.id} was ended with work on it`);
        this.#change(record, { status: "ending", endingWallMs: this.#nowMs });
        if (machine) machine.isAlive = false;
      }
      if (next.kind === "gone") {
        if (record.joinedWallMs > 0)
          this.#learn(record, afterEnd(history, this.#nowMs - record.joinedWallMs, next.lost === true));
        this.#endedMs.set(record.offer.name, this.#nowMs);
        this.#change(record, { status: "ended", endedWallMs: this.#nowMs });
      }
    }
  }

  #sight(record: InstanceRecord, machine: Machine | undefined): Sight {
    const isUp = machine !== undefined && this.#hasJoined(machine);
    const gpus = { facts: { cores: 8, memoryBytes: 8 * gigabyte, gpus: [] }, limits: { cpus: 0, memoryBytes: 0 } };
    return {
      nowMs: this.#nowMs,
      seen: machine && { instance: record.id, handle: "", state: machine.isAlive ? "running" : "ended", detail: "" },
      misses: machine ? 0 : 3,
      pnode: isUp
        ? ({ id: record.id as PNodeId, status: "online", ...gpus } as unknown as NonNullable<Sight["pnode"]>)
        : undefined,
      isEmpty: (machine?.jobs.size ?? 0) === 0,
      bootMs: this.#learned.get(record.offer.name)?.bootMs ?? record.offer.bootSeconds * 1_000,
      isUnwanted: false,
    };
  }

  #change(record: InstanceRecord, change: Partial<InstanceRecord>): void {
    this.#records.set(record.id, { ...record, ...change });
  }

  #learn({ offer }: InstanceRecord, history: OfferHistory): void {
    this.#learned.set(offer.name, history);
  }

  #scale(): void {
    const view = this.#view();
    const { starts, drains, keeps } = autoscale(this.#mutant.view?.(view) ?? view);
    for (const { machine } of drains) this.#set(machine, "draining");
    for (const id of keeps) this.#set(id, "joined");
    for (const { offer: name } of starts) {
      const offer = offers.find((one) => one.name === name) as Offer;
      const record: InstanceRecord = {
        ...{ provider: "lab", id: `m${this.#next++}`, offer, invite: "", status: "wanted", wantedWallMs: this.#nowMs },
        ...{ startedWallMs: 0, joinedWallMs: 0, endingWallMs: 0, endedWallMs: 0, detail: "" },
      };
      this.#records.set(record.id, record);
      this.#day.starts++;
      this.#lastStartMs = this.#nowMs;
      if (this.#nowMs - (this.#endedMs.get(name) ?? -hourMs) < 600_000) this.#day.flaps++;
      // Some starts fail, and nobody hears of them again.
      if (this.#chance.uniform() < 0.05) continue;
      const readyMs = this.#nowMs + offer.bootSeconds * 1_000 * (1 + this.#chance.uniform());
      const never = name === "liar" && this.#chance.uniform() < 0.9;
      this.#real.push({ record, readyMs, never, isAlive: true, jobs: new Map(), idleSinceMs: this.#nowMs });
    }
  }

  /** Who drains gets nothing new; what it has goes elsewhere when there is room, and ends by itself here. */
  #set(id: string, status: "draining" | "joined"): void {
    const record = this.#records.get(id);
    if (record && (record.status === "joined" || record.status === "draining")) this.#change(record, { status });
    const machine = this.#real.find((one) => one.record.id === id);
    if (status === "draining" && machine && machine.jobs.size > 0 && !this.#isSpent())
      this.#day.wrong.push(`${id} was sent away with work on it and money left`);
    for (const job of this.#jobs) if (status === "draining" && machine && job.on?.includes(machine)) this.#unplace(job);
  }

  #isSpent(): boolean {
    return this.#spent() > 0.9 * this.#options.budgetTotal;
  }

  #spent(): number {
    return Array.from(this.#records.values()).reduce((sum, record) => sum + costOf(record, this.#nowMs), this.#past);
  }

  #view(): ScaleView {
    const records = Array.from(this.#records.values()).filter(isThere);
    const machineOf = (id: string) => this.#real.find((one) => one.record.id === id);
    const nodes = records.flatMap((record): FleetNode[] => {
      const machine = machineOf(record.id);
      if (!machine || !this.#hasJoined(machine) || record.status === "started" || record.status === "ending") return [];
      return [nodeOf(record, used(machine))];
    });
    const { budgetPerHour, budgetTotal, idleMs, coolDownMs } = this.#options;
    return {
      nodes,
      machines: records.map((record) => {
        const machine = machineOf(record.id);
        const state =
          record.status === "joined"
            ? "up"
            : record.status === "wanted" || record.status === "started"
              ? "coming"
              : "draining";
        const idle = state === "up" && machine?.jobs.size === 0 ? { idleMs: this.#nowMs - machine.idleSinceMs } : {};
        const pnode = state === "coming" ? {} : { pnode: record.id as PNodeId };
        return {
          id: record.id,
          provider: "lab",
          offer: record.offer.name,
          state,
          pricePerHour: record.offer.pricePerHour,
          ...pnode,
          ...idle,
        };
      }),
      offers: offers
        .filter(
          ({ name }) =>
            this.#mutant.blocks === false || !isBlocked(this.#learned.get(name) ?? nothingLearned, this.#nowMs),
        )
        .map((offer) => {
          const history = this.#learned.get(offer.name) ?? nothingLearned;
          const { name, cores, memoryBytes, pricePerHour, region, most } = offer;
          const lost = lossPerHour(history, offer);
          return {
            provider: "lab",
            name,
            cores,
            memoryBytes,
            gpus: [],
            pricePerHour,
            region,
            most,
            lossPerHour: lost,
            bootMs: history.bootMs ?? offer.bootSeconds * 1_000,
          };
        }),
      providers: [
        {
          ...{ name: "lab", least: 0, most: 40, budgetPerHour, budgetTotal, idleMs, coolDownMs, isRemoving: false },
          ...{ spent: this.#spent(), sinceStartMs: this.#nowMs - this.#lastStartMs },
        },
      ],
      waiting: this.#jobs.filter(({ on }) => !on).map(workOf),
    };
  }

  #check(): void {
    const { budgetPerHour, budgetTotal } = this.#options;
    const alive = this.#real.filter(({ isAlive }) => isAlive);
    const rate = alive.reduce((sum, { record }) => sum + record.offer.pricePerHour, 0);
    this.#day.spent += (rate * tickMs) / hourMs;
    if (rate > budgetPerHour + 1e-9) this.#say(`machines cost ${rate} an hour, ${budgetPerHour} were allowed`);
    if (this.#day.spent > budgetTotal)
      this.#say(`${this.#day.spent.toFixed(2)} were spent, ${budgetTotal} were allowed`);
  }

  #say(sentence: string): void {
    if (this.#day.wrong.length < 20) this.#day.wrong.push(sentence);
  }
}
