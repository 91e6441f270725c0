// Who is there, as one member finds out with others: SWIM with suspicion and refutation, and Lifeguard's doubt in oneself.
// Events in, effects out; no I/O, no clock. Records are good when they come here (records.ts).

import { unreachable } from "../core/assert.ts";
import { Corrections } from "./corrections.ts";
import { Errands } from "./errands.ts";
import { type Accusation, isHere, type Member, type MemberId, type News, type Standing } from "./member.ts";
import { NewsQueue } from "./news-queue.ts";
import { Partners } from "./partners.ts";
import { hasFailed, type Probe, Probes } from "./probes.ts";
import type { Roster } from "./roster.ts";
import { Suspicions } from "./suspicions.ts";
import type { MembershipTimings } from "./timings.ts";

export type MembershipEvent =
  /** Asked for by `wait`. */
  | { readonly kind: "tick"; readonly nowMs: number }
  /** A probed member has answered; `stranger`: it does not know who called. */
  | {
      readonly kind: "answered";
      readonly nowMs: number;
      readonly probe: number;
      readonly news: readonly News[];
      readonly stranger: boolean;
    }
  | { readonly kind: "unanswered"; readonly nowMs: number; readonly probe: number }
  /** What those say who were asked to try: whether one of them had an answer, and how many said anything. */
  | {
      readonly kind: "tried";
      readonly nowMs: number;
      readonly probe: number;
      readonly reached: boolean;
      readonly answers: number;
    }
  /** Somebody called, or told something when it was called. */
  | { readonly kind: "heard"; readonly nowMs: number; readonly from: MemberId; readonly news: readonly News[] }
  /** What this member tells of itself has changed. */
  | { readonly kind: "changed"; readonly nowMs: number };

export type MembershipEffect =
  | {
      readonly kind: "probe";
      readonly probe: number;
      readonly to: Member;
      readonly news: readonly News[];
      readonly timeoutMs: number;
    }
  /** Ask helpers to probe the target, and probe it once more. */
  | {
      readonly kind: "try";
      readonly probe: number;
      readonly target: Member;
      readonly helpers: readonly Member[];
      readonly timeoutMs: number;
    }
  | { readonly kind: "sync"; readonly with: Member }
  | { readonly kind: "standing"; readonly member: Member; readonly standing: Standing }
  /** A `tick` after this long. */
  | { readonly kind: "wait"; readonly delayMs: number };

export interface SwimOptions {
  /** Signs what this member tells of itself, with a sequence number. */
  readonly renew: (sequence: number) => Member;
  /** Of its first record: behind the last one that it remembers. */
  readonly sequence: number;
  readonly roster: Roster;
  readonly timings: MembershipTimings;
  readonly uniform: () => number;
}

/** What a member's shell knows it by; tests and mutants give others. */
export interface Gossip {
  readonly self: Member;
  readonly roster: Roster;
  step(event: MembershipEvent): MembershipEffect[];
  /** News for somebody who called, its own accusation first. */
  newsFor(to: MemberId): News[];
}

const confirmationRepeats = 2;
/** Suspects of whom a partner is asked at once. */
const questionsMax = 4;

/** How many times slower a member probes that doubts itself. */
const doubtMax = 7;
/** Now and then everybody misses an answer; beyond it the fault is likely its own. */
const doubtMuch = 2;

export class Swim implements Gossip {
  readonly #options: SwimOptions;
  readonly #timings: MembershipTimings;
  readonly roster: Roster;
  readonly #news = new NewsQueue();
  readonly #suspicions: Suspicions;
  readonly #partners: Partners;
  readonly #errands: Errands;
  readonly #probes = new Probes();
  readonly #corrections = new Corrections();
  #self: Member;
  /** Lifeguard's: how much a member has reason to think that the fault is its own. */
  #doubt = 0;
  #tickDueMs: number | undefined;
  #probeDueMs = 0;
  /** When those who cannot be called were last heard here, as far as it is this member that watches them. */
  readonly #heardMs = new Map<MemberId, number>();
  #renewedMs = Number.NEGATIVE_INFINITY;
  /** A greater number than this is to be told, as soon as that is allowed. */
  #refute: number | undefined;
  #effects: MembershipEffect[] = [];

