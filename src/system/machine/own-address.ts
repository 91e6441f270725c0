// Under which internet address others reach this machine: the one from which it would call them. Asking the routing
// table for it sends nothing.

import { createSocket } from "node:dgram";
import { networkInterfaces } from "node:os";

export type Family = 4 | 6;

export interface Towards {
  readonly host: string;
  readonly port: number;
}

/** The source address of calls to somebody; undefined if there is no way there. */
export function sourceAddress(towards: Towards, family: Family): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(family === 6 ? "udp6" : "udp4");
    const end = (address?: string) => {
      socket.close();
      resolve(address);
    };
    socket.once("error", () => end());
    // A name that is not found, or no route, comes here and not as an event.
    socket.connect(towards.port, towards.host, ((error?: Error) => {
      end(error ? undefined : socket.address().address);
    }) as () => void);
  });
}

/** Of the machine's network interfaces, the first address that other machines could use. */
export function outwardAddress(families: readonly Family[]): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const usable = all.filter(({ internal, address }) => !internal && !/^(169\.254\.|fe80:)/i.test(address));
  for (const family of families) {
    const found = usable.find((one) => one.family === `IPv${family}`);
    if (found) return found.address;
  }
  return undefined;
}

/** The networks that this machine is part of, such as "192.168.1.20/24"; those of links without any network left out. */
export function ownNetworks(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.flatMap(({ cidr, address }) => (cidr === null || /^(169\.254\.|fe80:)/i.test(address) ? [] : [cidr]));
}
