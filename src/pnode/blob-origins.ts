// Which addresses a PNode calls for blobs: those of the orchestrators it knows and those that it was told of when it
// registered, with the few headers that a blob store needs. An orchestrator that asks for anything else would make a
// lent machine a door into its owner's network, so it is refused before anything is sent.

import { isIP } from "node:net";
import { fail } from "../core/errors.ts";
import { isPublicAddress } from "../data/address.ts";
import { baseUrl, isLoopback, parseAddress } from "../protocol/address.ts";
import type { BlobAddress } from "./options.ts";

/** What stores sign with an address: the size and the checksum of what is sent. */
const headersAllowed: ReadonlySet<string> = new Set(["content-length", "content-type", "x-amz-checksum-sha256"]);

/** A store has one or a few. */
const originsMax = 16;

export class BlobOrigins {
  /** Named by the machine's owner, who may well use addresses of his own network. */
  readonly #given: readonly string[];
  readonly #orchestrators: () => readonly string[];
  #told: ReadonlySet<string> = new Set();

  constructor(given: readonly string[], orchestrators: () => readonly string[]) {
    this.#given = given;
    this.#orchestrators = orchestrators;
  }

  /** Told at registration. What leads into the owner's machine or network is left out. */
  learn(origins: readonly string[]): void {
    const known = origins.slice(0, originsMax).filter((origin) => URL.canParse(origin));
    this.#told = new Set(
      known
        .map((origin) => new URL(origin))
        .filter((url) => this.#isOutside(url))
        .map(originOf),
    );
  }

  /** Fails with `permission_denied` for an address or a header that a blob store has no use for. */
  check({ url, headers }: BlobAddress): void {
    const parsed = URL.canParse(url) ? new URL(url) : fail("permission_denied", "a blob's address is not a URL");
    if (!this.#isKnown(parsed))
      fail(
        "permission_denied",
        `the address ${originOf(parsed)} for a blob belongs to no orchestrator and was not told at registration: it is not called`,
      );
    for (const name of Object.keys(headers))
      if (!headersAllowed.has(name.toLowerCase()))
        fail(
          "permission_denied",
          `the address of a blob comes with the header "${name.slice(0, 40)}": it is not called`,
        );
  }

  #isKnown(url: URL): boolean {
    if (url.protocol !== "http:" && url.protocol !== "https:") return false;
    if (url.username !== "" || url.password !== "") return false;
    const origin = originOf(url);
    return this.#told.has(origin) || this.#orchestrators().some((address) => originOfAddress(address) === origin);
  }

  #isOutside({ hostname }: URL): boolean {
    const host = hostname.replace(/^\[|\]$/g, "");
    const given = this.#given.map((address) => parseAddress(address, 0).host);
    if (isLoopback(host)) return given.some(isLoopback);
    if (isIP(host) === 0 || isPublicAddress(host)) return true;
    // Machines find their own settings and keys there; no blob store does.
    if (host.startsWith("169.254.") || /^fe[89ab]/i.test(host)) return false;
    return given.some((one) => isIP(one) === 0 || !isPublicAddress(one));
  }
}

function originOf(url: URL): string {
  return `${url.protocol}//${url.host}`;
}

function originOfAddress(address: string): string | undefined {
  const url = `${baseUrl(address)}/`;
  return URL.canParse(url) ? originOf(new URL(url)) : undefined;
}
