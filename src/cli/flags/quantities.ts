// Sizes and times as people write them: "8GB", "512M", "10MB/s", "90s", "2h".

import { fail } from "../../core/errors.ts";

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

/** A size with its unit: a bare number would be bytes, which nobody means. */
export function parseBytes(text: string, flag: string): number {
  const bytes = bytesOf(text);
  return bytes ?? fail("invalid_argument", `${flag} takes a size such as 8GB, 8GiB or 512MB, not "${text}"`);
}

export function parseRate(text: string, flag: string): number {
  const bytes = bytesOf(text.trim().replace(/\/s$/i, ""));
  return bytes ?? fail("invalid_argument", `${flag} takes a rate such as 10MB/s or 500KB/s, not "${text}"`);
}

function bytesOf(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(?:([kmgt]i?)b?|b)$/i.exec(text.trim());
  if (!match?.[1]) return undefined;
  return Math.floor(Number(match[1]) * (units[(match[2] ?? "").toLowerCase()] ?? 1));
}

const secondsOf: Record<string, number> = { "": 1, s: 1, m: 60, min: 60, h: 3_600, d: 86_400 };

export function parseSeconds(text: string, flag: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?$/i.exec(text.trim());
  if (!match?.[1]) fail("invalid_argument", `${flag} takes a time such as 90s, 10m or 2h, not "${text}"`);
  return Number(match[1]) * (secondsOf[(match[2] ?? "").toLowerCase()] ?? 1);
}
