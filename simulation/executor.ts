// An Executor whose work takes virtual time, so that crashes and pauses can strike in the middle of it. The
// numbers come from the executor inside; this file decides only when they are there.

import type { Executor } from "../src/engine/engine.ts";
import type { Host } from "./world.ts";

export interface ComputeTimes {
  /** Of one run of a graph. */
  readonly runMs: number;
  readonly kernelMs: number;
}

const simulatedWorkers = 3;

export function simulatedExecutor(inner: Executor, host: Host, times: ComputeTimes): Executor {
  const takes = (milliseconds: number) => {
    const delayMs = milliseconds * (0.5 + host.world.chance.uniform()) * host.slowness;
    return new Promise<void>((resolve) => void host.after(delayMs, resolve));
  };
  return {
    kind: inner.kind,
    // Calls overlap and end in any order, as on several cores; the numbers are still computed one by one.
    workers: simulatedWorkers,
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
    numericsClass: () => inner.numericsClass(),
    close: () => inner.close(),
  };
}
