// How much of a session machines of one owner may get that have proved nothing, by the promise (docs/decisions/0034-keys-are-not-people.md): one unit while
// others have room for the rest. Worked out from how many VNodes fit where, by a model too simple to be wrong; it knows nothing of how places are searched for.

/** A machine: how many VNodes fit, and how many of these it keeps free for checks as long as it can. */
export interface Place {
  readonly vnodes: number;
  readonly kept: number;
}

export interface Crowded {
  /** How many VNodes each unit has. */
  readonly units: readonly number[];
  /** How often each is hosted, by so many machines. */
  readonly copies?: number;
  readonly own: readonly Place[];
  readonly others: readonly Place[];
  /** Everything is checked: rather than room for checks the limit goes. */
  readonly needsChecks: boolean;
}

const moreShare = 0.3;

/** A copy of a unit. */
interface Copy {
  readonly vnodes: number;
  readonly of: number;
  readonly isFurther: boolean;
}

export function unitsForOneOwner({ units: sizes, copies = 1, own, others, needsChecks }: Crowded): number {
  const units = Array.from({ length: copies }, (_, copy) =>
    sizes.map((vnodes, of): Copy => ({ vnodes, of, isFurther: copy > 0 })),
  ).flat();
  const limits = [1, Math.max(1, Math.floor(moreShare * units.length)), units.length];
  const kept = (needsChecks ? limits : limits.slice(0, 1)).map((most) => ({ most, isKept: true }));
  const givenUp = limits.map((most) => ({ most, isKept: false }));
  const enough = [...kept, ...givenUp].find(({ most, isKept }) =>
    areHeld(units, most, (theirs, left) => fit(theirs, own, isKept) && fit(left, others, isKept)),
  );
  return enough?.most ?? units.length;
}

/** Whether the others hold all but so many of the units, and the owner's machines those: the largest, or the smallest. */
function areHeld(
  units: readonly Copy[],
  most: number,
  holds: (theirs: readonly Copy[], left: readonly Copy[]) => boolean,
): boolean {
  const sorted = units.toSorted((a, b) => b.vnodes - a.vnodes);
  return Array.from({ length: most + 1 }, (_, count) => count).some((count) => {
    const rest = sorted.length - count;
    return holds(sorted.slice(0, count), sorted.slice(count)) || holds(sorted.slice(rest), sorted.slice(0, rest));
  });
}

/**
 * Largest first, each where it fits, and no two copies of one on the same machine. What is kept for checks is for those that would have no place at all, and
 * only if it is given up; further copies never get it.
 */
function fit(units: readonly Copy[], places: readonly Place[], isKept: boolean): boolean {
  const left = places.map(({ vnodes }) => vnodes);
  const held = places.map(() => new Set<number>());
  const inOrder = [...units.filter(({ isFurther }) => !isFurther), ...units.filter(({ isFurther }) => isFurther)];
  return inOrder.every(({ vnodes, of, isFurther }) => {
    const placeWith = (keeps: boolean) =>
      places.findIndex(({ kept }, at) => {
        const room = (left[at] as number) - (keeps ? kept : 0);
        return room >= vnodes && !held[at]?.has(of);
      });
    const beside = placeWith(true);
    const at = beside >= 0 || isKept || isFurther ? beside : placeWith(false);
    if (at >= 0) left[at] = (left[at] as number) - vnodes;
    held[at]?.add(of);
    return at >= 0;
  });
}
