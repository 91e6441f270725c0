// The machine's own randomness, for names, nonces and jitter. Model state never sees it.

import { randomBytes } from "node:crypto";
import type { Chance } from "../core/world.ts";

export const realChance: Chance = {
  bytes: (count) => new Uint8Array(randomBytes(count)),
  uniform: () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48,
};
