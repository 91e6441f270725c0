// Which VNode an arrow key leads to: the nearest in that direction.

import type { Layout } from "./layout.ts";

const directions: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Undefined if the key means nothing here. */
export function neighbourIn({ positions }: Layout, current: string, key: string): string | undefined {
  const first = positions.keys().next().value;
  if (key === "Home") return first;
  if (key === "End") return Array.from(positions.keys()).at(-1);
  const direction = directions[key];
  if (!direction) return undefined;
  const from = positions.get(current);
  if (!from) return first;
  let best = current;
  let bestCost = Number.POSITIVE_INFINITY;
  for (const [id, at] of positions) {
    const along = (at.x - from.x) * direction[0] + (at.y - from.y) * direction[1];
    if (along <= 0) continue;
    const across = Math.abs((at.x - from.x) * direction[1]) + Math.abs((at.y - from.y) * direction[0]);
    const cost = along + 3 * across;
    if (cost < bestCost) {
      best = id;
      bestCost = cost;
    }
  }
  return best;
}
