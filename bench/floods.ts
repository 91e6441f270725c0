// What a thousand hostile connections cost honest callers of an orchestrator: how long a heartbeat waits for its
// acknowledgement and a call for its answer, calm and flooded in turns, and how much the orchestrator computes for it. The second
// is CPU time, which neighbours on the machine do not lengthen: an honest caller waits for what is computed before its turn.
// Orchestrator, attackers and honest callers are processes of their own; the attackers come from other addresses of loopback.

import { type ChildProcess, fork } from "node:child_process";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { bits } from "../src/core/bits.ts";
import { startOrchestrator } from "../src/orchestrator/orchestrator.ts";
import { PNodeService } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { SystemService } from "../src/protocol/gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import { parseAddress, withKey } from "../src/protocol/routes/address.ts";
import { openMemoryBlobs, openMemoryStore } from "../src/store/memory.ts";
import { newIdentity } from "../src/system/keys.ts";
import { backgroundTimers } from "../src/system/timers.ts";
import { realWorld } from "../src/system/world.ts";
import { median } from "./side.ts";

const connections = 1_000;
/** `npm run bench -- floods 7 300`: turns, and heartbeats in each. */
const turnsUsual = 7;
const beatsUsual = 300;
const pauseMs = 5;

interface Waits {
  readonly heartbeatMs: number;
  readonly callMs: number;
  /** CPU time of the orchestrator's thread in one turn of its loop, the 99th of a hundred, and the most. */
  readonly turnMs: number;
  readonly turnMsMost: number;
  /** CPU time of the orchestrator for a heartbeat and a call, all else that it did meanwhile included. */
  readonly beatMs: number;
}

interface Computed {
  readonly turnMs: number;
  readonly turnMsMost: number;
  readonly cpuMs: number;
}

const [, , role, place = ""] = process.argv;
if (process.send && role === "orchestrator") await serve();
if (process.send && role === "attackers") attack(place);

async function serve(): Promise<void> {
  const world = realWorld({ logFormat: "none" });
  const identity = newIdentity();
  let url = "";
  const orchestrator = await startOrchestrator(
    { listen: "127.0.0.1:0", trustLoopback: false },
    {
      world,
      network: openGrpcNetwork({ timers: backgroundTimers, identity }),
      store: openMemoryStore(),
      blobs: openMemoryBlobs({ baseUrl: () => url, clock: world.clock }),
    },
  );
  url = `http://${orchestrator.address}`;
  process.send?.(withKey(orchestrator.address, identity.id));
  const threadMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  let turnsMs: number[] = [];
  let fromMs = threadMs();
  process.on("message", () => {
    const sorted = turnsMs.sort((a, b) => a - b);
    const computed: Computed = { turnMs: late(sorted), turnMsMost: sorted.at(-1) ?? 0, cpuMs: threadMs() - fromMs };
    turnsMs = [];
    fromMs = threadMs();
    process.send?.(computed);
  });
  // Whatever comes between two looks at once is what somebody who comes with it waits for.
  for (;;) {
    const beganMs = threadMs();
    await new Promise((resolve) => setImmediate(resolve));
    turnsMs.push(threadMs() - beganMs);
    await sleep(1);
  }
}

/** A quarter each: says nothing, begins a TLS greeting, sends headers byte by byte, begins a message and never ends it. */
function attack(address: string): void {
  const { host, port } = parseAddress(address);
  const first = [
    "",
    "\u0016\u0003\u0001\u0002",
    "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  ];
  let isOn = false;
  const sockets = new Set<Socket>();
  const open = (index: number) => {
    if (!isOn) return;
    const socket = connect({ host, port, localAddress: `127.0.0.${2 + (index % 100)}` });
    sockets.add(socket);
    socket.on("connect", () => socket.write(first[index % first.length] as string, "latin1"));
    socket.on("error", () => {});
    socket.resume();
    // Whoever is thrown out comes back a little later, for as long as the flood lasts.
    socket.on("close", () => {
      sockets.delete(socket);
      setTimeout(() => open(index), 500);
    });
  };
  setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write("x");
  }, 1_000);
  process.on("message", (wanted: boolean) => {
    isOn = wanted;
    if (!isOn) for (const socket of sockets) socket.destroy();
    else for (let index = 0; index < connections; index++) setTimeout(() => open(index), index);
    setTimeout(() => process.send?.(sockets.size), 1_500);
  });
}

