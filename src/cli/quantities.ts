// Sizes as people write them: "8GB", "512M", "10MB/s".

import { fail } from "../core/errors.ts";

const units: Record<string, number> = {
  "": 1,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  ki: 2 ** 10,
  mi: 2 ** 20,
  gi: 2 ** 30,
  ti: 2 ** 40,
};

export function parseBytes(text: string, flag: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?(?:\/s)?$/i.exec(text.trim());
  if (!match?.[1]) fail("invalid_argument", `${flag} takes a size such as 8GB or 512MB, not "${text}"`);
  return Math.floor(Number(match[1]) * (units[(match[2] ?? "").toLowerCase()] ?? 1));
}
