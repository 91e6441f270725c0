// What a key is to be good for, as flags: shared by keys with a secret and people's own.

import { fail } from "../../core/errors.ts";
import type { Flags, OptionSpec } from "../command.ts";
import { parseSeconds } from "./quantities.ts";

export const keyOptions: Readonly<Record<string, OptionSpec>> = {
  scope: {
    type: "string",
    value: "SCOPE",
    many: true,
    summary: "generate, read, train or admin; may be repeated (default: generate)",
  },
  owner: { type: "string", value: "NAME", summary: "whose key it is (default: the key's name)", default: "" },
  expires: { type: "string", value: "TIME", summary: "how long it works: 12h, 90d (default: for ever)" },
  network: {
    type: "string",
    value: "ID",
    many: true,
    summary: "good for this network, its sessions and models alone; may be repeated",
  },
  "own-only": { type: "boolean", summary: "good for what its owner made alone" },
  rate: { type: "number", summary: "requests a minute; 0 for no limit", default: 0 },
};

export function keyWish(name: string, flags: Flags) {
  const scopes = flags.texts("scope").flatMap((text) => text.split(","));
  const rate = flags.number("rate");
  if (rate < 0) fail("invalid_argument", "--rate is a number of requests a minute, 0 for no limit");
  return {
    name,
    scopes: scopes.length > 0 ? scopes : ["generate"],
    requestsPerMinute: rate,
    owner: flags.text("owner"),
    lifetimeSeconds: flags.has("expires") ? BigInt(Math.ceil(parseSeconds(flags.text("expires"), "--expires"))) : 0n,
    networks: flags.texts("network"),
    ownOnly: flags.is("own-only"),
  };
}

/** Its scopes and what narrows them down. */
export function scopesText({ scopes, networks, ownOnly }: KeyTerms): string {
  const of = networks.length > 0 ? ` of ${networks.join(", ")}` : "";
  return `${scopes.join(", ")}${of}${ownOnly ? ", own things only" : ""}`;
}

interface KeyTerms {
  readonly scopes: readonly string[];
  readonly networks: readonly string[];
  readonly ownOnly: boolean;
}

/** A day, or the word for none. */
export function dayOf(wallMs: bigint, none: string): string {
  return wallMs === 0n ? none : new Date(Number(wallMs)).toISOString().slice(0, 10);
}
