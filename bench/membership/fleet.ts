// Thousands of members in one process on virtual time: production decisions (src/membership), messages handed over as values
// and counted as the bytes that they would be. Messages get lost, machines stall and read what came meanwhile afterwards.

import { SeededChance } from "../../simulation/world/chance.ts";
import { simulatedIdentity } from "../../simulation/world/keys.ts";
import { bytesOfNews, type Member, type News } from "../../src/membership/member.ts";
import { permit, seal } from "../../src/membership/records.ts";
import { Roster } from "../../src/membership/roster.ts";
import { type MembershipEffect, Swim } from "../../src/membership/swim.ts";
import { answerSync, Comparison, type SyncAnswer, type SyncAsk } from "../../src/membership/sync.ts";
import { type MembershipTimings, membershipTimings } from "../../src/membership/timings.ts";
import { Agenda } from "./agenda.ts";

export interface FleetOptions {
  readonly members: number;
  readonly seed: number;
  /** Of each message. */
  readonly loss: number;
  /** Share of machines that stall for half a second to five, more than half of the time. */
  readonly slow: number;
  /** Of a call that carries nothing, each way: headers, gRPC, TLS, TCP and IP. */
  readonly callBytes: { readonly request: number; readonly response: number };
  readonly timings?: Partial<MembershipTimings>;
}

interface Process {
  readonly index: number;
  readonly id: string;
  readonly slow: boolean;
  swim: Swim;
  alive: boolean;
  side: number;
  stalledUntilMs: number;
  sentBytes: number;
  messages: number;
}

export interface Burial {
  readonly atMs: number;
  readonly by: number;
  readonly of: number;
}

const network = simulatedIdentity("the network");

