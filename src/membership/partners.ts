// Whom a member probes: a few that follow it in the ring, so that everybody is watched by equally many, and a few by chance,
// so that news cross the ring. They stay the same for a while: connections to them are open already, and a connection to
// somebody new costs more bytes than a hundred probes.

import type { Known, Member, MemberId } from "./member.ts";
import type { Roster } from "./roster.ts";
import type { MembershipTimings } from "./timings.ts";

export class Partners {
  readonly #roster: Roster;
  readonly #timings: MembershipTimings;
  readonly #uniform: () => number;
  readonly #self: { readonly id: MemberId; readonly place: number };
  #ring: MemberId[] = [];
  #chance: MemberId[] = [];
  #turn: MemberId[] = [];
  #rotateMs = 0;
  /** The roster has changed since the ring was looked at. */
  stale = true;

  constructor(roster: Roster, timings: MembershipTimings, uniform: () => number, self: Pick<Member, "id" | "place">) {
    this.#roster = roster;
    this.#timings = timings;
    this.#uniform = uniform;
    this.#self = self;
  }

  /** The next to be probed; each comes once before any comes twice. */
  next(nowMs: number, isFree: (id: MemberId) => boolean): Known | undefined {
    this.#renew(nowMs);
    for (let attempt = 0; attempt < 2; attempt++) {
      for (let id = this.#turn.pop(); id !== undefined; id = this.#turn.pop()) {
        const known = this.#roster.get(id);
        if (known !== undefined && this.#fits(known) && isFree(id)) return known;
      }
      this.#turn = shuffled([...this.#ring, ...this.#chance], this.#uniform);
    }
    return undefined;
  }

  /** Members that may try what this one could not; partners first, as they are connected. */
  helpers(count: number, target: MemberId): Member[] {
    const able = ({ member, standing }: Known) =>
      standing === "alive" && this.#callable(member) && member.id !== target;
    const found = new Map<MemberId, Member>();
    for (const id of shuffled([...this.#ring, ...this.#chance], this.#uniform)) {
      const known = this.#roster.get(id);
      if (known !== undefined && able(known) && found.size < count) found.set(id, known.member);
    }
    for (let attempt = 0; attempt < count && found.size < count; attempt++) {
      const known = this.#roster.pick(this.#uniform, (one) => able(one) && !found.has(one.member.id));
      if (known === undefined) break;
      found.set(known.member.id, known.member);
    }
    return [...found.values()];
  }

  #renew(nowMs: number): void {
    const { ringPartners, chancePartners, rotateMs } = this.#timings;
    if (this.stale) {
      this.stale = false;
      this.#ring = this.#roster
        .successors(this.#self.place, ringPartners, (known) => this.#fits(known))
        .map(({ member }) => member.id);
      this.#chance = this.#chance.filter((id) => {
        const known = this.#roster.get(id);
        return known !== undefined && this.#fits(known) && !this.#ring.includes(id);
      });
    }
    if (nowMs >= this.#rotateMs) {
      this.#rotateMs = nowMs + rotateMs * (0.75 + this.#uniform() / 2);
      this.#chance.shift();
    }
    while (this.#chance.length < chancePartners) {
      const taken = (id: MemberId) => this.#ring.includes(id) || this.#chance.includes(id);
      const known = this.#roster.pick(this.#uniform, (one) => this.#fits(one) && !taken(one.member.id));
      if (known === undefined) break;
      this.#chance.push(known.member.id);
    }
  }

  #fits({ member, standing }: Known): boolean {
    return (standing === "alive" || standing === "suspect") && this.#callable(member);
  }

  #callable({ id, routes }: Member): boolean {
    return id !== this.#self.id && routes.length > 0;
  }
}

function shuffled<Item>(items: Item[], uniform: () => number): Item[] {
  for (let index = items.length - 1; index > 0; index--) {
    const other = Math.floor(uniform() * (index + 1));
    [items[index], items[other]] = [items[other] as Item, items[index] as Item];
  }
  return items;
}
