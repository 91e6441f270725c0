// Puts the PNode of a page together: the same PNode as everywhere, in a browser's world. The counterpart of src/cli/machine/pnode-start.ts.

import { fail } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import { isKeyId } from "../core/keys.ts";
import { allocate } from "../core/tensor.ts";
import type { World } from "../core/world.ts";
import type { Executor } from "../engine/engine.ts";
import { shortClass } from "../engine/fingerprint.ts";
import { fastestFirst } from "../engine/webgpu/speed.ts";
import { GraphBuilder } from "../graph/builder.ts";
import type { PerformedWork } from "../pnode/options.ts";
import { type PNode, startPNode } from "../pnode/pnode.ts";
import { RightsService } from "../protocol/gen/dcnr/v1/rights_pb.ts";
import { SystemService } from "../protocol/gen/dcnr/v1/system_pb.ts";
import { withKey } from "../protocol/routes/address.ts";
import { routedNetwork } from "../protocol/routes/routed-network.ts";
import { openSocketNetwork } from "../protocol/socket/socket-network.ts";
import { openTabAside } from "./aside.ts";
import { openTabTransfer } from "./blobs.ts";
import { openTabExecutor } from "./engine.ts";
import { openTabCache, openTabSpill } from "./files.ts";
import { openTabGpu } from "./gpu.ts";
import { digestOfWeb, hashOfWeb } from "./hashing.ts";
import { loadTabIdentity, type TabIdentity } from "./identity.ts";
import type { TabScripts, TabWishes } from "./messages.ts";
import { startTabPulse } from "./pulse.ts";

export interface TabOptions {
  readonly world: World;
  readonly scripts: TabScripts;
  readonly wishes: TabWishes;
  readonly lends: () => boolean;
  readonly onWork: (work: PerformedWork) => void;
  /** Blobs lie at a host that pages cannot reach. */
  readonly onForeign: (host: string) => void;
  readonly doing: (what: string) => void;
}

export interface StartedTab {
  readonly pnode: PNode;
  readonly identity: TabIdentity;
  readonly gflops: number;
  /** Which GPU is lent now, or why none is. */
  readonly gpu: () => string;
}

/** A GPU holds weights, moments and activations once more, and what its programs work with: twice what is lent of memory is enough. */
const gpuShare = 2;

/** The orchestrator that served the page. */
function pageHost(): { readonly address: string; readonly origin: string; readonly secure: boolean } {
  const { protocol, hostname, port, origin } = location;
  const secure = protocol === "https:";
  return { address: `${hostname}:${port || (secure ? 443 : 80)}`, origin, secure };
}

/** One worker is enough to find out; sessions that want it open as many as are lent. */
async function exactClassOf(script: string): Promise<string> {
  const executor = await openTabExecutor(script, 1, "exact");
  try {
    return await executor.numericsClass();
  } finally {
    await executor.close();
  }
}

