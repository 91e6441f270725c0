// The work of one racer in the conformance suite, in this process or another: count up shared keys.

import type { World } from "../core/world.ts";
import type { StateStore } from "./state-store.ts";
import { updateItem } from "./update.ts";

export interface HotKeys {
  readonly prefix: string;
  readonly keys: number;
  readonly countsPerKey: number;
}

export async function countUp(store: StateStore, hotKeys: HotKeys, world: World): Promise<void> {
  for (let round = 0; round < hotKeys.countsPerKey; round++)
    for (let index = 0; index < hotKeys.keys; index++)
      await updateItem<{ count: number }>(
        store,
        `${hotKeys.prefix}${index}`,
        (current) => ({ count: (current?.count ?? 0) + 1 }),
        world,
        { timeoutMs: 60_000 },
      );
}
