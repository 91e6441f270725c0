// Puts a real PNode together: finds out what the machine is, opens workers when a session needs them, attaches.

import { rm } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { messageOf } from "../../core/errors.ts";
import { keyIdOf } from "../../core/keys.ts";
import type { World } from "../../core/world.ts";
import { openDiskCache } from "../../data/disk-cache.ts";
import type { EngineKind, Executor } from "../../engine/engine.ts";
import { shortClass } from "../../engine/fingerprint.ts";
import type { WorkerFiles } from "../../engine/pool/messages.ts";
import { SharePace } from "../../engine/pool/pace.ts";
import type { ExecutorOptions } from "../../engine/pool/pool.ts";
import { fastestFirst } from "../../engine/webgpu/speed.ts";
import { compiling } from "../../network/works.ts";
import type { PNodeDependencies } from "../../pnode/options.ts";
import { type PNode, startPNode } from "../../pnode/pnode.ts";
import type { Reach } from "../../protocol/routes/reach.ts";
import type { RelayLimits } from "../../relay/limits.ts";
import { digestAside, digestInSlices } from "../../system/digest.ts";
import { openKept } from "../../system/files/kept.ts";
import { keptFile } from "../../system/files/kept-file.ts";
import { openSpill } from "../../system/files/spill.ts";
import { verifySignature } from "../../system/keys.ts";
import { shrinkHeap } from "../../system/machine/garbage.ts";
import { findHardware, type HardwareFacts, readHealth } from "../../system/machine/hardware.ts";
import { ownCpuMs } from "../../system/machine/others-load.ts";
import { openAside } from "../../system/threads/aside.ts";
import { startPulse } from "../../system/threads/pulse.ts";
import { openHttpTransfer } from "../../system/wires/blob-transfer.ts";
import { monitorPNode } from "../monitoring/pnode.ts";
import { isConfined } from "./apart/confinement.ts";
import { Examinations } from "./examination.ts";
import { watchGpus } from "./gpu-readings.ts";
import { findLentGpus, type GpuLending, rememberedGpus } from "./lent-gpus.ts";
import type { LentWires } from "./lent-wires.ts";
import type { Measured } from "./measure-machine.ts";
import { rememberedMeasured, toldMeasured } from "./measured.ts";
import { Measuring } from "./measuring.ts";
import { softwareVersion } from "./software.ts";

export interface LentMachine {
  /** Lets it join a network that is not open to everybody. */
  readonly invite?: string;
  /** With the network's key. */
  readonly orchestrators: readonly string[];
  /** What it may connect to. */
  readonly reach: Reach;
  /** It calls out over WebSockets alone. */
  readonly web?: boolean;
  /** Exists, and holds the machine's key. */
  readonly directory: string;
  readonly name: string;
  readonly owner: string;
  readonly listen: string;
  readonly advertise?: string;
  /** 0 means no limit, in all of these. */
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly gpus: GpuLending;
  readonly bandwidthBytesPerSecond: number;
  /** It relays for others, within these. */
  readonly relay?: RelayLimits;
  readonly hours: string;
  readonly region: string;
  readonly provider: string;
  readonly pricePerHour: number;
  /** Where traces go, if not by the environment. */
  readonly otlp?: string;
}

export interface StartedPNode {
  readonly pnode: PNode;
  readonly hardware: HardwareFacts;
  /** Lent, perhaps a part of one; and the threads that share them. */
  readonly cpus: number;
  readonly workers: number;
  readonly gflops: number;
  close(): Promise<void>;
}

const shardCacheBytesDefault = 2e9;

/**
 * Messages lie outside of the JavaScript heap, some 20 MB of them come and go in a step. By default every 30 MB or so
 * make V8 mark the whole heap, which took a third of a PNode's CPU time; counted with the heap they do so ten times
 * less often, and memory still has its bound.
 */
const gentleCollection = "--external-memory-accounted-in-global-limit";

/** One that is put to work: how it talks to others, and to whom it goes. */
export interface LentNow extends LentMachine {
  readonly wires: LentWires;
}

/** What the owner's side wants to know and to say. */
export type OwnerHooks = Required<Pick<PNodeDependencies, "lends" | "onWork">>;

