// What is done now and then: comparing with somebody what both know, calling one of the dead, forgetting the long dead. After
// a split both sides have buried each other, and only a call to one of the dead shows that it is over.

import type { Known, Member, MemberId } from "./member.ts";
import type { Roster } from "./roster.ts";
import type { MembershipTimings } from "./timings.ts";

export class Errands {
  readonly #roster: Roster;
  readonly #timings: MembershipTimings;
  readonly #uniform: () => number;
  readonly #self: MemberId;
  #compareMs: number | undefined;
  #retryMs: number | undefined;
  #forgetMs = 0;

  constructor(roster: Roster, timings: MembershipTimings, uniform: () => number, self: MemberId) {
    this.#roster = roster;
    this.#timings = timings;
    this.#uniform = uniform;
    this.#self = self;
  }

  /** With whom to compare now. */
  due(nowMs: number): Member[] {
    const { syncMs, retryDeadMs } = this.#timings;
    // Those who started together do not all do it at once.
    this.#compareMs ??= nowMs + syncMs * this.#uniform();
    this.#retryMs ??= nowMs + retryDeadMs * this.#uniform();
    this.#forget(nowMs);
    const found: (Member | undefined)[] = [];
    if (nowMs >= this.#compareMs) {
      this.#compareMs = nowMs + this.#about(syncMs);
      const fits = ({ member, standing }: Known) => standing === "alive" && this.#isCallable(member);
      found.push(this.#roster.pick(this.#uniform, fits)?.member);
    }
    if (nowMs >= this.#retryMs) {
      this.#retryMs = nowMs + this.#about(retryDeadMs);
      found.push(this.#someDead());
    }
    return found.flatMap((member) => member ?? []);
  }

  #about(ms: number): number {
    return ms * (0.75 + this.#uniform() / 2);
  }

  /** Those who went in good order come back by themselves. */
  #someDead(): Member | undefined {
    const { dead } = this.#roster;
    let skip = Math.floor(this.#uniform() * dead.size);
    for (const id of dead) {
      const known = this.#roster.get(id);
      if (skip-- <= 0 && known?.standing === "dead" && this.#isCallable(known.member)) return known.member;
    }
    return undefined;
  }

  #isCallable({ id, routes }: Member): boolean {
    return id !== this.#self && routes.length > 0;
  }

  #forget(nowMs: number): void {
    const { forgetMs } = this.#timings;
    if (nowMs < this.#forgetMs) return;
    this.#forgetMs = nowMs + forgetMs / 24;
    for (const id of [...this.#roster.dead])
      if (nowMs - (this.#roster.get(id) as Known).sinceMs > forgetMs) this.#roster.forget(id);
  }
}
