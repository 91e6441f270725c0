// An Executor whose work takes virtual time, so that crashes and pauses can strike in the middle of it. The
// numbers come from the executor inside; this file decides only when they are there.

import type { TensorData } from "../../src/core/tensor.ts";
import type { Executor } from "../../src/engine/engine.ts";
import { type Build, usualBuild } from "../draw.ts";
import type { Host } from "./world.ts";

export interface ComputeTimes {
  /** Of one run of a graph. */
  readonly runMs: number;
  readonly kernelMs: number;
  /** Given: so many calls at a time, the others wait. Else calls overlap as they come, which is what faults look for. */
  readonly workers?: number | undefined;
}

const simulatedWorkers = 3;

export function simulatedExecutor(inner: Executor, host: Host, times: ComputeTimes): Executor {
  const waiting: (() => void)[] = [];
  let free = times.workers ?? Number.POSITIVE_INFINITY;
  const takes = async (milliseconds: number) => {
    if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
    else free -= 1;
    const delayMs = milliseconds * (0.5 + host.world.chance.uniform()) * host.slowness;
    await new Promise<void>((resolve) => void host.after(delayMs, resolve));
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  return {
    kind: inner.kind,
    // Calls overlap and end in any order, as on several cores; the numbers are still computed one by one.
    workers: times.workers ?? simulatedWorkers,
    lost: undefined,
    register: (name, graph) => inner.register(name, graph),
    unregister: (name) => inner.unregister(name),
    run: async (name, feeds, options) => {
      await takes(times.runMs);
      return inner.run(name, feeds, options);
    },
    kernel: async (call, options) => {
      await takes(times.kernelMs);
      return inner.kernel(call, options);
    },
    kernels: async (calls, options) => {
      await takes(times.kernelMs);
      return inner.kernels(calls, options);
    },
    allocate: (bytes) => inner.allocate(bytes),
    free: (memory) => inner.free(memory),
    tensor: (dtype, shape) => inner.tensor(dtype, shape),
    share: (tensor) => inner.share(tensor),
    recycle: (tensors) => inner.recycle(tensors),
    download: (operands) => inner.download(operands),
    upload: (operands) => inner.upload(operands),
    openStage: () => {
      const stage = inner.openStage();
      return {
        ...stage,
        run: async (pass, feeds) => {
          await takes(times.runMs);
          return stage.run(pass, feeds);
        },
      };
    },
    numericsClass: () => inner.numericsClass(),
    close: () => inner.close(),
  };
}

/** The numbers of another build: its own last bits. */
export function computingLike({ bits, numericsClass }: Build, inner: Executor): Executor {
  const released = bits === usualBuild.bits ? inner : nudging(inner, 2);
  return numericsClass === usualBuild.numericsClass ? released : nudging(released, 1);
}

/** The first float of every result is some units in the last place further from zero. */
export function nudging(inner: Executor, units: number): Executor {
  return {
    ...inner,
    run: async (name, feeds, options) => {
      const results = await inner.run(name, feeds, options);
      for (const tensor of Object.values(results)) nudge(tensor.data, units);
      return results;
    },
    openStage: () => {
      const stage = inner.openStage();
      return {
        ...stage,
        // Every row alike: what a row becomes depends on no other.
        run: async (pass, feeds) => {
          const results = await stage.run(pass, feeds);
          for (const { data, shape } of results)
            for (let row = 0, width = data.length / (shape[0] ?? 1); row < (shape[0] ?? 0); row++)
              nudge(data.subarray(row * width, (row + 1) * width), units);
          return results;
        },
      };
    },
  };
}

function nudge(data: TensorData, units: number): void {
  if (!(data instanceof Float32Array) || data.length === 0 || data[0] === 0) return;
  const words = new Uint32Array(data.buffer, data.byteOffset, 1);
  words[0] = (words[0] as number) + units;
}
