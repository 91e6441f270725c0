// How many PNodes one orchestrator holds on one core: CPU time of a heartbeat with its acknowledgement, and memory
// of an attached PNode. Two ways: handlers alone over in-memory channels, and real HTTP/2 streams of other processes.

import { type ChildProcess, execFile, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { create } from "@bufbuild/protobuf";
import { silentLog, type World } from "../src/core/world.ts";
import { type Orchestrator, startOrchestrator } from "../src/orchestrator/orchestrator.ts";
import type { AttachRequest } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { AttachRequestSchema, PNodeService } from "../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import type { Channel, RequestInit, ServedService } from "../src/protocol/network.ts";
import { withKey } from "../src/protocol/routes/address.ts";
import { openMemoryBlobs, openMemoryStore } from "../src/store/memory.ts";
import { newIdentity } from "../src/system/keys.ts";
import { backgroundTimers } from "../src/system/timers.ts";

export interface HeartbeatBench {
  readonly path: "handlers" | "grpc";
  readonly pnodes: number;
  readonly kilobytesPerPNode: number;
  readonly microsecondsPerHeartbeat: number;
  /** At one heartbeat in 10 s. */
  readonly pnodesPerCore: number;
}

const intervalSeconds = 10;

const world: World = {
  clock: { wallMs: () => Date.now(), monotonicMs: () => performance.now() },
  timers: {
    after: (delayMs, callback) => {
      const timer = setTimeout(callback, delayMs);
      return () => clearTimeout(timer);
    },
  },
  chance: { bytes: (count) => crypto.getRandomValues(new Uint8Array(count)), uniform: () => Math.random() },
  log: silentLog,
};

/** Connections of one client process, which needs about as much memory for each as the orchestrator does. */
const connectionsPerProcess = 5_000;
/** For everything that is no PNode. */
const openFilesSpare = 200;

export async function runHeartbeatBench(
  pnodes = 20_000,
  grpcPNodes: readonly number[] = [2_000, 20_000],
): Promise<HeartbeatBench[]> {
  const results = [await benchHandlers(pnodes)];
  for (const one of grpcPNodes) results.push(await inOwnProcess(Math.min(one, openFilesMax() - openFilesSpare)));
  return results;
}

/** Memory that an earlier run has freed would hide what a later one takes. */
async function inOwnProcess(pnodes: number): Promise<HeartbeatBench> {
  const { stdout } = await promisify(execFile)(process.execPath, [import.meta.filename, "grpc", String(pnodes)]);
  return JSON.parse(stdout) as HeartbeatBench;
}

/** An orchestrator needs one open file for each PNode; where fewer are allowed, fewer PNodes are held. */
function openFilesMax(): number {
  if (process.platform !== "linux") return Number.POSITIVE_INFINITY;
  const [, , hard] = /Max open files +(\d+) +(\d+)/.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
  return Number(hard ?? Number.POSITIVE_INFINITY);
}

function registration(i: number): AttachRequest {
  return create(AttachRequestSchema, {
    event: {
      case: "register",
      value: {
        protocolMajor: 1,
        bits: 1,
        name: `pnode-${i}`,
        incarnation: `i${i}`,
        routes: [`10.0.0.1:${i}`],
        owner: `owner-${i}`,
        region: "eu",
        capabilities: {
          cpuModel: "Some Processor 5950X 16-Core",
          cores: 16,
          memoryBytes: 32n << 30n,
          architecture: "x64",
          platform: "linux",
          gflops: 900,
          numerics: [
            { engine: "native", class: "1.30/avx2" },
            { engine: "portable", class: "1.30" },
          ],
        },
      },
    },
  });
}

function heartbeat(sequence: number): AttachRequest {
  return create(AttachRequestSchema, {
    event: { case: "heartbeat", value: { sequence: BigInt(sequence), accepting: true, load: 0.5 } },
  });
}

/** The server's end of a stream, fed by hand. */
class HandFed {
  readonly #queue: AttachRequest[] = [];
  #wake: (() => void) | undefined;
  #closed = false;
  received = 0;
  readonly channel: Channel<unknown, AttachRequest> = {
    send: async () => void this.received++,
    incoming: this.#messages(),
    close: () => {
      this.#closed = true;
      this.#wake?.();
    },
  };

  feed(message: AttachRequest): void {
    this.#queue.push(message);
    this.#wake?.();
  }

  async *#messages(): AsyncGenerator<AttachRequest> {
    while (!this.#closed) {
      const next = this.#queue.shift();
      if (next) yield next;
      else
        await new Promise<void>((wake) => {
          this.#wake = wake;
        });
    }
  }
}

