// Finding a network's orchestrators on the local network: by multicast DNS (_dcnr._tcp) and, where routers drop multicasts, by
// the same question as a broadcast. An answer is a hint, no more: whoever gives it still has to prove its key.

import { createSocket, type Socket } from "node:dgram";
import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import type { KeyId } from "../../core/ids.ts";
import { isKeyId } from "../../core/keys.ts";
import { sleep, type World } from "../../core/world.ts";
import { parseNetwork } from "../../protocol/routes/reach.ts";
import { ownNetworks } from "../machine/own-address.ts";
import { type DnsMessage, type DnsRecord, dnsTypes, formatDns, parseDns } from "./dns-message.ts";

const serviceName = "_dcnr._tcp.local";
const multicastAddress = "224.0.0.251";
const multicastPort = 5353;
/** Beside the port on which orchestrators listen by default, for UDP. */
export const broadcastPort = 7_700;
const ttlSeconds = 60;
const answersPerSecondMax = 20;
const foundMax = 64;

export interface LanService {
  readonly port: number;
  readonly key: KeyId;
  /** For people. */
  readonly name: string;
}

export interface FoundOnLan extends LanService {
  /** From which the answer came. */
  readonly host: string;
}

export function questionBytes(id: number): Uint8Array {
  return formatDns({ id, isAnswer: false, questions: [{ name: serviceName, type: dnsTypes.PTR }], records: [] });
}

export function isQuestion(message: DnsMessage): boolean {
  const isOurs = ({ name, type }: DnsMessage["questions"][number]) =>
    name === serviceName && (type === dnsTypes.PTR || type === dnsTypes.ANY);
  return !message.isAnswer && message.questions.some(isOurs);
}

export function answerBytes(id: number, { port, key, name }: LanService): Uint8Array {
  const label = `${name.replace(/[^A-Za-z0-9-]/g, "-").slice(0, 40)}-${key.slice(0, 10)}`;
  const instance = `${label}.${serviceName}`;
  const records: DnsRecord[] = [
    { name: serviceName, type: dnsTypes.PTR, ttlSeconds, target: instance },
    { name: instance, type: dnsTypes.SRV, ttlSeconds, port, target: `${label}.local` },
    { name: instance, type: dnsTypes.TXT, ttlSeconds, texts: [`key=${key}`, `name=${name.slice(0, 60)}`] },
  ];
  return formatDns({ id, isAnswer: true, questions: [], records });
}

/** Undefined for an answer to something else. */
export function serviceIn({ isAnswer, records }: DnsMessage): LanService | undefined {
  if (!isAnswer) return undefined;
  const instance = records.find(({ name, type }) => name === serviceName && type === dnsTypes.PTR)?.target;
  const port = records.find(({ name, type }) => name === instance && type === dnsTypes.SRV)?.port;
  const texts = records.find(({ name, type }) => name === instance && type === dnsTypes.TXT)?.texts ?? [];
  const textOf = (field: string) => texts.find((text) => text.startsWith(`${field}=`))?.slice(field.length + 1) ?? "";
  const key = textOf("key");
  if (!port || !isKeyId(key)) return undefined;
  return {
    port,
    key,
    name: textOf("name")
      .replace(/[^\x20-\x7e]/g, "?")
      .slice(0, 60),
  };
}

/** Answers those who ask on the networks of this machine, until it is closed. What cannot be bound is left out. */
export async function answerOnLan(service: LanService, world: World): Promise<{ close(): void }> {
  let budget = answersPerSecondMax;
  const near = nearby();
  const hear =
    (socket: Socket) =>
    (bytes: Uint8Array, { address, port }: { address: string; port: number }) => {
      if (isIP(address) === 0 || !near.check(address, isIP(address) === 6 ? "ipv6" : "ipv4") || budget <= 0) return;
      const message = parseDns(bytes);
      if (message === undefined || !isQuestion(message)) return;
      budget -= 1;
      world.timers.after(1_000, () => {
        budget += 1;
      });
      socket.send(answerBytes(message.id, service), port, address, () => {});
    };
  const multicast = await bound(multicastPort, hear);
  for (const address of multicast ? ownAddresses() : [])
    try {
      multicast?.addMembership(multicastAddress, address);
    } catch {
      // An interface without multicast: broadcasts reach it.
    }
  const broadcast = await bound(broadcastPort, hear);
  return {
    close: () => {
      multicast?.close();
      broadcast?.close();
    },
  };
}

/** Asks, and gives back who answered within the time, each place once. */
export async function askOnLan(world: World, waitMs: number): Promise<FoundOnLan[]> {
  const found = new Map<string, FoundOnLan>();
  const near = nearby();
  const id = ((world.chance.bytes(1)[0] as number) << 8) | (world.chance.bytes(1)[0] as number);
  const hear =
    () =>
    (bytes: Uint8Array, { address }: { address: string }) => {
      const message = parseDns(bytes);
      const service = message?.id === id ? serviceIn(message) : undefined;
      if (service === undefined || found.size >= foundMax || !near.check(address)) return;
      found.set(`${address}:${service.port}`, { ...service, host: address });
    };
  const sockets: Socket[] = [];
  for (const address of ownAddresses()) {
    const socket = await bound(0, hear, address);
    if (socket === undefined) continue;
    sockets.push(socket);
    socket.setBroadcast(true);
    socket.setMulticastInterface(address);
  }
  // Twice, since nobody repeats a datagram that is lost.
  for (let turn = 0; turn < 2; turn++) {
    for (const socket of sockets) {
      socket.send(questionBytes(id), multicastPort, multicastAddress, () => {});
      socket.send(questionBytes(id), broadcastPort, "255.255.255.255", () => {});
    }
    await sleep(world.timers, waitMs / 2);
  }
  for (const socket of sockets) socket.close();
  return [...found.values()];
}

type Hear = (socket: Socket) => (bytes: Uint8Array, from: { address: string; port: number }) => void;

function bound(port: number, hear: Hear, address?: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket({ type: "udp4", reuseAddr: port !== 0 });
    socket.once("error", () => {
      socket.close();
      resolve(undefined);
    });
    socket.bind(port, address, () => {
      socket.removeAllListeners("error");
      // A datagram that could not be sent is like one that was lost.
      socket.on("error", () => {});
      socket.on("message", hear(socket));
      socket.unref();
      resolve(socket);
    });
  });
}

function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.filter(({ family, internal }) => family === "IPv4" && !internal).map(({ address }) => address);
}

/** Others cannot use this machine's answers to flood somebody far away. */
function nearby(): BlockList {
  const list = new BlockList();
  for (const network of ownNetworks()) {
    const { base, bits } = parseNetwork(network);
    if (isIP(base) === 4 && !base.startsWith("127.")) list.addSubnet(base, bits, "ipv4");
  }
  return list;
}
