// An Executor whose work takes virtual time, so that crashes and pauses can strike in the middle of it. The
// numbers come from the executor inside; this file decides only when they are there.

import type { Tensor, TensorData } from "../../src/core/tensor.ts";
import type { Engine, Executor, Program } from "../../src/engine/engine.ts";
import { type RowProgram, rowProgramOf } from "../../src/engine/stage/row-program.ts";
import { type Build, commonClass, usualBuild } from "../draw.ts";
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

/**
 * The numbers of another build: its own last bits, in every graph by itself, so that it does not matter which VNodes share a machine
 * and which rows share a pass. `answering` for a baseline that learned in one class and answers in another.
 */
export function computingLike({ bits, numericsClass, answering = numericsClass }: Build, inner: Engine): Engine {
  const ownUnits: Readonly<Record<string, number>> = { [usualBuild.numericsClass]: 0, [commonClass]: 5 };
  const unitsOf = (name: string) => (bits === usualBuild.bits ? 0 : 2) + (ownUnits[name] ?? 1);
  const [learning, telling] = [unitsOf(numericsClass), unitsOf(answering)];
  return {
    ...inner,
    load: async (graph) => {
      const program = await inner.load(graph);
      const run: Program["run"] = async (feeds, into) => {
        const results = await program.run(feeds, into);
        for (const { data } of Object.values(results)) nudge(data, learning);
        return results;
      };
      return { ...program, run };
    },
    loadRows: async (graph, weights) => {
      const program = rowProgramOf(inner, graph, weights);
      const run: RowProgram["run"] = async (feeds, into, rows) => {
        await program.run(feeds, into, rows);
        for (const tensor of Object.values(into)) nudgeRows(tensor, telling);
      };
      return { ...program, run };
    },
  };
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
          for (const tensor of results) nudgeRows(tensor, units);
          return results;
        },
      };
    },
  };
}

function nudgeRows({ data, shape: [rows = 0] }: Tensor, units: number): void {
  const width = data.length / Math.max(1, rows);
  for (let row = 0; row < rows; row++) nudge(data.subarray(row * width, (row + 1) * width), units);
}

function nudge(data: TensorData, units: number): void {
  if (units === 0 || !(data instanceof Float32Array) || data.length === 0 || data[0] === 0) return;
  const words = new Uint32Array(data.buffer, data.byteOffset, 1);
  words[0] = (words[0] as number) + units;
}
