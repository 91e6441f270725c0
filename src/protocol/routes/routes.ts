// Where a machine can be reached. A route is "host:port", or "pnode@host:port/key": through the relay that holds that key, at
// which the machine waits for calls; with "?calls" behind it the relay carries calls and no tensors, with "?sealed" the machine
// speaks no TLS (a browser) and is called on a line that is sealed by our own handshake. What a machine has of them is one opaque string to
// everybody but the routed network, which alone chooses; behind it may stand the key that must answer, as behind an address ("...#key").

import { fail } from "../../core/errors.ts";
import type { KeyId, PNodeId } from "../../core/ids.ts";
import { shortKeyId } from "../../core/keys.ts";
import { parseAddress, withoutKey } from "./address.ts";

declare const brand: unique symbol;
/** One or several routes to one machine, the machine's favourite first. */
export type Routes = string & { readonly [brand]: "Routes" };

export interface DirectRoute {
  readonly kind: "direct";
  /** "host:port". */
  readonly address: string;
}

export interface RelayedRoute {
  readonly kind: "relayed";
  readonly target: PNodeId;
  /** "host:port" of the relay. */
  readonly address: string;
  /** What the relay has to show. */
  readonly relay: KeyId;
  /** False: calls alone. */
  readonly tensors: boolean;
  /** True: it speaks no TLS. */
  readonly sealed?: boolean;
  /** True: directly, with the relay's help. No machine names such a route: whoever calls makes it of a relayed one. */
  readonly punched?: boolean;
}

export type Route = DirectRoute | RelayedRoute;

/** A machine has an address for each of its networks, and some relays. */
export const routesMax = 16;
export const routeLengthMax = 300;

/** As they stand in a message. Kinds of routes that this version does not know may be among them: nobody takes those. */
export function joinRoutes(routes: readonly string[]): Routes {
  if (routes.length > routesMax)
    fail("invalid_argument", `${routes.length} routes are named, at most ${routesMax} are`);
  return routes.filter((route) => !isNoRoute(route)).join(",") as Routes;
}

/** As they go into a message. */
export function splitRoutes(routes: string): string[] {
  return routes === "" ? [] : routes.split(",");
}

export function parseRoute(text: string): Route {
  if (isNoRoute(text)) fail("invalid_argument", notARoute(text));
  const at = text.indexOf("@");
  if (at < 0) {
    parseAddress(text);
    return { kind: "direct", address: text };
  }
  const mark = text.lastIndexOf("?");
  const marks = mark < 0 ? [] : text.slice(mark + 1).split("&");
  const place = mark < 0 ? text : text.slice(0, mark);
  if (marks.some((one) => one !== callsMark && one !== sealedMark && one !== punchedMark))
    fail("invalid_argument", notARoute(text));
  const slash = place.lastIndexOf("/");
  const [target, address, relay] = [place.slice(0, at), place.slice(at + 1, slash), place.slice(slash + 1)];
  if (slash < at || target === "" || relay === "") fail("invalid_argument", notARoute(text));
  parseAddress(address);
  const tensors = !marks.includes(callsMark);
  const sealed = marks.includes(sealedMark) && { sealed: true };
  const punched = marks.includes(punchedMark) && { punched: true };
  return { kind: "relayed", target: target as PNodeId, address, relay: relay as KeyId, tensors, ...sealed, ...punched };
}

/** Whether a single route, with or without a key, leads through a relay. */
export function isRelayed(route: string): boolean {
  return route.includes("@");
}

/** For people: ids and keys are long. The first of several. */
export function shownRoute(routes: string): string {
  const [place = ""] = withoutKey(routes).split(",", 1);
  if (!isRelayed(place)) return place;
  const { address } = parseRoute(place);
  return isPunched(place)
    ? `${shortKeyId(place)} through its router (found by relay ${address})`
    : `${shortKeyId(place)} by relay ${address}`;
}

/** All of them, for people. */
export function shownRoutes(routes: string): string {
  return splitRoutes(routes).map(shownRoute).join(", ");
}

const callsMark = "calls";
const sealedMark = "sealed";
const punchedMark = "punched";

/** The direct way that may be made with the help of a relayed one, with or without a key behind it. */
export function punchedRoute(relayed: RelayedRoute): string {
  return `${formatRelayed({ ...relayed, tensors: true })}?${punchedMark}`;
}

/** The relayed route that a punched one was made of. */
export function unpunched(route: string): string {
  return route.replace(`?${punchedMark}`, "");
}

export function isPunched(route: string): boolean {
  return route.includes(`?${punchedMark}`);
}

export function formatRelayed({ target, address, relay, tensors, sealed }: Omit<RelayedRoute, "kind">): string {
  const marks = [...(tensors ? [] : [callsMark]), ...(sealed ? [sealedMark] : [])].join("&");
  return `${target}@${address}/${relay}${marks === "" ? "" : `?${marks}`}`;
}

function isNoRoute(text: string): boolean {
  return text === "" || text.length > routeLengthMax || /[,#\s]/.test(text);
}

function notARoute(text: string): string {
  return `"${text.slice(0, 80)}" is not a route: host:port, or pnode@host:port/key through a relay`;
}
