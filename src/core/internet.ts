// Which internet addresses are public. Whoever fetches for others connects to these only, so that nobody can have a
// machine call into its own network by naming an address, a host name or a redirect that leads there.

import { isIP } from "node:net";

/** IPv4 blocks that are not public: this network, private, shared, loopback, link-local, documentation, multicast, reserved. */
const closedBlocks: readonly [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];

export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return isPublicV4(address);
    case 6:
      return isPublicV6(address);
    default:
      return false;
  }
}

function numberOfV4(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

function isPublicV4(address: string): boolean {
  const value = numberOfV4(address);
  return !closedBlocks.some(([base, bits]) => {
    const size = 2 ** (32 - bits);
    return Math.floor(value / size) === Math.floor(numberOfV4(base) / size);
  });
}

/**
 * Global unicast is 2000::/3. Everything else (loopback, mapped IPv4, unique local, link-local, multicast) is
 * closed, and so are the parts of it that carry an IPv4 address inside or are for documentation.
 */
function isPublicV6(address: string): boolean {
  const [first = 0, second = 0] = leadingGroups(address);
  if ((first & 0xe000) !== 0x2000) return false;
  const special = first === 0x2001 && (second < 0x0200 || second === 0x0db8);
  return !special && first !== 0x2002 && first !== 0x3fff;
}

/** The first two groups of an IPv6 address. A zone ("%eth0") belongs to link-local ones, which are closed anyway. */
function leadingGroups(address: string): number[] {
  const [head = ""] = address.split("::");
  return head.split(":").map((group) => Number.parseInt(group || "0", 16));
}
