// What executes graphs. One interface, one conformance suite, several implementations; none of their
// callers may know which one it has, nor that it runs on a CPU.

import type { RandomKey } from "../core/numbers/random.ts";
import type { DType, Shape, Tensor } from "../core/tensor.ts";
import type { GraphModel } from "../graph/model.ts";
import type { WeightBits } from "../graph/quantise.ts";
import type { UnitPlan } from "../graph/unit.ts";
import type { Station } from "./pool/station.ts";
import type { LinearMemory } from "./portable/linear-memory.ts";
import type { RowProgram } from "./stage/row-program.ts";
import type { StagePass } from "./stage/stage-pass.ts";

export type EngineKind = "reference" | "native" | "portable" | "webgpu" | "cuda" | "exact" | "exact-webgpu";

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
  /** Tensors in it are worked on where they are; absent: anywhere is as good. */
  readonly memory?: LinearMemory;
  /** Only where it has memory of its own, in which an executor lets values stay between calls. */
  readonly openStation?: () => Station;
  load(graph: GraphModel): Promise<Program>;
  /**
   * A graph for any number of rows (graph/rows.ts) with weights that never change, if the engine has a way of its own for
   * them. A row's bits must not depend on the others; where they do, it fails.
   */
  loadRows?(graph: GraphModel, weights: Tensors): Promise<RowProgram | undefined>;
  /** Engines of equal class compute equal bits. */
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

export interface RunOptions {
  /** Outputs by name that are written to the given tensors, which lie in shared memory. */
  readonly into?: Tensors;
  /** Feeds that do not lie in shared memory are moved instead of copied; the caller must not use them again. */
  readonly transfer?: boolean;
  /** Higher goes first among waiting calls; equal ones in the order of their calls. Backward work goes before forward. */
  readonly priority?: number;
  /** Outputs that must not hold NaN or infinity (`true`: all of them); one that does makes the call fail. */
  readonly finite?: boolean | readonly string[];
  /**
   * Outputs that later calls read and the caller does not, unless it asks by `download`: a device keeps them in its own memory
   * until they are recycled, and does not look for NaN in them. Outputs in allocated blocks always stay there.
   */
  readonly keep?: readonly string[];
}

/**
 * Runs graphs and kernels on as many workers as the owner lends cores. Results never depend on how many
 * there are. Everything that workers write lies in shared memory: weights in blocks of `allocate`, outputs in
 * tensors that the executor takes from its pool. Feeds in shared memory are not copied, others are.
 * An executor on a device works on copies in the device's memory: what `allocate` gave, and outputs that are kept, lie there, and
 * their shared memory holds what the device computed only after `download`. On a CPU there is one memory, and nothing to do.
 */
