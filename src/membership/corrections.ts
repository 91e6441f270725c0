// Records that one member alone has to hear: it accuses somebody who has answered since. News reach almost everybody; the few
// that they miss would bury the living, were they not told when they ask.

import type { Member, MemberId, News } from "./member.ts";

/** Whoever accuses many at once hears of the rest when it asks again. */
const perMemberMax = 8;
const membersMax = 256;

export class Corrections {
  readonly #byMember = new Map<MemberId, Map<MemberId, Member>>();

  add(to: MemberId, member: Member): void {
    const known = this.#byMember.get(to) ?? new Map<MemberId, Member>();
    if (known.size === 0 && this.#byMember.size >= membersMax) return;
    if (known.size < perMemberMax || known.has(member.id)) known.set(member.id, member);
    this.#byMember.set(to, known);
  }

  take(to: MemberId): News[] {
    const known = this.#byMember.get(to);
    this.#byMember.delete(to);
    return known === undefined ? [] : Array.from(known.values(), (member) => ({ kind: "record", member }));
  }
}
