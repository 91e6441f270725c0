// Everybody a member knows, with their standings: by id, by chance, by place in the ring, and as digests that two members
// compare. May start from a base that others share and nobody changes; what differs from it is its own.

import { assert } from "../core/assert.ts";
import { digestOf, digestsMax } from "./digests.ts";
import { isHere, type Known, type Member, type MemberId, type Standing } from "./member.ts";

interface Layer {
  readonly known: ReadonlyMap<MemberId, Known>;
  /** By place; may name some that are known no more. */
  readonly ring: readonly Member[];
}

export class Roster {
  readonly #base: Layer | undefined;
  /** Undefined: forgotten, although the base has it. */
  readonly #own = new Map<MemberId, Known | undefined>();
  /** Those of `#own` that the base has not, by place. */
  readonly #ring: Member[] = [];
  readonly #dead = new Set<MemberId>();
  readonly digests: Uint32Array;
  #here = 0;
  #orchestrators = new Set<MemberId>();

  constructor(base?: Roster) {
    this.#base = base?.asBase();
    this.digests = base ? base.digests.slice() : new Uint32Array(digestsMax);
    if (base === undefined) return;
    this.#here = base.here;
    for (const id of base.#dead) this.#dead.add(id);
    for (const id of base.#orchestrators) this.#orchestrators.add(id);
  }

  asBase(): Layer {
    assert(this.#base === undefined, "a base has no base of its own");
    return { known: this.#own as ReadonlyMap<MemberId, Known>, ring: this.#ring };
  }

  /** Alive or suspect. */
  get here(): number {
    return this.#here;
  }

  get dead(): ReadonlySet<MemberId> {
    return this.#dead;
  }

  get orchestrators(): ReadonlySet<MemberId> {
    return this.#orchestrators;
  }

  get size(): number {
    return this.#here + this.#dead.size;
  }

  get(id: MemberId): Known | undefined {
    const own = this.#own.get(id);
    return own !== undefined || this.#base === undefined || this.#own.has(id) ? own : this.#base.known.get(id);
  }

  set(member: Member, standing: Standing, nowMs: number): void {
    const before = this.get(member.id);
    if (before === undefined && !this.#base?.known.has(member.id)) insert(this.#ring, member);
    this.#account(before, -1);
    const known = { member, standing, sinceMs: nowMs };
    this.#own.set(member.id, known);
    this.#account(known, 1);
  }

  forget(id: MemberId): void {
    const before = this.get(id);
    if (before === undefined) return;
    this.#account(before, -1);
    if (this.#base?.known.has(id)) return void this.#own.set(id, undefined);
    this.#own.delete(id);
    this.#ring.splice(firstAt(this.#ring, before.member), 1);
  }

  #account(known: Known | undefined, sign: 1 | -1): void {
    if (known === undefined) return;
    const { member, standing } = known;
    const here = isHere(standing);
    if (here) {
      const bucket = member.place >>> (32 - Math.log2(digestsMax));
      this.digests[bucket] = (this.digests[bucket] as number) ^ digestOf(member.place, member.sequence);
      this.#here += sign;
    } else if (sign > 0) this.#dead.add(member.id);
    else this.#dead.delete(member.id);
    if (!member.roles.includes("orchestrator")) return;
    if (here && sign > 0) this.#orchestrators.add(member.id);
    else this.#orchestrators.delete(member.id);
  }

  *all(): Generator<Known> {
    for (const known of this.#own.values()) if (known !== undefined) yield known;
    if (this.#base) for (const [id, known] of this.#base.known) if (!this.#own.has(id)) yield known;
  }

  /** Those whose places lie in a bucket, of `count` equal ones. */
  *inBucket(bucket: number, count: number): Generator<Known> {
    const shift = 32 - Math.log2(count);
    const first = shift === 32 ? 0 : (bucket << shift) >>> 0;
    for (const ring of this.#rings()) {
      for (let index = lowerBound(ring, first); index < ring.length; index++) {
        const { place, id } = ring[index] as Member;
        if (shift < 32 && place >>> shift !== bucket) break;
        const known = this.get(id);
        if (known !== undefined) yield known;
      }
    }
  }

  /** The next in the ring behind a place for which `fits` holds, nearest first. */
  successors(place: number, count: number, fits: (known: Known) => boolean): Known[] {
    const found = this.#rings().flatMap((ring) => this.#walk(ring, place, count, fits));
    const distance = ({ member }: Known) => (member.place - place) >>> 0 || 2 ** 32;
    return found.sort((one, other) => distance(one) - distance(other)).slice(0, count);
  }

  /** Somebody for whom `fits` holds, by a number between 0 and 1. Undefined if there seems to be nobody. */
  pick(uniform: () => number, fits: (known: Known) => boolean): Known | undefined {
    const [own = [], base = []] = this.#rings();
    const total = own.length + base.length;
    for (let attempt = 0; attempt < picksMax && total > 0; attempt++) {
      const index = Math.floor(uniform() * total);
      const { id } = (index < own.length ? own[index] : base[index - own.length]) as Member;
      const known = this.get(id);
      if (known !== undefined && fits(known)) return known;
    }
    // Where few fit, all are looked at, from a place by chance on.
    return this.successors(Math.floor(uniform() * 2 ** 32), 1, fits)[0];
  }

  #rings(): (readonly Member[])[] {
    return this.#base ? [this.#ring, this.#base.ring] : [this.#ring];
  }

  #walk(ring: readonly Member[], place: number, count: number, fits: (known: Known) => boolean): Known[] {
    const found: Known[] = [];
    const from = lowerBound(ring, place);
    for (let step = 0; step < ring.length && found.length < count; step++) {
      const known = this.get((ring[(from + step) % ring.length] as Member).id);
      if (known !== undefined && fits(known)) found.push(known);
    }
    return found;
  }
}

/** Before all are looked at one by one. */
const picksMax = 16;

function lowerBound(ring: readonly Member[], place: number): number {
  let low = 0;
  let high = ring.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ring[middle] as Member).place < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

function firstAt(ring: readonly Member[], { place, id }: Member): number {
  let index = lowerBound(ring, place);
  while (ring[index]?.id !== id) index += 1;
  return index;
}

function insert(ring: Member[], member: Member): void {
  ring.splice(lowerBound(ring, member.place), 0, member);
}
