// The work of one racer in the conformance suite, in this process or another: count up shared keys, through a store that
// loses requests and replies.

import type { World } from "../../core/world.ts";
import { withFaults } from "./faulty.testing.ts";
import type { StateStore } from "./state-store.ts";
import { updateItem } from "./update.ts";

export interface HotKeys {
  readonly prefix: string;
  readonly keys: number;
  readonly countsPerKey: number;
}

export function hotKeyNames({ prefix, keys }: HotKeys): string[] {
  return Array.from({ length: keys }, (_, index) => `${prefix}${index}`);
}

export async function countUp(store: StateStore, hotKeys: HotKeys, world: World): Promise<void> {
  const count = (current: { count: number } | undefined) => ({ count: (current?.count ?? 0) + 1 });
  for (let round = 0; round < hotKeys.countsPerKey; round++)
    for (const key of hotKeyNames(hotKeys)) await updateItem(store, key, count, world, { timeoutMs: 60_000 });
}

/** Every seventh reply and every eleventh request is lost, others for each racer. */
export function withLosses(store: StateStore, racer: number): StateStore {
  let calls = racer;
  return withFaults(store, () => {
    calls++;
    return calls % 7 === 0 ? "lost reply" : calls % 11 === 0 ? "lost request" : "none";
  });
}