  constructor(options: SwimOptions) {
    this.#options = options;
    this.#timings = options.timings;
    this.roster = options.roster;
    this.#self = options.renew(options.sequence);
    this.#suspicions = new Suspicions(options.timings);
    this.#partners = new Partners(options.roster, options.timings, options.uniform, this.#self);
    this.#errands = new Errands(options.roster, options.timings, options.uniform, this.#self.id);
    this.#news.add({ kind: "record", member: this.#self }, this.#repeats());
  }

  get self(): Member {
    return this.#self;
  }

  step(event: MembershipEvent): MembershipEffect[] {
    this.#handle(event);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #handle(event: MembershipEvent): void {
    const { nowMs } = event;
    // Whatever is handled first after a standstill, it is noticed before.
    const lateMs = this.#tickDueMs === undefined ? 0 : nowMs - this.#tickDueMs;
    if (lateMs > this.#timings.standstillMs) this.#stoodStill(lateMs, nowMs);
    switch (event.kind) {
      case "tick":
        this.#tick(nowMs);
        break;
      case "answered":
        this.#answered(event.probe, event.news, event.stranger, nowMs);
        break;
      case "unanswered":
        this.#unanswered(event.probe, nowMs);
        break;
      case "tried":
        this.#tried(event.probe, event.reached, event.answers, nowMs);
        break;
      case "heard":
        if (this.roster.get(event.from)?.member.routes.length === 0) this.#heardMs.set(event.from, nowMs);
        this.#hear(event.news, nowMs, event.from);
        break;
      case "changed":
        this.#renew(this.#self.sequence + 1, nowMs);
        break;
      default:
        unreachable(event, "an event of membership");
    }
  }

  newsFor(to: MemberId): News[] {
    const { newsBytes, newsBytesMax } = this.#timings;
    const taken = this.#news.take(to, newsBytes, newsBytesMax);
    // An answer that is lost shows at the next comparison of what two members know.
    this.#news.told(to, taken);
    return [...this.#saidTo(to), ...taken];
  }

  // Time

  #tick(nowMs: number): void {
    if (this.#refute !== undefined) this.#renew(this.#refute + 1, nowMs);
    for (const { id, sequence } of this.#suspicions.due(nowMs, this.#doubt >= doubtMuch, this.roster.here + 1)) {
      const known = this.roster.get(id);
      if (known?.standing !== "suspect" || known.member.sequence !== sequence) continue;
      this.#stand(known.member, "dead", nowMs);
      this.#news.add({ kind: "dead", id, sequence, by: this.#self.place }, this.#repeats());
    }
    this.#listen(nowMs);
    for (const probe of this.#probes.late(nowMs - this.#timings.probeTimeoutMs * this.#patience)) this.#ask(probe);
    if (nowMs >= this.#probeDueMs) this.#probeNext(nowMs);
    for (const member of this.#errands.due(nowMs)) this.#effects.push({ kind: "sync", with: member });
    const delayMs = this.#timings.periodMs * (0.95 + 0.1 * this.#options.uniform());
    this.#tickDueMs = nowMs + delayMs;
    this.#effects.push({ kind: "wait", delayMs });
  }

  /** While this process stood still nobody could be heard: deadlines move, and open probes say nothing. */
  #stoodStill(forMs: number, nowMs: number): void {
    this.#tickDueMs = nowMs;
    this.#suspicions.move(forMs);
    for (const [id, heardMs] of this.#heardMs) this.#heardMs.set(id, heardMs + forMs);
    this.#probes.excuse();
    this.#doubtMore();
  }

  /** Whoever cannot be called is watched by those whom it calls because they follow it in the ring. */
  #listen(nowMs: number): void {
    const { quietMs, ringPartners } = this.#timings;
    for (const [id, heardMs] of this.#heardMs) {
      if (nowMs - heardMs < quietMs) continue;
      this.#heardMs.delete(id);
      const known = this.roster.get(id);
      if (known === undefined || known.member.routes.length > 0) continue;
      const { place, sequence } = known.member;
      const watchers = this.roster.successors(
        place,
        ringPartners,
        ({ member, standing }) => isHere(standing) && member.routes.length > 0,
      );
      const last = watchers.at(-1)?.member.place ?? place;
      const isWatcher = watchers.length < ringPartners || (this.#self.place - place) >>> 0 <= (last - place) >>> 0;
      if (isWatcher) this.#accused({ kind: "suspect", id, sequence, by: this.#self.place }, nowMs);
    }
  }

  /** A member with reason to doubt itself waits longer and asks less. */
  get #patience(): number {
    return 1 + this.#doubt / 2;
  }

  #probeNext(nowMs: number): void {
    const { newsBytes, newsBytesMax, periodMs, giveUpMs } = this.#timings;
    // Half a period of slack, since ticks come when they come.
    this.#probeDueMs = nowMs + (this.#doubt + 0.5) * periodMs;
    const target = this.#partners.next(nowMs, (id) => !this.#probes.isProbing(id));
    if (target === undefined) return;
    const { member } = target;
    const news = this.#news.take(member.id, newsBytes, newsBytesMax);
    this.#effects.push({
      kind: "probe",
      probe: this.#probes.begin(member, news, nowMs),
      to: member,
      news: [...this.#saidTo(member.id), ...this.#suspicions.questioned(nowMs, questionsMax), ...news],
      timeoutMs: giveUpMs,
    });
  }

  /** What is said to one member alone: that it is accused, so that it can answer for itself at once, and what it has not heard. */
  #saidTo(id: MemberId): News[] {
    const accusation = this.#accusationOf(id);
    return [...(accusation ? [accusation] : []), ...this.#corrections.take(id)];
  }

  // Probes

  #answered(number: number, news: readonly News[], stranger: boolean, nowMs: number): void {
    const probe = this.#probes.end(number);
    if (probe === undefined) return;
    this.#doubt = Math.max(0, this.#doubt - 1);
    this.#news.told(probe.to.id, probe.news);
    this.#hear(news, nowMs, probe.to.id);
    if (stranger) this.#effects.push({ kind: "sync", with: probe.to });
  }

  #unanswered(number: number, nowMs: number): void {
    const probe = this.#probes.get(number);
    if (probe === undefined) return;
    probe.direct = "failed";
    if (probe.helpers === undefined) this.#ask(probe);
    else this.#conclude(probe, nowMs);
  }

