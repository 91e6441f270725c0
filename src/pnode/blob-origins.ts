// Which addresses a PNode calls for blobs: those of the orchestrators it knows and those that it was told of when it
// joined, with the few headers that a blob store needs. An orchestrator that asks for anything else is refused before
// anything is sent. Whether an address leads into the owner's network is judged on connecting (protocol/routes/reach.ts).

import { fail } from "../core/errors.ts";
import { baseUrl, formatAddress, parseAddress } from "../protocol/routes/address.ts";
import type { BlobAddress } from "./options.ts";

/** What stores sign with an address: the size and the checksum of what is sent. */
const headersAllowed: ReadonlySet<string> = new Set(["content-length", "content-type", "x-amz-checksum-sha256"]);

/** A number, a media type or a checksum. */
const valuePattern = /^[\w+/=.;,: -]{0,200}$/;

const ownPath = "/blobs/";

/** A store has one or a few. */
const originsMax = 16;

export class BlobOrigins {
  readonly #orchestrators: () => readonly string[];
  readonly #told = new Set<string>();
  #joined = false;

  constructor(orchestrators: () => readonly string[]) {
    this.#orchestrators = orchestrators;
  }

  /** Told at a registration. After the first one a store may move to other places of the web, and to nothing else. */
  learn(origins: readonly string[]): void {
    for (const origin of origins.slice(0, originsMax)) {
      const url = URL.canParse(origin) ? new URL(origin) : undefined;
      if (url === undefined || this.#told.size >= originsMax) continue;
      if (!this.#joined || url.protocol === "https:") this.#told.add(originOf(url));
    }
    this.#joined = true;
  }

  /**
   * Where to call for a blob. What orchestrators serve themselves is a path at the one that was asked, who proves its key
   * again. Fails with `permission_denied` for an address or a header that a blob store has no use for.
   */
  place({ url, headers }: BlobAddress, orchestrator: string): BlobAddress {
    if (!url.startsWith(ownPath)) {
      this.check({ url, headers });
      return { url, headers };
    }
    const { host, port, key } = parseAddress(orchestrator);
    const whole = { url: `${key === undefined ? "http" : "https"}://${formatAddress(host, port)}${url}`, headers: {} };
    if (key === undefined) return whole;
    // Behind a proxy that ends TLS nobody can show the orchestrator's key.
    return orchestrator.startsWith("wss://") ? { ...whole, key, orWeb: true } : { ...whole, key };
  }

  check({ url, headers }: BlobAddress): void {
    const parsed = URL.canParse(url) ? new URL(url) : fail("permission_denied", "a blob's address is not a URL");
    if (!this.#isKnown(parsed))
      fail(
        "permission_denied",
        `the address ${originOf(parsed)} for a blob belongs to no orchestrator and was not told at registration: it is not called`,
      );
    for (const [name, value] of Object.entries(headers))
      if (!headersAllowed.has(name.toLowerCase()) || !valuePattern.test(value))
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
}

function originOf(url: URL): string {
  return `${url.protocol}//${url.host}`;
}

function originOfAddress(address: string): string | undefined {
  const url = `${baseUrl(address)}/`;
  return URL.canParse(url) ? originOf(new URL(url)) : undefined;
}
