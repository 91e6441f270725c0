// A topological order that depends on the definition alone, and a cycle spelled out where there is none.

import { fail } from "../core/errors.ts";
import type { Definition } from "./definition.ts";

/** Longer cycles are cut in the middle. */
const shownMax = 12;

type Pair = readonly [from: string, to: string];

/** `ties` are needs without an edge. */
export function orderNodes(definition: Definition, ties: readonly Pair[]): string[] {
  const edges = definition.edges.map((edge): Pair => [edge.from, edge.to]);
  return topologicalOrder(
    definition.nodes.map((node) => node.id),
    [...edges, ...ties],
  );
}

/** Of the ids that are ready, the one listed first comes first. */
export function topologicalOrder(ids: readonly string[], pairs: readonly Pair[]): string[] {
  const needs = new Map<string, Set<string>>(ids.map((id) => [id, new Set()]));
  const feeds = new Map<string, Set<string>>(ids.map((id) => [id, new Set()]));
  for (const [from, to] of pairs) {
    needs.get(to)!.add(from);
    feeds.get(from)!.add(to);
  }
  const rank = new Map(ids.map((id, index) => [id, index]));
  const waiting = new Map(ids.map((id) => [id, needs.get(id)!.size]));
  const ready = new MinHeap(ids.filter((id) => waiting.get(id) === 0).map((id) => rank.get(id)!));
  const order: string[] = [];
  for (let next = ready.pop(); next !== undefined; next = ready.pop()) {
    const id = ids[next]!;
    order.push(id);
    waiting.delete(id);
    for (const to of feeds.get(id)!) {
      const left = waiting.get(to)! - 1;
      waiting.set(to, left);
      if (left === 0) ready.push(rank.get(to)!);
    }
  }
  if (waiting.size > 0)
    fail("invalid_argument", `the nodes form a cycle: ${showCycle(waiting, needs)}; remove one of its edges`);
  return order;
}

function showCycle(waiting: ReadonlyMap<string, number>, needs: ReadonlyMap<string, ReadonlySet<string>>): string {
  const path: string[] = [];
  let id = [...waiting.keys()][0]!;
  while (!path.includes(id)) {
    path.push(id);
    id = [...needs.get(id)!].find((need) => waiting.has(need))!;
  }
  const cycle = [id, ...path.slice(path.indexOf(id) + 1).reverse(), id];
  const shown = cycle.length > shownMax ? [...cycle.slice(0, shownMax - 2), "...", id] : cycle;
  return shown.join(" -> ");
}

class MinHeap {
  readonly #items: number[] = [];

  constructor(items: readonly number[]) {
    for (const item of items) this.push(item);
  }

  push(item: number): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0 && items[(at - 1) >> 1]! > item) {
      items[at] = items[(at - 1) >> 1]!;
      at = (at - 1) >> 1;
    }
    items[at] = item;
  }

  pop(): number | undefined {
    const items = this.#items;
    const top = items[0];
    const last = items.pop();
    if (last === undefined || items.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && items[child + 1]! < items[child]!) child++;
      if (items[child]! >= last) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = last;
    return top;
  }
}
