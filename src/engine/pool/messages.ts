// What an executor and its workers say to each other. Tensors in shared memory go by the number of their block.

import type { ErrorCode } from "../../core/errors.ts";
import type { TensorData } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { EngineKind, KernelResult } from "../engine.ts";
import type { LoweredCall } from "../kernels/kernels.ts";
import type { StageAnswer, StageCall } from "../stage/stage-call.ts";

/** A folder whose files live no longer than the process, and how much may lie there. */
export interface WorkerFiles {
  readonly folder: string;
  readonly bytesMax: number;
}

export interface WorkerSettings {
  readonly kind: EngineKind;
  /** The memory that the engine shares with the executor, if it does. */
  readonly memory?: WebAssembly.Memory;
  /** Where weights of served models may lie in files; absent: nowhere. */
  readonly files?: WorkerFiles;
}

/** A tensor's elements: in a known block from a byte on, or by themselves. */
export type WireData = { readonly block: number; readonly offset: number } | { readonly data: TensorData };

/** Of floats, by their number. */
export type WireView = WireData & { readonly length: number };

export type ToWorker =
  | { readonly kind: "graph"; readonly id: number; readonly model: GraphModel }
  | { readonly kind: "block"; readonly id: number; readonly memory: WebAssembly.Memory | SharedArrayBuffer }
  | { readonly kind: "forget"; readonly graphs: readonly number[]; readonly blocks: readonly number[] }
  | {
      readonly kind: "run";
      readonly graph: number;
      /** In the order of the graph's inputs and outputs. */
      readonly feeds: readonly WireData[];
      readonly into: readonly WireData[];
      readonly finite: readonly string[];
      readonly keep: readonly string[];
    }
  /** To a device alone: what is wanted in shared memory, what was written there, what stays, what nobody reads any more. */
  | { readonly kind: "download"; readonly views: readonly WireView[] }
  | { readonly kind: "wrote"; readonly views: readonly WireView[] }
  | { readonly kind: "lasts"; readonly block: number }
  | { readonly kind: "discard"; readonly block: number }
  | {
      readonly kind: "kernels";
      readonly calls: readonly LoweredCall[];
      /** Of each call. */
      readonly operands: readonly (readonly WireView[])[];
    }
  | {
      readonly kind: "stage";
      /** Weights of a unit to load are in `weights`, in their order. */
      readonly call: StageCall;
      readonly weights: readonly WireData[];
    }
  /** Large blocks were freed: run the garbage collector. */
  | { readonly kind: "collect" }
  | { readonly kind: "class" }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "ready" }
  | {
      readonly kind: "done";
      readonly results: readonly KernelResult[];
      readonly numerics?: string;
      readonly stage?: StageAnswer;
    }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string };
