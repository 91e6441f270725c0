// What all lanes of a session measure, each on its share of a step, as one number: their mean, added in lane order, once the
// last of them has told. Whoever computes it, from whichever orchestrator's records, comes to the same.

import { lanesOf, originalName } from "../../network/lanes.ts";
import { learnedIn, roundAt } from "../../network/rounds.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { isElastic, roundsOf } from "../sessions/line.ts";

/** What one lane told. */
interface Told {
  readonly name: string;
  readonly step: number;
  readonly value: number;
  readonly vnode: string;
}

/**
 * How many lanes measure something in a step: all of them, but in rounds of a session that is elastic. There those do that learn in the
 * step, and those that begin a round validate what the one before came to. What a late lane does not tell is not shown, nor
 * is the last validation if a lane had to end in another class than its last plan's.
 */
export function lanesTelling(session: SessionRecord | undefined, { name, step }: Pick<Told, "name" | "step">): number {
  const lanes = lanesOf(session?.identity ?? {});
  if (session === undefined || !isElastic(session)) return lanes;
  const isValidation = name.startsWith("validation");
  const at = isValidation && step < session.identity.steps ? step : step - 1;
  const round = roundAt(session.identity, at);
  const told = round && roundsOf(session).get(round.index);
  if (round === undefined || told === undefined) return lanes;
  if (isValidation) return at === step ? told.lanes.length : (told.counted ?? told.lanes).length;
  return told.lanes.filter(({ steps }) => learnedIn(round, steps, at) !== undefined).length;
}

/** Steps for which lanes have told and others have not; older ones are given up. */
const openMost = 4_000;

export class LaneMeans {
  readonly #lanesIn: (told: Told) => number;
  readonly #open = new Map<string, Map<string, number>>();

  /** `lanesIn`: how many lanes tell it. Metrics may arrive before the session's record does. */
  constructor(lanesIn: (told: Told) => number) {
    this.#lanesIn = lanesIn;
  }

  /** The number to be shown, if it is whole with this one. */
  add<Point extends Told>(point: Point): Point | undefined {
    const lanes = this.#lanesIn(point);
    if (point.vnode === "") return point;
    const vnode = originalName(point.vnode);
    if (lanes === 1) return { ...point, vnode };
    const name = `${point.step}/${point.name}/${vnode}`;
    const values = this.#open.get(name) ?? new Map<string, number>();
    this.#open.set(name, values.set(point.vnode, point.value));
    if (values.size < lanes) {
      if (this.#open.size > openMost) this.#open.delete(this.#open.keys().next().value as string);
      return undefined;
    }
    this.#open.delete(name);
    return { ...point, vnode, value: mean(values) };
  }
}

function mean(values: ReadonlyMap<string, number>): number {
  const inOrder = [...values].sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  return inOrder.reduce((sum, [, value]) => sum + value / values.size, 0);
}
