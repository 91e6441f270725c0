// An Executor whose work takes virtual time, so that crashes and pauses can strike in the middle of it. The
// numbers come from the executor inside; this file decides only when they are there.

import type { Executor, KernelCall, KernelResult, SharedBytes, Tensors } from "../src/engine/engine.ts";
import type { GraphModel } from "../src/graph/model.ts";
import type { Host } from "./world.ts";

export interface ComputeTimes {
  /** Of one run of a graph. */
  readonly runMs: number;
  readonly kernelMs: number;
}

export class SimulatedExecutor implements Executor {
  readonly #inner: Executor;
  readonly #host: Host;
  readonly #times: ComputeTimes;

  constructor(inner: Executor, host: Host, times: ComputeTimes) {
    this.#inner = inner;
    this.#host = host;
    this.#times = times;
  }

  get kind(): Executor["kind"] {
    return this.#inner.kind;
  }

  get workers(): number {
    return this.#inner.workers;
  }

  register(name: string, graph: GraphModel): void {
    this.#inner.register(name, graph);
  }

  unregister(name: string): void {
    this.#inner.unregister(name);
  }

  async run(name: string, feeds: Tensors, options?: { into?: Tensors; transfer?: boolean }): Promise<Tensors> {
    await this.#takes(this.#times.runMs);
    return this.#inner.run(name, feeds, options);
  }

  async kernel(call: KernelCall): Promise<KernelResult> {
    await this.#takes(this.#times.kernelMs);
    return this.#inner.kernel(call);
  }

  allocate(bytes: number): SharedBytes {
    return this.#inner.allocate(bytes);
  }

  free(memory: SharedBytes): void {
    this.#inner.free(memory);
  }

  numericsClass(): Promise<string> {
    return this.#inner.numericsClass();
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #takes(milliseconds: number): Promise<void> {
    const { chance } = this.#host.world;
    const delayMs = milliseconds * (0.5 + chance.uniform()) * this.#host.slowness;
    return new Promise((resolve) => this.#host.after(delayMs, resolve));
  }
}
