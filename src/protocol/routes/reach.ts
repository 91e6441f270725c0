// Where a machine that is lent connects to: public addresses, and of the private ones those networks that its owner has
// named, by an orchestrator in them or outright. Orchestrators and peers say where to call, so without this a lent machine
// would be a door into its owner's home. Names are judged by the numbers they lead to, at the moment of connecting.

import { type LookupAddress, lookup } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { DcnrError, fail } from "../../core/errors.ts";
import { isPublicAddress } from "../../core/internet.ts";
import { isLoopback, isUnspecified, parseAddress } from "./address.ts";

/** The network around a private address that its owner has named: as large as homes and clusters usually have them. */
const networkBits = { 4: 16, 6: 48 } as const;

/** Machines find their own settings and keys there: open only to whoever is named by exactly this address. */
const exactOnly = new BlockList();
exactOnly.addSubnet("169.254.0.0", 16, "ipv4");
exactOnly.addSubnet("fe80::", 10, "ipv6");
exactOnly.addAddress("100.100.100.200", "ipv4");
exactOnly.addAddress("fd00:ec2::254", "ipv6");

export type Resolve = (host: string, found: (error: Error | null, addresses: readonly LookupAddress[]) => void) => void;

export class Reach {
  readonly #named: ReadonlySet<string>;
  readonly #settled = new Set<string>();
  readonly #open = new BlockList();
  readonly #networks = new Set<string>();
  readonly #resolve: Resolve;

  /** `named`: addresses of orchestrators as the owner wrote them; `networks`: such as "192.168.0.0/16". */
  constructor(named: readonly string[], networks: readonly string[] = [], resolve: Resolve = bySystem) {
    this.#resolve = resolve;
    this.#named = new Set(named.map((address) => bare(parseAddress(address, 0).host)));
    for (const network of networks) this.#add(network);
    for (const host of this.#named) if (isIP(host) !== 0) this.#settle(host, [host]);
  }

  /** What is open besides public addresses, as far as it is known by now. */
  get networks(): readonly string[] {
    return [...this.#networks];
  }

  allows(address: string): boolean {
    if (isPublicAddress(address)) return true;
    const number = withoutZone(address);
    if (exactOnly.check(number, familyOf(number))) return this.#networks.has(alone(number));
    return this.#open.check(number, familyOf(number));
  }

  /** Refuses a number that must not be called. A name passes: `lookup` judges what it leads to. */
  check(host: string): void {
    const address = bare(host);
    if (isIP(address) !== 0 && !this.allows(address)) throw refusal(address);
  }

  /** For sockets: finds out what a name leads to, and refuses it if any of it must not be called. */
  readonly lookup: LookupFunction = (host, options, callback) => {
    this.#resolve(host, (error, found) => {
      try {
        if (error !== null) throw error;
        const family = options.family === "IPv4" ? 4 : options.family === "IPv6" ? 6 : (options.family ?? 0);
        const addresses = found.filter((one) => family === 0 || one.family === family);
        const [first] = addresses;
        if (first === undefined) fail("unavailable", `${host} has no address`);
        const numbers = addresses.map(({ address }) => address);
        if (this.#named.has(host)) this.#settle(host, numbers);
        for (const address of numbers) if (!this.allows(address)) throw refusal(`${host}, which leads to ${address}`);
        if (options.all) callback(null, [...addresses]);
        else callback(null, first.address, first.family);
      } catch (thrown) {
        callback(thrown as NodeJS.ErrnoException, "", 0);
      }
    });
  };

  /** Once: a name that led to the internet when it was first asked opens nothing by leading elsewhere later. */
  #settle(host: string, addresses: readonly string[]): void {
    if (this.#settled.has(host)) return;
    this.#settled.add(host);
    for (const address of addresses)
      if (!isPublicAddress(address)) for (const network of around(withoutZone(address))) this.#add(network);
  }

  #add(network: string): void {
    const { base, bits } = parseNetwork(network);
    this.#open.addSubnet(base, bits, familyOf(base));
    this.#networks.add(network);
  }
}

/** Fails for anything but an address with the number of its leading bits behind a slash. */
export function parseNetwork(text: string): { readonly base: string; readonly bits: number } {
  const [base = "", bitsText = ""] = text.split("/");
  const bits = Number(bitsText);
  const bitsMax = isIP(base) === 6 ? 128 : 32;
  if (isIP(base) === 0 || !/^\d{1,3}$/.test(bitsText) || bits > bitsMax)
    fail("invalid_argument", `"${text}" is not a network: write it like 192.168.0.0/16 or fd12:3456:789a::/48`);
  return { base, bits };
}

function around(address: string): readonly string[] {
  if (isLoopback(address) || isUnspecified(address)) return ["127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128"];
  if (exactOnly.check(address, familyOf(address))) return [alone(address)];
  return [`${address}/${networkBits[isIP(address) === 6 ? 6 : 4]}`];
}

function alone(address: string): string {
  return `${address}/${isIP(address) === 6 ? 128 : 32}`;
}

/** "fe80::1%eth0" is "fe80::1" on one of the machine's interfaces. */
function withoutZone(address: string): string {
  return address.split("%", 1)[0] as string;
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}

function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "");
}

/** Final here; whoever has another address to try may. */
function refusal(what: string): DcnrError {
  const message = `${what} is a private address that this machine's owner did not name: it is not called (--reach opens a network)`;
  return new DcnrError("permission_denied", message, { outlook: "elsewhere" });
}

const bySystem: Resolve = (host, found) => lookup(host, { all: true }, (error, addresses) => found(error, addresses));