export class Fleet {
  readonly agenda = new Agenda();
  readonly processes: Process[] = [];
  readonly #options: FleetOptions;
  readonly #timings: MembershipTimings;
  readonly #chance: SeededChance;
  readonly #indexes = new Map<string, number>();
  readonly crashes = new Map<number, { readonly atMs: number; firstMs?: number; mostMs?: number; by: number }>();
  /** A living one, once for each of its records. */
  readonly wrong = new Map<string, { readonly of: number; readonly slow: boolean; readonly atMs: number }>();
  refutations = 0;
  suspicions = 0;
  #alive: number;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#timings = { ...membershipTimings, ...options.timings };
    this.#chance = new SeededChance(options.seed, "fleet");
    this.#alive = options.members;
    const base = new Roster();
    const firsts = Array.from({ length: options.members }, (_, index) => this.#record(index, 1));
    for (const member of firsts) base.set(member, "alive", 0);
    for (const [index, member] of firsts.entries()) {
      this.#indexes.set(member.id, index);
      const roster = new Roster(base);
      roster.forget(member.id);
      this.processes.push({
        ...{ index, id: member.id, slow: this.#chance.uniform() < options.slow, alive: true, side: 0 },
        swim: this.#swim(index, roster, 1, member),
        ...{ stalledUntilMs: 0, sentBytes: 0, messages: 0 },
      });
    }
    for (const process of this.processes) {
      this.agenda.at(this.#chance.uniform() * this.#timings.periodMs, () => this.#tick(process));
      if (process.slow) this.#stall(process);
    }
  }

  get nowMs(): number {
    return this.agenda.nowMs;
  }

  run(untilMs: number): void {
    this.agenda.run(untilMs);
  }

  crash(index: number): void {
    const process = this.processes[index] as Process;
    process.alive = false;
    this.#alive -= 1;
    this.crashes.set(index, { atMs: this.nowMs, by: 0 });
  }

  /** Starts anew with nothing on its disk but whom to ask. */
  restart(index: number, contact: number): void {
    const process = this.processes[index] as Process;
    process.alive = true;
    this.#alive += 1;
    process.swim = this.#swim(index, new Roster(), 1);
    this.#tick(process);
    this.#sync(process, this.processes[contact] as Process);
  }

  /** Members reach their own side alone. */
  split(sideOf: (index: number) => number): void {
    for (const process of this.processes) process.side = sideOf(process.index);
  }

  /** How many of the living know exactly the living. */
  agreeing(): number {
    return this.processes.filter(({ alive, swim }) => alive && swim.roster.here === this.#alive - 1).length;
  }

  sentBytes(): number {
    return this.processes.reduce((sum, process) => sum + process.sentBytes, 0);
  }

  messages(): number {
    return this.processes.reduce((sum, process) => sum + process.messages, 0);
  }

  isResponsive(index: number): boolean {
    return !(this.processes[index] as Process).slow;
  }

  // Machines

  #record(index: number, sequence: number): Member {
    const name = `member-${index}`.padEnd(52, "x");
    const identity = simulatedIdentity(name);
    const facts = {
      ...{ name: `machine ${index}`, routes: [`203.0.113.${index % 250}:7701`], roles: ["pnode" as const] },
      ...{ numerics: ["native-avx2", "portable-3"], cores: 8, memoryBytes: 16 * 2 ** 30, gflops: 100, load: 0.5 },
      region: "eu-west",
    };
    const self = { id: name, incarnation: "0123456789abcdef", identity };
    return seal(self, network.id, facts, sequence, { permit: permit(network, name, 2_000_000_000) });
  }

  #swim(index: number, roster: Roster, sequence: number, first?: Member): Swim {
    const chance = new SeededChance(this.#options.seed, `member ${index} ${this.nowMs}`);
    return new Swim({
      renew: (number) => {
        if (number > 1) this.refutations += 1;
        return first?.sequence === number ? first : this.#record(index, number);
      },
      ...{ sequence, roster, timings: this.#timings, uniform: () => chance.uniform() },
    });
  }

  /** Runs two seconds, stalls for three, on average. */
  #stall(process: Process): void {
    const runsMs = -1_700 * Math.log(1 - this.#chance.uniform());
    const stallsMs = this.#chance.between(500, 5_000);
    this.agenda.at(this.nowMs + runsMs, () => {
      process.stalledUntilMs = this.nowMs + stallsMs;
      this.agenda.at(process.stalledUntilMs, () => this.#stall(process));
    });
  }

  /** On the machine, as soon as it runs. */
  #on(process: Process, atMs: number, run: () => void): void {
    const { swim } = process;
    const attempt = () => {
      // A process that has died, or another one in its place, reads nothing that was meant for it.
      if (!process.alive || process.swim !== swim) return;
      if (process.stalledUntilMs > this.nowMs) this.agenda.at(process.stalledUntilMs, attempt);
      else run();
    };
    this.agenda.at(atMs, attempt);
  }

  #tick(process: Process): void {
    this.#step(process, process.swim.step({ kind: "tick", nowMs: this.nowMs }));
  }

  #step(process: Process, effects: readonly MembershipEffect[]): void {
    for (const effect of effects) this.#perform(process, effect);
  }

  #perform(process: Process, effect: MembershipEffect): void {
    switch (effect.kind) {
      case "wait":
        this.#on(process, this.nowMs + effect.delayMs, () => this.#tick(process));
        return;
      case "probe":
        this.#probe(process, effect.to, effect.news, effect.timeoutMs, (news) => {
          const { nowMs } = this;
          const event = news
            ? { kind: "answered" as const, nowMs, probe: effect.probe, news, stranger: false }
            : { kind: "unanswered" as const, nowMs, probe: effect.probe };
          this.#step(process, process.swim.step(event));
        });
        return;
      case "try":
        this.#try(process, effect);
        return;
      case "sync":
        this.#sync(process, this.#of(effect.with));
        return;
      case "standing":
        this.#stood(process, effect);
    }
  }

  #of({ id }: Member): Process {
    return this.processes[this.#indexes.get(id) as number] as Process;
  }

  #stood(process: Process, { member, standing }: MembershipEffect & { kind: "standing" }): void {
    if (standing === "suspect") this.suspicions += 1;
    if (standing !== "dead") return;
    const of = this.#of(member);
    const crash = this.crashes.get(of.index);
    if (crash !== undefined && !of.alive) {
      crash.firstMs ??= this.nowMs - crash.atMs;
      crash.by += 1;
      if (crash.by >= 0.99 * this.#alive) crash.mostMs ??= this.nowMs - crash.atMs;
    } else if (of.alive && of.side === process.side)
      this.wrong.set(`${of.index} ${member.sequence}`, { of: of.index, slow: of.slow, atMs: this.nowMs });
  }

  // Calls

  /** One call: the answer, or undefined when its time is up. */
  #call(
    from: Process,
    to: Process,
    requestBytes: number,
    timeoutMs: number,
    serve: (reply: (bytes: number, done: () => void) => void) => void,
    failed: () => void,
  ): void {
    const { callBytes } = this.#options;
    let settled = false;
    const settle = (run: () => void) => {
      if (settled) return;
      settled = true;
      run();
    };
    this.#on(from, this.nowMs + timeoutMs, () => settle(failed));
    if (!this.#carries(from, to, callBytes.request + requestBytes)) return;
    this.#on(to, this.nowMs + this.#delayMs(), () =>
      serve((bytes, done) => {
        if (this.#carries(to, from, callBytes.response + bytes))
          this.#on(from, this.nowMs + this.#delayMs(), () => settle(done));
      }),
    );
  }

  #carries(from: Process, to: Process, bytes: number): boolean {
    from.sentBytes += bytes;
    from.messages += 1;
    return from.side === to.side && to.alive && this.#chance.uniform() >= this.#options.loss;
  }

  #delayMs(): number {
    return 15 + 45 * this.#chance.uniform();
  }

  #probe(
    from: Process,
    to: Member,
    news: readonly News[],
    timeoutMs: number,
    done: (news: readonly News[] | undefined) => void,
  ): void {
    const target = this.#of(to);
    const serve = (reply: (bytes: number, done: () => void) => void) => {
      this.#step(target, target.swim.step({ kind: "heard", nowMs: this.nowMs, from: from.id, news }));
      const answer = target.swim.newsFor(from.id);
      reply(sizeOf(answer), () => done(answer));
    };
    this.#call(from, target, sizeOf(news), timeoutMs, serve, () => done(undefined));
  }

  #try(process: Process, { probe, target, helpers, timeoutMs }: MembershipEffect & { kind: "try" }): void {
    let [answers, open, reached] = [0, helpers.length + 1, false];
    const settle = (one: boolean | undefined, isHelper = true) => {
      open -= 1;
      if (one !== undefined && isHelper) answers += 1;
      const isFirst = one === true && !reached;
      reached ||= one === true;
      if (!isFirst && (open > 0 || reached)) return;
      this.#step(process, process.swim.step({ kind: "tried", nowMs: this.nowMs, probe, reached, answers }));
    };
    this.#probe(process, target, process.swim.newsFor(target.id), timeoutMs, (news) => {
      if (news) this.#step(process, process.swim.step({ kind: "heard", nowMs: this.nowMs, from: target.id, news }));
      settle(news !== undefined, false);
    });
    for (const member of helpers) {
      const helper = this.#of(member);
      const serve = (reply: (bytes: number, done: () => void) => void) =>
        this.#probe(helper, target, helper.swim.newsFor(target.id), 0.75 * timeoutMs, (news) => {
          if (news) this.#step(helper, helper.swim.step({ kind: "heard", nowMs: this.nowMs, from: target.id, news }));
          reply(4, () => settle(news !== undefined));
        });
      this.#call(process, helper, idBytes + 4, timeoutMs, serve, () => settle(undefined));
    }
  }

  #sync(process: Process, other: Process): void {
    const comparison = new Comparison(process.swim.roster, () => process.swim.self);
    const turn = (ask: SyncAsk) => {
      const serve = (reply: (bytes: number, done: () => void) => void) => {
        const news: News[] = [{ kind: "record", member: process.swim.self }, ...ask.news];
        this.#step(other, other.swim.step({ kind: "heard", nowMs: this.nowMs, from: process.id, news }));
        const given = answerSync(other.swim.roster, other.swim.self, ask);
        const answer: SyncAnswer = { ...given, news: [...other.swim.newsFor(process.id), ...given.news] };
        reply(4 * (answer.digests?.length ?? 0) + sizeOf(answer.news) + answer.wanted.length * idBytes, () => {
          this.#step(
            process,
            process.swim.step({ kind: "heard", nowMs: this.nowMs, from: other.id, news: answer.news }),
          );
          const next = comparison.next(ask, answer);
          if (next !== undefined) turn(next);
        });
      };
      const bytes =
        4 * (ask.digests?.length ?? 0) + ask.heads.length * (idBytes + 8) + 2 * ask.buckets.length + sizeOf(ask.news);
      this.#call(process, other, process.swim.self.bytes + bytes, 10_000, serve, () => {});
    };
    turn(comparison.first());
  }
}

const idBytes = 54;

function sizeOf(news: readonly News[]): number {
  let bytes = 0;
  for (const one of news) bytes += bytesOfNews(one);
  return bytes;
}
