// What a relay costs: CPU seconds per GB of sender, relay and receiver, each a process of its own, beside a direct connection; and the same over
// WebSockets and sealed lines, as tabs of browsers have them.

import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { SideAnswer, SideOrder } from "./relay-side.ts";
import { median } from "./side.ts";

interface Way {
  readonly what: string;
  readonly relayed: boolean;
  /** Which ends have nothing but WebSockets. */
  readonly sender?: "tab";
  readonly receiver?: "tab";
}

const ways: readonly Way[] = [
  { what: "direct: TLS and HTTP/2", relayed: false },
  { what: "relayed: TLS and HTTP/2 inside", relayed: true },
  { what: "direct over a WebSocket, sealed", relayed: false, sender: "tab" },
  { what: "relayed between two tabs, sealed twice", relayed: true, sender: "tab", receiver: "tab" },
];

const megabytes = 256;

class Side {
  readonly #process: ChildProcess = fork(join(import.meta.dirname, "relay-side.ts"));

  ask(order: SideOrder): Promise<SideAnswer> {
    return new Promise((resolve) => {
      this.#process.once("message", resolve);
      this.#process.send(order);
    });
  }

  async address(order: SideOrder): Promise<string> {
    const answer = await this.ask(order);
    return "address" in answer ? answer.address : "";
  }

  /** Since it was last asked. */
  async cpuSeconds(): Promise<number> {
    const answer = await this.ask({ kind: "cpu" });
    return "cpuSeconds" in answer ? answer.cpuSeconds : 0;
  }

  end(): void {
    this.#process.kill();
  }
}

interface Cost {
  readonly sender: number;
  readonly relay: number;
  readonly receiver: number;
}

async function costOf({ relayed, sender, receiver }: Way): Promise<Cost> {
  const sides = { sender: new Side(), relay: new Side(), receiver: new Side() };
  try {
    const relay = relayed ? { relay: await sides.relay.address({ kind: "relay" }) } : {};
    const to = await sides.receiver.address({ kind: "receive", ...relay, tab: receiver === "tab" });
    const send = (bytes: number) => sides.sender.ask({ kind: "send", to, bytes, tab: sender === "tab" });
    const all = async () => ({
      sender: await sides.sender.cpuSeconds(),
      relay: relayed ? await sides.relay.cpuSeconds() : 0,
      receiver: await sides.receiver.cpuSeconds(),
    });
    // What is compiled when it first runs is not counted.
    await send(64 << 20);
    await all();
    await send(megabytes << 20);
    return await all();
  } finally {
    for (const side of Object.values(sides)) side.end();
  }
}

export async function relayReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const turns = args.includes("--quick") ? 1 : 5;
  const measured = new Map<string, Cost[]>();
  for (let turn = 0; turn < turns; turn++)
    for (const way of ways) {
      const cost = await costOf(way);
      log(`${way.what}: ${JSON.stringify(cost)}`);
      measured.set(way.what, [...(measured.get(way.what) ?? []), cost]);
    }
  const perGb = (seconds: number) => (seconds / (megabytes / 1_024)).toFixed(2);
  const rows = ways.map(({ what, relayed }) => {
    const of = (part: keyof Cost) => perGb(median((measured.get(what) ?? []).map((cost) => cost[part])));
    return `| ${what} | ${of("sender")} | ${relayed ? of("relay") : ""} | ${of("receiver")} |`;
  });
  return [
    `CPU seconds per GB, each end a process of its own on loopback; ${megabytes} MB in chunks of 1 MB, median of ${turns} ${turns === 1 ? "turn" : "turns"}.`,
    "",
    "| way | sender | relay | receiver |",
    "|---|---:|---:|---:|",
    ...rows,
  ].join("\n");
}
