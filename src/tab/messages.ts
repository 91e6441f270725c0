// What a page and the worker in which its PNode runs say to each other, and how that one begins with others.

import type { WorkerSettings } from "../engine/pool/messages.ts";

/** What a worker of engine-worker.ts is told first. */
export interface TabWorkerSettings extends WorkerSettings {
  /** Of the GPU's memory, for the worker that has it. */
  readonly gpuBytesMax?: number;
}

/** Where the scripts of the other workers are served. */
export interface TabScripts {
  readonly engine: string;
  readonly aside: string;
  readonly pulse: string;
}

export interface TabWishes {
  /** For people, in `dcnr nodes`. */
  readonly name: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  /** Whether the GPU is lent too, where the browser gives pages one. */
  readonly gpu: boolean;
  /** Lets it join a network that is not open to everybody. */
  readonly invite?: string;
}

export type ToTab =
  | { readonly kind: "start"; readonly scripts: TabScripts; readonly wishes: TabWishes }
  /** Why it lends nothing now; empty if it does. */
  | { readonly kind: "refusal"; readonly why: string }
  /** Hands its VNodes over, then ends. */
  | { readonly kind: "leave"; readonly reason: string };

export interface TabStatus {
  readonly id: string;
  readonly isKept: boolean;
  readonly attached: boolean;
  /** How the network reaches it; empty before it was tried. */
  readonly reached: string;
  readonly gflops: number;
  /** Which GPU is lent, or why none is. */
  readonly gpu: string;
  readonly problems: readonly string[];
  readonly vnodes: readonly {
    readonly session: string;
    readonly vnode: string;
    readonly step: number;
    readonly phase: string;
  }[];
  /** Of this visit. */
  readonly pieces: number;
  readonly computedMs: number;
}

export type FromTab =
  | { readonly kind: "doing"; readonly what: string }
  | { readonly kind: "status"; readonly status: TabStatus }
  | { readonly kind: "log"; readonly line: string }
  | { readonly kind: "left" }
  | { readonly kind: "failed"; readonly why: string };