export interface Executor {
  readonly kind: EngineKind;
  readonly workers: number;
  /** Why nothing will ever be computed here again: a device was lost, with what lay on it. Undefined while all is well. */
  readonly lost: string | undefined;
  /** A graph by a name of the caller's choosing; workers load it when they first run it. */
  register(name: string, graph: GraphModel): void;
  /** Workers give back what the graph took. Calls that were made before still run. */
  unregister(name: string): void;
  /** Expected failures (unknown graph, wrong feed, not finite) are DcnrErrors that name the graph and the tensor. */
  run(name: string, feeds: Tensors, options?: RunOptions): Promise<Tensors>;
  /** Runs a kernel of engine/kernels.ts on a worker; calls on overlapping memory must be awaited one after the other. */
  kernel(call: KernelCall, options?: { readonly priority?: number }): Promise<KernelResult>;
  /**
   * Runs kernels one after the other on one worker, for the price of one message. A sum of squares that is not finite ends
   * them: the results that are missing belong to calls that did not run.
   */
  kernels(calls: readonly KernelCall[], options?: { readonly priority?: number }): Promise<readonly KernelResult[]>;
  /** Zeroed memory that all workers see; given back by `free`. One block per VNode makes the fastest kernels. */
  allocate(bytes: number): SharedBytes;
  free(memory: SharedBytes): void;
  /** Resolves when the caller sees what was computed there; undefined where it always does. */
  download(operands: readonly KernelOperand[]): Promise<void> | undefined;
  /** The caller has written there: what a device holds of it is out of date. Kernels and runs need not be told. */
  upload(operands: readonly KernelOperand[]): void;
  /** A tensor in shared memory from the pool; its content is undefined. */
  tensor(dtype: DType, shape: Shape): Tensor;
  /** One more holder of a tensor of the pool: it goes back when each of them has given it back. */
  share(tensor: Pick<Tensor, "data">): void;
  /** Gives outputs and tensors of the pool back for later runs; what did not come from the pool is ignored. */
  recycle(tensors: Iterable<Pick<Tensor, "data">>): void;
  /** A place on one of the workers for the units of a served model. */
  openStage(): StageExecutor;
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

/** Rows of one input, by themselves. */
export interface StageFeed {
  readonly unit: string;
  readonly input: string;
  readonly data: Float32Array | Int32Array;
}

export interface LoadedUnit {
  /** The unit goes on reading its weights where they are; else they may be freed. */
  readonly keepsWeights: boolean;
  /** What weights of few bits lost of their size, on the average. */
  readonly weightError: number;
}

/**
 * Units that run one after the other on one worker, where their caches are (stage/stage.ts). A worker that dies takes them
 * along: calls fail with `unavailable`, and whoever needs them loads them again.
 */
export interface StageExecutor {
  /** Weights lie in shared memory, and are kept in so many bits; absent: as they are. */
  load(plan: UnitPlan, name: string, weights: Tensors, bits?: WeightBits): Promise<LoadedUnit>;
  /** Resolves when the unit reads its weights no more. */
  unload(name: string): Promise<void>;
  /** Caches of requests at a unit go. */
  drop(name: string, requests: readonly string[] | "all"): void;
  /** What the pass wants, in order. NaN and infinity make it fail. */
  run(pass: StagePass, feeds: readonly StageFeed[]): Promise<readonly Tensor[]>;
  /** Results that nobody reads any more: the next ones are written to their memory. Nobody must, but garbage of this size is costly. */
  recycle(results: readonly Tensor[]): void;
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

/** A span of an allocated block, or a float32 tensor in shared memory. */
export type KernelOperand = Float32Span | Tensor;

/** All kernels work in place, in index order, and give the same bits on every machine. */
export type KernelCall =
  | {
      /** Adam; with `decoupled` weight decay (the default) AdamW, else the decay joins the gradient. */
      readonly kind: "adam";
      readonly weights: KernelOperand;
      readonly gradient: KernelOperand;
      readonly first: KernelOperand;
      readonly second: KernelOperand;
      readonly rate: number;
      readonly beta1: number;
      readonly beta2: number;
      readonly epsilon: number;
      readonly weightDecay: number;
      readonly decoupled?: boolean;
      /** 1 - beta1^t and 1 - beta2^t at update t = 1, 2, ... */
      readonly correction1: number;
      readonly correction2: number;
      readonly gradientScale: number;
    }
  | {
      readonly kind: "sgd";
      readonly weights: KernelOperand;
      readonly gradient: KernelOperand;
      /** Needed when momentum is not 0. */
      readonly velocity?: KernelOperand;
      readonly rate: number;
      readonly momentum: number;
      readonly weightDecay: number;
      readonly gradientScale: number;
    }
  | { readonly kind: "accumulate"; readonly into: KernelOperand; readonly add: KernelOperand }
  | { readonly kind: "copy"; readonly into: KernelOperand; readonly of: KernelOperand }
  | { readonly kind: "sumOfSquares"; readonly of: KernelOperand }
  | { readonly kind: "digest"; readonly of: KernelOperand }
  | { readonly kind: "finite"; readonly of: KernelOperand }
  | { readonly kind: "fill"; readonly into: KernelOperand; readonly value: number }
  /** The nearest value of a half precision, still as float32: working copies and what will travel. */
  | {
      readonly kind: "round";
      readonly into: KernelOperand;
      readonly of: KernelOperand;
      readonly to: "float16" | "bfloat16";
    }
  /** The same bits as fillChance of core/numbers/random.ts. */
  | {
      readonly kind: "chance";
      readonly into: KernelOperand;
      readonly key: RandomKey;
      readonly rate: number;
      readonly keepValue: number;
      readonly dropValue: number;
    }
  /** The same bits as fillUniform and fillNormal of core/numbers/random.ts: initial weights. */
  | ({ readonly kind: "uniform"; readonly low: number; readonly high: number } & KernelDraw)
  | ({ readonly kind: "normal"; readonly deviation: number } & KernelDraw);

export interface KernelDraw {
  readonly into: KernelOperand;
  readonly key: RandomKey;
  /**
   * The number of the first element among the key's, a multiple of 4; 0 if absent. Elements depend on their number alone,
   * so that several workers may fill spans of one tensor.
   */
  readonly from?: number;
}

export interface KernelResult {
  /** sumOfSquares: the sum. finite: 1 if all are, else 0. */
  readonly value?: number;
  /** digest: 32 bytes as hex; equal spans have equal digests on every machine. Not cryptographic. */
  readonly digest?: string;
}
