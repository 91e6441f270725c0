// The ways into a network for a machine that is to be lent: addresses, a DNS name, an invitation, or nothing at all. Then
// the local network is asked; who answers must prove its key, the person is asked once, and the answer is remembered.

import { lookup, resolveSrv } from "node:dns/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { fail } from "../../core/errors.ts";
import { isKeyId } from "../../core/keys.ts";
import type { World } from "../../core/world.ts";
import { joinedBy } from "../../protocol/identity/invite-link.ts";
import { Tls } from "../../protocol/identity/tls.ts";
import { formatAddress, isLoopback, parseAddress, withKey } from "../../protocol/routes/address.ts";
import { keptFile } from "../../system/files/kept-file.ts";
import { askOnLan, type FoundOnLan } from "../../system/wires/lan.ts";
import type { Output } from "../shown/output.ts";
import { orchestratorPortDefault } from "./connection.ts";

export interface WayIn {
  readonly addresses: readonly string[];
  readonly invite: string;
}

export interface Asking {
  /** Where the answer is remembered. */
  readonly directory: string;
  readonly world: World;
  readonly out: Output;
  /** Joins without asking what the local network offers. */
  readonly yes: boolean;
  /** An invitation that whoever started this process gave to it, out of sight of others on the machine. */
  readonly link?: string | undefined;
}

const waitMs = 2_000;
const rememberedName = "joined.json";
/** All that a name stands for is tried; more would be a mistake. */
const perNameMax = 16;

export async function wayIn(words: readonly string[], asking: Asking): Promise<WayIn> {
  if (words.length === 0 && asking.link === undefined) return { addresses: await fromLan(asking), invite: "" };
  const { addresses, invite } = joinedBy(words.length === 0 ? [asking.link ?? ""] : words);
  const expanded = await Promise.all(addresses.map(expandedName));
  return { addresses: [...new Set(expanded.flat())], invite };
}

/** A name stands for all its addresses, or for what its SRV record lists; the name itself comes first. */
export async function expandedName(address: string): Promise<string[]> {
  const { host, port, key, secure } = parseAddress(address, orchestratorPortDefault);
  if (isIP(host) !== 0 || isLoopback(host) || secure || address.startsWith("http://")) return [address];
  const hasPort = /:\d+$/.test(address.split("#", 1)[0] as string);
  const services = hasPort ? [] : await resolveSrv(`_dcnr._tcp.${host}`).catch(() => []);
  const listed = services
    .sort((one, other) => one.priority - other.priority || other.weight - one.weight)
    .map((one) => formatAddress(one.name, one.port));
  const numbers = listed.length > 0 ? [] : await lookup(host, { all: true }).catch(() => []);
  // One that it leads to is the name itself.
  const each = numbers.length > 1 ? numbers.map((one) => formatAddress(one.address, port)) : [];
  const places = listed.length > 0 ? listed : [formatAddress(host, port), ...each];
  return places.slice(0, perNameMax).map((place) => (key === undefined ? place : withKey(place, key)));
}

async function fromLan({ directory, world, out, yes }: Asking): Promise<string[]> {
  const file = keptFile(join(directory, rememberedName));
  const remembered = parseRemembered(await file.read());
  if (remembered.length > 0) return remembered;
  const found = await proven(await askOnLan(world, waitMs), world);
  const keys = [...new Set(found.map(({ key }) => key))];
  const [key] = keys;
  if (key === undefined)
    fail(
      "unavailable",
      "no orchestrator answered on this local network (only those answer that listen beyond their own machine): give an address, dcnr join ADDRESS",
    );
  if (keys.length > 1)
    fail(
      "failed_precondition",
      `several networks are here, choose one: ${found.map((one) => `dcnr join ${placeOf(one)}#${one.key}`).join(" or ")}`,
    );
  const places = found.map(placeOf);
  const name = found[0]?.name ?? "";
  if (!yes && !(await agrees(`join network ${name || places[0]} (at ${places.join(", ")}) with key ${key}? [y/N] `)))
    fail(
      "failed_precondition",
      `not joined. Without a person to ask, --yes agrees, or name it: dcnr join ${places[0]}#${key}`,
    );
  const addresses = places.map((place) => withKey(place, key));
  await file.write(new TextEncoder().encode(`${JSON.stringify({ addresses }, undefined, 2)}\n`));
  out.note(`remembered in ${join(directory, rememberedName)}: the next dcnr join asks nothing`);
  return addresses;
}

function placeOf({ host, port }: FoundOnLan): string {
  return formatAddress(host, port);
}

/** Whoever announces a key and shows another one is nobody. */
async function proven(found: readonly FoundOnLan[], world: World): Promise<FoundOnLan[]> {
  const shown = await Promise.all(
    found.map(({ host, port }) => new Tls().meet({ host, port }, world.timers).catch(() => undefined)),
  );
  return found.filter(({ key }, index) => shown[index] === key);
}

async function agrees(question: string): Promise<boolean> {
  if (process.stdin.isTTY !== true) return false;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(question)).trim());
  } finally {
    terminal.close();
  }
}

/** Anything but a list of addresses with keys is asked for anew. */
function parseRemembered(bytes: Uint8Array | undefined): string[] {
  if (bytes === undefined) return [];
  try {
    const { addresses } = JSON.parse(new TextDecoder().decode(bytes)) as { addresses?: unknown };
    if (!Array.isArray(addresses)) return [];
    return addresses.filter((one): one is string => typeof one === "string" && isKeyId(parseAddress(one).key ?? ""));
  } catch {
    return [];
  }
}