  #ask(probe: Probe): void {
    const { helpers: count, viaTimeoutMs } = this.#timings;
    const helpers = this.#partners.helpers(count, probe.to.id);
    probe.helpers = helpers.length;
    const timeoutMs = viaTimeoutMs * this.#patience;
    this.#effects.push({ kind: "try", probe: probe.number, target: probe.to, helpers, timeoutMs });
  }

  #tried(number: number, reached: boolean, answers: number, nowMs: number): void {
    const probe = this.#probes.get(number);
    if (probe === undefined) return;
    // Helpers that could not be reached either make it likelier that the line is this member's own.
    if (!reached && answers < (probe.helpers ?? 0)) this.#doubtMore();
    if (reached) this.#probes.end(number);
    else {
      probe.tried = "failed";
      this.#conclude(probe, nowMs);
    }
  }

  #conclude(probe: Probe, nowMs: number): void {
    if (!hasFailed(probe)) return;
    this.#probes.end(probe.number);
    if (probe.excused) return;
    const known = this.roster.get(probe.to.id);
    // A newer record has come meanwhile: that one is not accused of anything.
    if (known === undefined || known.member.sequence !== probe.to.sequence) return;
    const { id, sequence } = known.member;
    this.#accused({ kind: "suspect", id, sequence, by: this.#self.place }, nowMs);
  }

  #doubtMore(): void {
    this.#doubt = Math.min(doubtMax, this.#doubt + 1);
  }

  // News

  #hear(news: readonly News[], nowMs: number, from: MemberId): void {
    for (const one of news)
      if (one.kind === "record") this.#heardRecord(one.member, nowMs, from);
      else this.#accused(one, nowMs, from);
  }

  #heardRecord(member: Member, nowMs: number, from: MemberId): void {
    if (member.id === this.#self.id) {
      // A record of an earlier life, from a disk that this one has lost.
      const { sequence, incarnation } = this.#self;
      const former = member.sequence > sequence || (member.sequence === sequence && member.incarnation !== incarnation);
      if (former) this.#refuteAbove(member.sequence, nowMs);
      return;
    }
    const known = this.roster.get(member.id);
    if (known !== undefined && known.member.sequence >= member.sequence) {
      if (known.member.sequence === member.sequence) this.#news.has(from, member.id);
      return;
    }
    this.#suspicions.drop(member.id);
    this.#stand(member, member.leaving ? "left" : "alive", nowMs);
    this.#news.add({ kind: "record", member }, this.#repeats(), from);
  }

  #accused(accusation: Accusation, nowMs: number, from?: MemberId): void {
    const { id, sequence } = accusation;
    if (id === this.#self.id) {
      // Only of what it has said: a number from nowhere is not followed.
      if (sequence === this.#self.sequence) {
        if (this.#refute === undefined) this.#doubtMore();
        this.#refuteAbove(sequence, nowMs);
      }
      return;
    }
    const known = this.roster.get(id);
    if (known === undefined || known.member.sequence !== sequence || !isHere(known.standing)) {
      // It has answered for itself since: whoever has not heard that would bury it.
      if (known && from && known.member.sequence > sequence) this.#corrections.add(from, known.member);
      return;
    }
    // Somebody else's burial is no more than the strongest suspicion: whoever is there has time to say so. After a split each
    // side would bury its own, for a moment, on the word of the other.
    if (!this.#suspicions.accuse(accusation, this.roster.here + 1, nowMs)) return;
    // Those who confirm tell fewer: everybody has heard the first, and the suspect is told by whoever calls it.
    this.#news.add(accusation, known.standing === "alive" ? this.#repeats() : confirmationRepeats, from);
    if (known.standing === "alive") this.#stand(known.member, "suspect", nowMs);
  }

  #accusationOf(id: MemberId): Accusation | undefined {
    const known = this.roster.get(id);
    if (known === undefined || known.standing === "alive" || known.standing === "left") return undefined;
    const { standing, member } = known;
    return { kind: standing, id, sequence: member.sequence, by: this.#self.place };
  }

  #refuteAbove(sequence: number, nowMs: number): void {
    if (nowMs - this.#renewedMs < this.#timings.refuteMs) this.#refute = Math.max(this.#refute ?? 0, sequence);
    else this.#renew(sequence + 1, nowMs);
  }

  #renew(sequence: number, nowMs: number): void {
    this.#refute = undefined;
    this.#renewedMs = nowMs;
    this.#self = this.#options.renew(Math.max(sequence, this.#self.sequence + 1));
    this.#news.add({ kind: "record", member: this.#self }, this.#repeats());
  }

  #stand(member: Member, standing: Standing, nowMs: number): void {
    const before = this.roster.get(member.id);
    this.roster.set(member, standing, nowMs);
    // Neighbours change with those who come, go, or move to other routes.
    if (before === undefined || isHere(before.standing) !== isHere(standing) || before.member !== member)
      this.#partners.stale = true;
    this.#effects.push({ kind: "standing", member, standing });
  }

  /** To how many partners a member tells something: so many that almost everybody hears it, and Sync finds the rest. */
  #repeats(): number {
    return 1 + Math.ceil(Math.log10(this.roster.here + 2));
  }
}
