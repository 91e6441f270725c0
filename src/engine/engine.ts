// What executes graphs. One interface, one conformance suite, several implementations; none of their
// callers may know which one it has, nor that it runs on a CPU.

import type { Tensor } from "../core/tensor.ts";
import type { GraphModel } from "../graph/model.ts";

export type EngineKind = "reference" | "native" | "portable" | "webgpu";

export type Tensors = Readonly<Record<string, Tensor>>;

export interface Program {
  /**
   * Runs the graph. Outputs named in `into` are written to the given buffers (which may be shared memory),
   * the others are newly allocated. One thread, no clock, no chance: the same feeds give the same bits.
   */
  run(feeds: Tensors, into?: Tensors): Promise<Tensors>;
  release(): Promise<void>;
}

export interface Engine {
  readonly kind: EngineKind;
  load(graph: GraphModel): Promise<Program>;
  /** Engines of equal class compute equal bits. */
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

/**
 * Runs graphs and kernels on as many workers as the owner lends cores. Results never depend on how many
 * there are. Weights are buffers in shared memory, seen by all workers; other tensors are handed over.
 */
export interface Executor {
  readonly kind: EngineKind;
  readonly workers: number;
  /** A graph by a name of the caller's choosing; workers load it when they first run it. */
  register(name: string, graph: GraphModel): void;
  unregister(name: string): void;
  /** `lane` keeps calls of one lane in order on one worker; calls without a lane go to any idle worker. */
  run(name: string, feeds: Tensors, options?: { into?: Tensors; transfer?: boolean }): Promise<Tensors>;
  /** Runs a kernel of engine/kernels (optimizer, accumulate, digest, random fills) on shared buffers. */
  kernel(call: KernelCall): Promise<KernelResult>;
  /** Zeroed memory that all workers see; given back by `free`. */
  allocate(bytes: number): SharedBytes;
  free(memory: SharedBytes): void;
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

/** A block of shared memory. Views over it stay valid until it is freed. */
export interface SharedBytes {
  readonly bytes: number;
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
}

export interface Float32Span {
  readonly memory: SharedBytes;
  /** In elements from the start of `memory`. */
  readonly start: number;
  readonly length: number;
}

/** All kernels work in place, in index order, and give the same bits on every machine. */
export type KernelCall =
  | {
      kind: "adam";
      weights: Float32Span;
      gradient: Float32Span;
      first: Float32Span;
      second: Float32Span;
      rate: number;
      beta1: number;
      beta2: number;
      epsilon: number;
      weightDecay: number;
      correction1: number;
      correction2: number;
      gradientScale: number;
    }
  | {
      kind: "sgd";
      weights: Float32Span;
      gradient: Float32Span;
      velocity?: Float32Span;
      rate: number;
      momentum: number;
      weightDecay: number;
      gradientScale: number;
    }
  | { kind: "accumulate"; into: Float32Span; add: Float32Span | Tensor }
  | { kind: "sumOfSquares"; of: Float32Span }
  | { kind: "digest"; of: Float32Span }
  | { kind: "fill"; into: Float32Span; value: number };

export interface KernelResult {
  /** sumOfSquares: the sum. */
  readonly value?: number;
  /** digest: 32 bytes as hex; equal spans have equal digests on every machine. Not cryptographic. */
  readonly digest?: string;
}