export async function startRealPNode(machine: LentNow, outer: World, owner: OwnerHooks): Promise<StartedPNode> {
  setFlagsFromString(gentleCollection);
  const { wires } = machine;
  const { network, gate } = wires;
  const monitoring = monitorPNode(outer, network.id ?? "", machine.name, machine.otlp, wires.postTraces);
  const { world } = monitoring;
  const found = await findHardware(machine.directory);
  const lent = isConfined()
    ? ((await rememberedGpus(machine.directory).get()) ?? { gpus: [] })
    : await findLentGpus(machine.directory, machine.gpus);
  const hardware = { ...found, gpus: lent.gpus };
  const without = lent.cuda === undefined ? "its GPUs compute nothing" : "its GPUs compute by CUDA alone";
  if (lent.trouble !== undefined) world.log("warn", `${without}: ${lent.trouble}`);
  if (lent.cudaTrouble !== undefined) world.log("warn", lent.cudaTrouble);
  const onGpus = new Map<string, string>();
  if (lent.class !== undefined) onGpus.set("webgpu", lent.class);
  if (lent.cuda !== undefined) onGpus.set("cuda", lent.cuda);
  const cpus = machine.cpus || Math.max(1, Math.floor(hardware.cores));
  const withGpus = ({ classes, gflops }: Measured): Measured["classes"] =>
    fastestFirst(
      classes.filter(({ engine }) => engine !== "exact" || !lent.exact || onGpus.has("webgpu")),
      Array.from(onGpus, ([engine, own]) => ({ engine, class: own })),
      onGpus.has("webgpu") ? (lent.gflops ?? 0) : 0,
      gflops * cpus,
    );
  const workers = Math.ceil(cpus);
  // Whole cores need none: as many threads use no more.
  const pace = cpus === workers ? undefined : new SharePace({ ...world, cpus, usedMs: ownCpuMs });
  const files = await filesOf(machine);
  const executors = new Map<EngineKind, Promise<Executor>>();
  let whenLost: (reason: string) => void = () => {};
  let whenOther: (tried: string, engine: EngineKind) => void = () => {};
  const onLost = (reason: string) => whenLost(reason);
  const aside = openAside();
  const executorFor = (kind: EngineKind): Promise<Executor> => {
    // Whoever computes may have to take over what others do: that waits for the thread that compiles, whose start is half a second of CPU.
    if (executors.size === 0) void aside.keepReady(compiling);
    const chosen = kind === "exact" && lent.exact ? "exact-webgpu" : kind;
    const open =
      executors.get(kind) ??
      openWorkers({ kind: chosen, workers: kind === "cuda" ? 1 : workers, onLost, files, ...(pace && { pace }) });
    executors.set(kind, open);
    return open;
  };
  const measuring = new Measuring(rememberedMeasured(machine.directory, hardware), hardware.cores, world);
  const measured = await measuring.atOnce(toldMeasured(process.env, hardware));
  const passedMsAgo = await new Examinations(machine.directory).passedMsAgo(world.clock.wallMs());
  const startedMs = world.clock.monotonicMs();
  const gpus = watchGpus(hardware.gpus.length, world);
  monitoring.watchGpus(() => gpus.now.map((reading, i) => ({ ...reading, model: hardware.gpus[i]?.model ?? "" })));
  const pnode = await startPNode(
    {
      name: machine.name,
      software: softwareVersion(),
      orchestrators: machine.orchestrators,
      listen: machine.listen,
      ...(machine.invite ? { invite: machine.invite } : {}),
      ...(machine.advertise ? { advertise: machine.advertise } : {}),
      examinedMsAgo: () => passedMsAgo && passedMsAgo + world.clock.monotonicMs() - startedMs,
      ...(machine.relay ? { relay: machine.relay } : {}),
      owner: machine.owner,
      region: machine.region,
      provider: machine.provider,
      pricePerHour: machine.pricePerHour,
      limits: {
        cpus,
        memoryBytes: BigInt(machine.memoryBytes),
        diskBytes: BigInt(machine.diskBytes),
        bandwidthBytesPerSecond: BigInt(machine.bandwidthBytesPerSecond),
        hours: machine.hours,
      },
      capabilities: {
        cpuModel: hardware.cpuModel,
        cores: Math.max(1, Math.floor(hardware.cores)),
        memoryBytes: BigInt(Math.floor(hardware.memoryBytes)),
        diskBytes: BigInt(Math.floor(hardware.diskBytes)),
        architecture: hardware.architecture,
        platform: hardware.platform,
        gpus: hardware.gpus.map((gpu) => ({ ...gpu, memoryBytes: BigInt(gpu.memoryBytes) })),
        gflops: measured.gflops * cpus,
        numerics: [...withGpus(measured)],
      },
    },
    {
      world,
      network,
      executorFor,
      signing: wires.signing,
      http: monitoring.http,
      membership: {
        identity: wires.identity,
        keys: { verify: verifySignature, idOf: keyIdOf },
        file: keptFile(join(machine.directory, "members.bin")),
      },
      onOtherBits: (tried, engine) => whenOther(tried, engine),
      onWork: (work) => {
        monitoring.onWork(work);
        // A call's rests are not computing.
        owner.onWork({ ...work, durationMs: work.durationMs * (cpus / workers) });
      },
      lends: owner.lends,
      blobs: openHttpTransfer({
        ...(gate ? { gate } : { reach: machine.reach }),
        ...(network.keys && { keys: network.keys }),
      }),
      digest: digestAside,
      digestReceived: digestInSlices,
      aside,
      pulse: startPulse(world.clock, gate ? undefined : machine.reach, machine.web, gate),
      spill: await openSpill(machine.directory, (machine.diskBytes * 3) / 8 || undefined),
      kept: await openKept(machine.directory, machine.diskBytes / 4 || undefined),
      verify: verifySignature,
      cache: await openDiskCache({
        folder: join(machine.directory, "shards"),
        // Half of what is lent is for what does not fit into memory: messages, states, tables of served models. The rest is for states of others.
        bytesMax: machine.diskBytes / 4 || shardCacheBytesDefault,
        clock: world.clock,
      }),
      reachable: (bound, towards) => wires.located(bound, towards),
      localHour: () => new Date(world.clock.wallMs()).getHours(),
      tidy: shrinkHeap,
      measure: () => {
        const { temperatureCelsius } = readHealth();
        return {
          load: Math.min(1, (loadavg()[0] ?? 0) / hardware.cores),
          memoryUsedBytes: process.memoryUsage.rss(),
          ...(temperatureCelsius ? { temperatureCelsius } : {}),
          gpus: gpus.now,
        };
      },
    },
  );
  monitoring.watch(pnode);
  const tell = (found: Measured) => pnode.measured(found.gflops * cpus, withGpus(found));
  measuring.onMeasured(tell);
  whenLost = (reason) => {
    onGpus.clear();
    world.log("warn", `${reason}. Its VNodes are handed back; start this PNode again to lend the GPU`);
    tell(measuring.last ?? measured);
  };
  whenOther = (tried, engine) => {
    const before = onGpus.get(engine);
    if (before === undefined) return;
    const own = shortClass(engine, [before, tried]);
    onGpus.set(engine, own);
    world.log("warn", `its GPU gives other bits than others of the class ${before}: it is of the class ${own} now`);
    tell(measuring.last ?? measured);
  };
  // Nobody waits for it: until it is known, placement assumes a usual line.
  void pnode.attached
    .then(() => pnode.measureLine())
    .catch((error: unknown) => world.log("debug", `the line could not be measured: ${messageOf(error)}`));
  const close = async () => {
    measuring.stop();
    gpus.stop();
    await monitoring.close();
    await aside.close();
    await Promise.all([...executors.values()].map(async (executor) => (await executor).close()));
  };
  return { pnode, hardware, cpus, workers, gflops: measured.gflops * cpus, close };
}

/** For weights of served models that need not lie in memory. What is there belongs to a process that is gone. */
async function filesOf({ directory, diskBytes }: LentMachine): Promise<WorkerFiles> {
  const folder = join(directory, "weights");
  await rm(folder, { recursive: true, force: true });
  return { folder, bytesMax: diskBytes / 8 || Number.POSITIVE_INFINITY };
}

/** Loaded with the first session: a PNode that waits for work needs no engine. */
async function openWorkers(options: ExecutorOptions): Promise<Executor> {
  const { openExecutor } = await import("../../engine/pool/threads.ts");
  return openExecutor(options);
}
