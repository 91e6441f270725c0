// A process that stores a generated state as a PNode does, or reads one back, and tells how much memory it took
// beyond the state. It is there to be killed.

import { setFlagsFromString } from "node:v8";
import { Bandwidth } from "../../src/core/bandwidth.ts";
import { sha256 } from "../../src/core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../src/core/ids.ts";
import type { Tensor } from "../../src/core/tensor.ts";
import { BlobClient } from "../../src/pnode/blob-client.ts";
import { BlobOrigins } from "../../src/pnode/blob-origins.ts";
import { makeDurable } from "../../src/pnode/checkpoints.ts";
import { timingsDefault } from "../../src/pnode/options.ts";
import { Orchestrators } from "../../src/pnode/orchestrators.ts";
import { takeSnapshot } from "../../src/pnode/snapshots.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import type { StateImage } from "../../src/states/cut.ts";
import { digestAside } from "../../src/system/digest.ts";
import { openSpill } from "../../src/system/files/spill.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { openHttpTransfer } from "../../src/system/wires/blob-transfer.ts";
import { realWorld } from "../../src/system/world.ts";
import { Pauses } from "./pauses.ts";

export interface StateJob {
  readonly address: string;
  readonly origin: string;
  readonly directory: string;
  readonly bytes: number;
  readonly partBytes: number;
  readonly copyBytesMax: number;
  /** Reads this state instead of storing one. */
  readonly state?: string;
}

export interface StateResult {
  readonly state: string;
  readonly tensors: readonly string[];
  /** Resident memory at its highest beyond what it was with the state in memory, or with the memory for it. */
  readonly extraBytes: number;
  readonly busyMs: number;
  readonly blockedMs: number;
  readonly tookMs: number;
}

const job = JSON.parse(process.argv[2] as string) as StateJob;
const world = realWorld({ logFormat: "none" });
// As real PNodes run.
setFlagsFromString("--external-memory-accounted-in-global-limit");

/** In shared memory, as an engine's; no two parts are alike. */
function imageOf(bytes: number, fill: boolean): StateImage {
  const elements = bytes / 4 / 3;
  const tensors = new Map<string, Tensor>();
  for (const [index, name] of ["weights", "first", "second"].entries()) {
    const data = new Float32Array(new SharedArrayBuffer(elements * 4));
    const words = new Uint32Array(data.buffer);
    // Finite numbers, and every page touched either way.
    for (let i = 0; i < words.length; i += fill ? 1 : 1024)
      words[i] = fill ? (Math.imul(i + index * 7919, 2654435761) >>> 2) & 0x3effffff : 1;
    tensors.set(name, { dtype: "float32", shape: [elements], data });
  }
  return { metadata: { vnode: "v", step: "7" }, tensors };
}

const image = imageOf(job.bytes, job.state === undefined);
const signal = new AbortController().signal;
const network = openGrpcNetwork({ timers: backgroundTimers });
const orchestrators = new Orchestrators(network, world, timingsDefault, [job.address]);
const origins = new BlobOrigins(() => [job.address]);
origins.learn([job.origin]);
const common = { world, timings: timingsDefault, orchestrators };
const bandwidth = new Bandwidth(world, 0);
const blobs = new BlobClient({ ...common, origins, bandwidth, transfer: openHttpTransfer(), digest: digestAside });
const storage = await openSpill(job.directory);

const beforeBytes = process.memoryUsage.rss();
let highestBytes = beforeBytes;
const pauses = new Pauses(5);
const watch = setInterval(() => {
  highestBytes = Math.max(highestBytes, process.memoryUsage.rss());
  pauses.tick();
}, pauses.everyMs);
const startedMs = performance.now();
let state = job.state ?? "";
if (state === "") {
  const { partBytes, copyBytesMax } = job;
  const snapshot = takeSnapshot(image, { world, digest: digestAside, partBytes, copyBytesMax, storage, name: "s" });
  const options = { session: "s" as SessionId, vnode: "v" as VNodeId, epoch: () => 1, snapshot: () => snapshot };
  await makeDurable(
    { ...common, ...options, blobs, signal },
    { step: 7, turn: 0, steps: [], stating: undefined },
    snapshot,
  );
  state = await blobs.storeState("s", snapshot, signal);
  await snapshot.release();
} else {
  const reader = await blobs.openState("s", state as Sha256, "the state", signal);
  const wanted = Array.from(image.tensors, ([name, { shape, data }]) => ({ name, shape, into: data as Float32Array }));
  await reader.readInto(wanted);
}
const tookMs = performance.now() - startedMs;
clearInterval(watch);
const tensors = Array.from(image.tensors.values(), ({ data }) => sha256(new Uint8Array(data.buffer)));
const result: StateResult = { state, tensors, extraBytes: highestBytes - beforeBytes, ...pauses.longest(), tookMs };
process.stdout.write(`${JSON.stringify(result)}\n`);
await network.close();
