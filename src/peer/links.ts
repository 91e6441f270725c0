// The ways to all peers, one link each, for every protocol that has something to send. A peer is called by its routes and
// its key: whoever else answers there hears nothing.

import type { PNodeId } from "../core/ids.ts";
import { withKey } from "../protocol/routes/address.ts";
import type { Routes } from "../protocol/routes/routes.ts";
import { Link, type LinkOptions } from "./link.ts";

export interface Reading {
  readonly pnode: string;
  /** 0 until measured. */
  readonly latencyMs: number;
  readonly bytesPerSecond: number;
  /** For how long it has not answered although it is called. */
  readonly failingMs: number;
}

export class Links {
  readonly #options: Omit<LinkOptions, "address">;
  /** By routes and key. */
  readonly #links = new Map<string, { readonly link: Link; readonly pnode: string }>();

  constructor(options: Omit<LinkOptions, "address">) {
    this.#options = options;
  }

  to({ routes, pnode }: { readonly routes: Routes; readonly pnode: string }): Link {
    const place = placeOf(routes, pnode);
    const known = this.#links.get(place);
    if (known !== undefined) return known.link;
    const link = new Link({ ...this.#options, address: place });
    this.#links.set(place, { link, pnode });
    return link;
  }

  /** Of peers that were measured, or that do not answer. */
  readings(): Reading[] {
    return [...this.#links.values()]
      .map(({ link, pnode }) => ({ pnode, ...link.measured, failingMs: link.failingMs }))
      .filter(({ latencyMs, bytesPerSecond, failingMs }) => latencyMs > 0 || bytesPerSecond > 0 || failingMs > 0);
  }

  /** Ends links to all others: a stalled peer would hold on to what waits for it. */
  keepOnly(peers: Iterable<{ readonly routes: Routes; readonly pnode: string }>): void {
    const kept = new Set(Array.from(peers, ({ routes, pnode }) => placeOf(routes, pnode)));
    for (const [place, { link }] of [...this.#links]) {
      if (kept.has(place)) continue;
      this.#links.delete(place);
      link.close();
    }
  }

  /** To these peers, wherever they are reached: what does not get on there goes by new streams. */
  renew(peers: Iterable<string>): void {
    const wanted = new Set(peers);
    for (const { link, pnode } of [...this.#links.values()]) if (wanted.has(pnode)) link.renew();
  }

  close(): void {
    for (const { link } of [...this.#links.values()]) link.close();
  }
}

function placeOf(routes: Routes, pnode: string): string {
  return withKey(routes, pnode as PNodeId);
}