export async function startTabPNode(options: TabOptions): Promise<StartedTab> {
  const { world, scripts, wishes, doing } = options;
  const { address, origin, secure } = pageHost();
  doing("asks the orchestrator who it is");
  const { networkKey, software } = await introduce(address, secure, world);
  const identity = await loadTabIdentity();
  doing("starts its engine and measures it");
  const executor = await openTabExecutor(scripts.engine, wishes.cores);
  const numerics = await executor.numericsClass();
  const exact = await exactClassOf(scripts.engine);
  const gflops = (await speedOf(executor)) * wishes.cores;
  let whenLost: (reason: string) => void = () => {};
  if (wishes.gpu) doing("compiles for its GPU and measures it");
  const found = wishes.gpu
    ? await openTabGpu({
        ...{ timers: world.timers, script: scripts.engine },
        memoryBytes: gpuShare * wishes.memoryBytes,
        onLost: (reason) => whenLost(reason),
      })
    : "its owner keeps it";
  let gpu = typeof found === "string" ? undefined : found;
  let without = typeof found === "string" ? found : "";
  const own = [
    { engine: "portable", class: numerics },
    { engine: "exact", class: exact },
  ];
  const classes = () =>
    fastestFirst(own, gpu ? [{ engine: "webgpu", class: gpu.class }] : [], gpu?.gflops ?? 0, gflops);
  const wires = openSocketNetwork({ timers: world.timers, log: world.log, identity, secure, networkKey });
  const spill = await openTabSpill(wishes.diskBytes / 2);
  const cache = await openTabCache(wishes.diskBytes / 2);
  doing("registers with the orchestrator");
  const pnode = await startPNode(
    {
      name: wishes.name,
      software,
      orchestrators: [withKey(address, networkKey)],
      listen: "tab:0",
      onlyByRelays: true,
      ...(wishes.invite ? { invite: wishes.invite } : {}),
      limits: {
        cpus: wishes.cores,
        memoryBytes: BigInt(wishes.memoryBytes),
        diskBytes: BigInt(spill === undefined ? 0 : wishes.diskBytes),
      },
      capabilities: {
        cpuModel: "a browser",
        cores: navigator.hardwareConcurrency,
        memoryBytes: BigInt(wishes.memoryBytes),
        diskBytes: BigInt(wishes.diskBytes),
        architecture: "wasm",
        platform: "browser",
        gpus: gpu ? [{ vendor: gpu.vendor, model: gpu.model, memoryBytes: BigInt(gpu.memoryBytes) }] : [],
        gflops,
        numerics: classes(),
      },
    },
    {
      world,
      network: routedNetwork(wires, world),
      executorFor: async (engine) => {
        if (engine === "portable") return executor;
        if (engine === "exact") return openTabExecutor(scripts.engine, wishes.cores, "exact");
        if (engine === "webgpu" && gpu !== undefined) return gpu.executor;
        if (engine === "webgpu") return fail("failed_precondition", `this browser lends no GPU: ${without}`);
        return fail(
          "failed_precondition",
          `a browser computes with portable, exact and webgpu numerics, not with ${engine}`,
        );
      },
      blobs: openTabTransfer(origin, options.onForeign),
      digest: digestOfWeb,
      hashOf: hashOfWeb,
      aside: openTabAside(scripts.aside),
      pulse: startTabPulse(scripts.pulse, secure),
      ...(spill && { spill }),
      ...(cache && { cache }),
      signing: identity,
      localHour: () => new Date(world.clock.wallMs()).getHours(),
      lends: options.lends,
      onWork: options.onWork,
      onOtherBits: (tried, engine) => {
        if (engine !== "webgpu" || gpu === undefined) return;
        const other = shortClass(engine, [gpu.class, tried]);
        world.log("warn", `its GPU gives other bits than others of the class ${gpu.class}: it is of ${other} now`);
        gpu = { ...gpu, class: other };
        pnode.measured(gflops, classes());
      },
    },
  );
  whenLost = (reason) => {
    gpu = undefined;
    without = reason;
    world.log("warn", `${reason}. Its parts of networks are handed back; lend this browser again to lend the GPU`);
    pnode.measured(gflops, classes());
  };
  if (gpu?.executor.lost !== undefined) whenLost(gpu.executor.lost);
  return { pnode, identity, gflops, gpu: () => (gpu ? `${gpu.vendor} ${gpu.model}` : `none: ${without}`) };
}

/** Which network this is. The page came from the same place, so whoever lies here could have sent another page. */
async function introduce(address: string, secure: boolean, world: World) {
  const network = openSocketNetwork({ timers: world.timers, secure });
  try {
    const { networkKey } = await network.call(address, RightsService.method.getChallenge, {});
    const { software } = await network.call(address, SystemService.method.getVersion, {});
    if (!isKeyId(networkKey)) fail("failed_precondition", "the orchestrator does not say which network it belongs to");
    return { networkKey: networkKey as KeyId, software };
  } finally {
    await network.close();
  }
}

const probeSize = 256;
const tries = 8;

/** Billions of operations in a second of one worker, in its best try. */
async function speedOf(executor: Executor): Promise<number> {
  const builder = new GraphBuilder("speed");
  const shape = [probeSize, probeSize];
  builder.output(
    builder.op("MatMul", [builder.input("a", "float32", shape), builder.input("b", "float32", shape)]),
    "c",
  );
  executor.register("speed", builder.build());
  const feeds = { a: allocate("float32", shape), b: allocate("float32", shape) };
  let bestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < tries; i++) {
    const startMs = performance.now();
    executor.recycle(Object.values(await executor.run("speed", feeds)));
    bestMs = Math.min(bestMs, performance.now() - startMs);
  }
  executor.unregister("speed");
  return (2 * probeSize ** 3) / Math.max(bestMs, 0.01) / 1e6;
}