async function benchHandlers(pnodes: number): Promise<HeartbeatBench> {
  let services: readonly ServedService[] = [];
  const serve = async (address: string, served: readonly ServedService[]) => {
    services = served;
    return { address, close: async () => {} };
  };
  const orchestrator = await start({ serve } as never, "bench:1");
  const attach = services.find((one) => one.descriptor.typeName === PNodeService.typeName)?.handlers["attach"] as (
    channel: Channel<unknown, AttachRequest>,
    call: object,
  ) => Promise<void>;
  const before = memoryBytes();
  const streams = Array.from({ length: pnodes }, (_, i) => {
    const stream = new HandFed();
    const caller = { id: `pnode-${i}`, address: "bench" };
    void attach(stream.channel, { signal: new AbortController().signal, caller, header: () => undefined });
    stream.feed(registration(i));
    return stream;
  });
  await until(() => orchestrator.parts.registry.attachments.size === pnodes);
  const kilobytesPerPNode = (memoryBytes() - before) / pnodes / 1024;
  const result = await beat(async (sequence) => {
    for (const stream of streams) stream.feed(heartbeat(sequence));
    await until(() => streams.every((stream) => stream.received >= 2 + sequence));
  }, pnodes);
  await orchestrator.stop();
  return { path: "handlers", pnodes, kilobytesPerPNode: round(kilobytesPerPNode), ...result };
}

async function benchGrpc(pnodes: number): Promise<HeartbeatBench> {
  const identity = newIdentity();
  const network = openGrpcNetwork({ timers: backgroundTimers, identity });
  const orchestrator = await start(network, "127.0.0.1:0");
  const before = memoryBytes();
  const children: ChildProcess[] = [];
  for (let first = 0; first < pnodes; first += connectionsPerProcess) {
    const count = Math.min(connectionsPerProcess, pnodes - first);
    children.push(
      fork(import.meta.filename, ["client", withKey(orchestrator.address, identity.id), String(first), String(count)]),
    );
  }
  const { registry } = orchestrator.parts;
  await until(() => registry.attachments.size === pnodes);
  await pause(500);
  const kilobytesPerPNode = (memoryBytes() - before) / pnodes / 1024;
  const result = await beat(async () => {
    const sinceMs = performance.now();
    for (const child of children) child.send("beat");
    await until(() => Array.from(registry.attachments.values()).every((one) => one.standing.lastSeenMs >= sinceMs));
  }, pnodes);
  for (const child of children) child.kill();
  await orchestrator.stop();
  await network.close();
  return { path: "grpc", pnodes, kilobytesPerPNode: round(kilobytesPerPNode), ...result };
}

/** The other process: attaches many PNodes, each over a connection of its own, and beats when told to. */
async function client(address: string, first: number, count: number): Promise<void> {
  const channels: Channel<RequestInit<typeof PNodeService.method.attach>, unknown>[] = [];
  const attach = async (i: number): Promise<void> => {
    const network = openGrpcNetwork({ timers: backgroundTimers, identity: newIdentity() });
    // On a busy machine a connection may fail; the PNode tries again, as a real one does.
    for (;;) {
      const channel = network.open(address, PNodeService.method.attach);
      channels[i] = channel;
      try {
        await channel.send(registration(first + i));
        for await (const _ of channel.incoming);
      } catch {
        await pause(500);
      }
    }
  };
  for (let i = 0; i < count; i++) {
    void attach(i);
    if (i % 50 === 0) await pause(20);
  }
  let sequence = 0;
  process.on("message", () => {
    sequence++;
    for (const channel of channels) channel.send(heartbeat(sequence)).catch(() => {});
  });
}

async function start(
  network: Parameters<typeof startOrchestrator>[1]["network"],
  listen: string,
): Promise<Orchestrator> {
  return startOrchestrator(
    {
      listen,
      id: "bench",
      timings: { heartbeatIntervalMs: intervalSeconds * 1000, silentMs: 3_600_000, graceMs: 3_600_000 },
    },
    { world, network, store: openMemoryStore(), blobs: openMemoryBlobs() },
  );
}

async function beat(
  round: (sequence: number) => Promise<void>,
  pnodes: number,
): Promise<Pick<HeartbeatBench, "microsecondsPerHeartbeat" | "pnodesPerCore">> {
  const rounds = 5;
  await round(1);
  const began = process.cpuUsage();
  for (let i = 0; i < rounds; i++) await round(i + 2);
  const { user, system } = process.cpuUsage(began);
  const microseconds = (user + system) / (rounds * pnodes);
  return {
    microsecondsPerHeartbeat: Math.round(microseconds * 10) / 10,
    pnodesPerCore: Math.round((intervalSeconds * 1e6) / microseconds),
  };
}

/** Run with --expose-gc for figures without garbage. */
function memoryBytes(): number {
  (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  return (globalThis as { gc?: () => void }).gc ? heapUsed + external : rss;
}

async function until(finished: () => boolean): Promise<void> {
  while (!finished()) await pause(5);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

const [, script, role = "", ...rest] = process.argv;
if (role === "grpc") console.log(JSON.stringify(await benchGrpc(Number(rest[0]))));
else if (role === "client") await client(rest[0] as string, Number(rest[1]), Number(rest[2]));
else if (script?.endsWith("heartbeats.ts")) console.log(JSON.stringify(await runHeartbeatBench(), null, 2));
