// Limits on machines that have proved nothing yet. Whoever makes a hundred keys has a hundred machines at once, but hardly a
// hundred owners and networks: such machines get a small share of a workload together, and those that may well be one person's a smaller
// one. Where others have no room the limits are lifted one after the other, and the decisions say so: a fleet of newcomers has to begin somehow.

import type { AuditRoom } from "./audit-room.ts";
import type { Fleet } from "./fleet.ts";
import { namesOf } from "./names.ts";
import { type FleetNode, type Policy, trustLevel } from "./types.ts";

/** Machines that share a limit, and how many units more they may get together. */
export interface Crowd {
  readonly name: string;
  left: number;
}

/** How careful a placement is: shares of a workload's units; absent: no limit. */
export interface Care {
  /** Of all machines that are not proven. */
  readonly everybody?: number;
  /** Of those of one owner, or of one network as far as addresses tell. */
  readonly each?: number;
  /** What those who may check keep free. */
  readonly auditRoom?: AuditRoom;
  /** First owners may have that room: something would have no place at all. Further copies never do. */
  readonly givesRoomUp?: true;
}

/**
 * At least: where few are proven and nothing is checked, all newcomers together get what one more of the proven ones would. Less would leave
 * nearly everything on one machine whenever another is lost, and the next loss would take all of that.
 */
const everybodyShare = 0.3;
const eachShare = 0.1;
/** Better that a few crowds share a workload than that one has it all. */
const eachShareMost = 0.3;

const nobody: readonly Crowd[] = [];

export class Crowds {
  readonly care: Care;
  readonly #isUnproven: (node: FleetNode) => boolean;
  readonly #sizes: ReadonlyMap<string, number>;
  readonly #units: number;
  readonly #crowds = new Map<string, Crowd>();

  constructor(unproven: Unproven, care: Care, units: number) {
    this.care = care;
    this.#isUnproven = unproven.isUnproven;
    this.#sizes = unproven.sizes;
    this.#units = units;
  }

  isUnproven(node: FleetNode): boolean {
    return this.#isUnproven(node);
  }

  /** Bytes that nothing is put into there. */
  keptFreeOn(node: FleetNode): number {
    return this.care.givesRoomUp ? 0 : this.#auditRoomOn(node);
  }

  /** Bytes beyond those that no further copy is put into. */
  keptFromCopiesOn(node: FleetNode): number {
    return this.care.givesRoomUp ? this.#auditRoomOn(node) : 0;
  }

  #auditRoomOn(node: FleetNode): number {
    const { auditRoom } = this.care;
    return auditRoom?.mayCheck(node) ? auditRoom.bytes : 0;
  }

  /** Those that a machine belongs to; none for one that is proven. */
  of(node: FleetNode): readonly Crowd[] {
    const { everybody, each } = this.care;
    if ((everybody === undefined && each === undefined) || !this.#isUnproven(node)) return nobody;
    const crowds = everybody === undefined ? [] : [this.#crowd("everybody", everybody)];
    if (each !== undefined)
      for (const name of namesOf(node)) if (this.#sizes.has(name)) crowds.push(this.#crowd(name, each));
    return crowds;
  }

  #crowd(name: string, share: number): Crowd {
    const known = this.#crowds.get(name) ?? { name, left: unitsOf(share, this.#units) };
    this.#crowds.set(name, known);
    return known;
  }
}

/** One unit at least, so that a machine can show what it does; a workload of a single one is for others. */
function unitsOf(share: number, units: number): number {
  return units < 2 ? 0 : Math.max(1, Math.floor(share * units));
}

/** Who of a fleet has proved nothing. */
export interface Unproven {
  readonly isUnproven: (node: FleetNode) => boolean;
  readonly count: number;
  /** Whatever they compute may have to be repeated by the others. */
  readonly isChecked: boolean;
  /** Machines of one owner or network, by its name, where there are several. */
  readonly sizes: ReadonlyMap<string, number>;
}

/** In a session that is checked only results that were found right prove anything; elsewhere work does. */
export function unprovenOf(fleet: Fleet, { checked }: Policy): Unproven {
  const byResults = checked !== undefined && fleet.untrusted < fleet.size;
  const isUnproven = byResults
    ? ({ trust }: FleetNode) => trustLevel(trust) === 0
    : ({ newcomer }: FleetNode) => newcomer;
  const count = byResults ? fleet.untrusted : fleet.newcomers;
  const isChecked = checked !== undefined;
  return { isUnproven, count, isChecked, sizes: fleet.namesOf(byResults ? "untrusted" : "newcomers") };
}

/** How careful to be at first, and then, as long as something has no place. The last one has no limits. */
export function caresFor(unproven: Unproven, fleet: Fleet, auditRoom: AuditRoom | undefined): Care[] {
  const cares = limitsFor(unproven, fleet);
  if (auditRoom === undefined) return cares;
  const withRoom = cares.map((care) => ({ ...care, auditRoom }));
  // Where nobody can keep it anyway there is no reason left to be less careful.
  const without = cares.map((care) => ({ ...care, auditRoom, givesRoomUp: true as const }));
  return [...(auditRoom.isNeeded ? withRoom : withRoom.slice(0, 1)), ...without];
}

function limitsFor({ count, sizes, isChecked }: Unproven, fleet: Fleet): Care[] {
  const isMixed = count > 0 && count < fleet.size;
  const everybody = isChecked ? everybodyShare : Math.max(everybodyShare, 1 / (fleet.size - count + 1));
  // All in one: there is nobody to prefer.
  const hasCrowds = sizes.values().some((size) => size < fleet.size);
  const cares: Care[] = [];
  if (isMixed) cares.push({ everybody, ...(hasCrowds ? { each: eachShare } : {}) });
  // That newcomers are needed is no reason to take them all from one owner.
  if (hasCrowds) cares.push({ each: eachShare }, { each: eachShareMost });
  return [...cares, {}];
}

export function hasRoom(crowds: readonly Crowd[], units = 1): boolean {
  for (const crowd of crowds) if (crowd.left < units) return false;
  return true;
}

export function count(crowds: readonly Crowd[], units: number): void {
  for (const crowd of crowds) crowd.left -= units;
}

/** They lead to the same layouts: both are limited by the same. */
export function areAlike(a: readonly Crowd[], b: readonly Crowd[]): boolean {
  return a.length === b.length && a.every((crowd, at) => crowd === b[at]);
}

/** Copies that share among each other what the originals shared. */
export function crowdCopier(): (crowds: readonly Crowd[]) => readonly Crowd[] {
  const copies = new Map<Crowd, Crowd>();
  const copied = (crowd: Crowd) => {
    const copy = copies.get(crowd) ?? { ...crowd };
    copies.set(crowd, copy);
    return copy;
  };
  return (crowds) => (crowds.length === 0 ? nobody : crowds.map(copied));
}

/** For people, of a machine that a unit was given to. */
export function unprovenReason(crowds: Crowds, node: FleetNode, isFirst: boolean): string {
  if (!crowds.isUnproven(node)) return "";
  return isFirst ? "; a newcomer, not proven yet" : "; a newcomer, not proven yet, but nobody else has room";
}