const heard = (child: ChildProcess) => new Promise<unknown>((resolve) => child.once("message", resolve));

async function computedBy(orchestrator: ChildProcess): Promise<Computed> {
  const answer = heard(orchestrator);
  orchestrator.send(true);
  return (await answer) as Computed;
}

async function measured(address: string, orchestrator: ChildProcess, beats: number): Promise<Waits> {
  const network = openGrpcNetwork({ timers: backgroundTimers, identity: newIdentity() });
  // On a machine with much other work the first connection may take longer than callers wait: it is tried again, as they do.
  for (let isUp = false; !isUp; )
    isUp = await network.call(address, SystemService.method.getVersion, {}, { timeoutMs: 20_000 }).then(
      () => true,
      () => false,
    );
  const channel = network.open(address, PNodeService.method.attach);
  const capabilities = { cores: 1, memoryBytes: 1n << 30n, gflops: 1, numerics: [] };
  const register = { protocolMajor: 1, bits, name: "honest", incarnation: "1", routes: ["127.0.0.1:9"], capabilities };
  await channel.send({ event: { case: "register", value: register } });
  const messages = channel.incoming[Symbol.asyncIterator]();
  const waits = { heartbeatMs: [] as number[], callMs: [] as number[] };
  await computedBy(orchestrator);
  for (let sequence = 1n; sequence <= beats; sequence++) {
    const beganMs = performance.now();
    await channel.send({ event: { case: "heartbeat", value: { sequence } } });
    for (;;) {
      const { value } = await messages.next();
      if (value?.event.case === "heartbeatAck" && value.event.value.sequence === sequence) break;
    }
    waits.heartbeatMs.push(performance.now() - beganMs);
    const askedMs = performance.now();
    await network.call(address, SystemService.method.getVersion, {}, { timeoutMs: 20_000 });
    waits.callMs.push(performance.now() - askedMs);
    await sleep(pauseMs);
  }
  const { cpuMs, ...turn } = await computedBy(orchestrator);
  channel.close();
  await network.close();
  return { heartbeatMs: late(waits.heartbeatMs), callMs: late(waits.callMs), beatMs: cpuMs / beats, ...turn };
}

/** The 99th of a hundred. */
function late(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(0.99 * values.length)] as number;
}

export async function floodsReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const [turns = turnsUsual, beats = beatsUsual] = args.map(Number);
  const orchestrator = fork(import.meta.filename, ["orchestrator"]);
  const address = (await heard(orchestrator)) as string;
  const attackers = fork(import.meta.filename, ["attackers", address]);
  const calm: Waits[] = [];
  const flooded: Waits[] = [];
  let open = 0;
  try {
    await measured(address, orchestrator, beats);
    for (let turn = 0; turn < turns; turn++) {
      calm.push(await measured(address, orchestrator, beats));
      attackers.send(true);
      open = Math.max(open, (await heard(attackers)) as number);
      flooded.push(await measured(address, orchestrator, beats));
      attackers.send(false);
      await heard(attackers);
      log(`turn ${turn + 1}: calm ${JSON.stringify(calm.at(-1))}, flooded ${JSON.stringify(flooded.at(-1))}`);
    }
  } finally {
    attackers.kill();
    orchestrator.kill();
  }
  const row = (what: string, of: keyof Waits) => {
    const [before, under] = [calm, flooded].map((all) => median(all.map((one) => one[of]))) as [number, number];
    return `| ${what} | ${before.toFixed(2)} ms | ${under.toFixed(2)} ms | ${(under / before).toFixed(2)} | <= 2 |`;
  };
  return [
    `${open} of ${connections} hostile connections from 100 addresses were open at once: silent ones, half a TLS greeting, headers byte by byte, half a ` +
      `message. Median of ${turns} turns of ${beats} heartbeats and calls each, calm and flooded in turns.`,
    "",
    "| what | calm | flooded | flooded / calm | target |",
    "|---|---|---|---|---|",
    row("a heartbeat and its acknowledgement, p99", "heartbeatMs"),
    row("a call (GetVersion), p99", "callMs"),
    row("CPU time of one turn of the orchestrator's loop, p99", "turnMs"),
    row("CPU time of one turn of the orchestrator's loop, most", "turnMsMost"),
    row("CPU time of the orchestrator's thread for a heartbeat and a call", "beatMs"),
  ].join("\n");
}
