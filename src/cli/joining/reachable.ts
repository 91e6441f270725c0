// What a process that listens on all interfaces tells others to call: nobody can call "0.0.0.0".

import { formatAddress, isLoopback, isUnspecified, parseAddress } from "../../protocol/routes/address.ts";
import { type Family, outwardAddress, sourceAddress } from "../../system/machine/own-address.ts";

/**
 * Where a server bound to `bound` is reached by those who share a network with `towards`, or else by other machines;
 * on a machine without any network, by itself.
 */
export async function reachableAddress(bound: string, towards?: string): Promise<string> {
  const { host, port } = parseAddress(bound);
  if (!isUnspecified(host)) return bound;
  const families: Family[] = host.includes(":") ? [4, 6] : [4];
  if (towards !== undefined) {
    const target = parseAddress(towards, 443);
    for (const family of families) {
      const source = await sourceAddress(target, family);
      if (source !== undefined && !isLoopback(source) && !isUnspecified(source)) return formatAddress(source, port);
    }
  }
  return formatAddress(outwardAddress(families) ?? "127.0.0.1", port);
}
