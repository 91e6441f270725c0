// What all lanes of a session measure, each on its share of a step, as one number: their mean, added in lane order, once the
// last of them has told. Whoever computes it, from whichever orchestrator's records, comes to the same.

import { originalName } from "../../network/lanes.ts";

/** What one lane told. */
interface Told {
  readonly name: string;
  readonly step: number;
  readonly value: number;
  readonly vnode: string;
}

/** Steps for which lanes have told and others have not; older ones are given up. */
const openMost = 4_000;

export class LaneMeans {
  readonly #lanesNow: () => number;
  readonly #open = new Map<string, Map<string, number>>();

  /** `lanesNow`: metrics may arrive before the session's record does. */
  constructor(lanesNow: () => number) {
    this.#lanesNow = lanesNow;
  }

  /** The number to be shown, if it is whole with this one. */
  add<Point extends Told>(point: Point): Point | undefined {
    const lanes = this.#lanesNow();
    if (lanes === 1 || point.vnode === "") return point;
    const vnode = originalName(point.vnode);
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
