// What a row of the table of families says: which config keys hold what, what the family always does, what it must not
// be asked to do, and under which names its weights are stored. Reading, writing and checking are one for all rows.

import type { Activation, Decoder, Sizes, Traits } from "../decoder.ts";
import type { ConfigReader } from "./config-reader.ts";
import type { RopeKeys } from "./rope.ts";

export interface SizeKey {
  /** Empty: the config never says it. */
  readonly key: string;
  /** Older names of the same. */
  readonly also?: readonly string[];
  /** Where the config says nothing; absent: it must say it. */
  readonly otherwise?: number | ((known: Partial<Sizes>) => number);
}

/** A config key that decides traits. */
export type Option =
  /** Each of its values means something. `values` are in the order in which a writer tries them. */
  | {
      readonly kind: "choice";
      readonly key: string;
      readonly otherwise: boolean | string;
      readonly values: readonly (readonly [value: boolean | string, traits: Partial<Traits>])[];
    }
  /** A number, or null for none. */
  | {
      readonly kind: "number";
      readonly key: string;
      readonly trait: NumberTrait;
      /** Undefined: none. */
      readonly otherwise: number | undefined;
      readonly as?: "reciprocal" | "inverse-root";
    };

export type NumberTrait = {
  [Name in keyof Traits]: Traits[Name] extends number | undefined ? (Name extends "parallel" ? never : Name) : never;
}[keyof Traits];

/** Which layers see only so far. */
export interface Windows {
  readonly key: string;
  readonly otherwise?: number;
  /** A flag that must be on for windows to count. */
  readonly flag?: string;
  /** Where layer_types says nothing: does layer `layer` (from 0) have a window? Absent: all have. */
  readonly layer?: (layer: number, config: ConfigReader) => boolean;
}

/** How queries, keys and values are stored. */
export type QkvLayout =
  /** One matrix for each. */
  | { readonly kind: "apart"; readonly names: readonly [string, string, string] }
  /** One behind the other in one matrix. */
  | { readonly kind: "stacked"; readonly name: string }
  /** For each key head: its query heads, its key, its value. */
  | { readonly kind: "grouped"; readonly name: string };

export type UpLayout =
  | { readonly kind: "plain"; readonly name: string }
  | { readonly kind: "gated"; readonly up: string; readonly gate: string }
  /** The gate's rows, then the value's, in one matrix. */
  | { readonly kind: "gate-first"; readonly name: string };

/** Names of stored tensors without ".weight" and ".bias". */
export interface TensorNames {
  /** In front of all but `head`; the first with which the embedding is found counts. */
  readonly prefixes: readonly string[];
  readonly embedding: string;
  readonly positions?: string;
  /** Rows in front of the table of positions that no position uses. */
  readonly positionsSkipped?: number;
  readonly embeddingNorm?: string;
  readonly projectIn?: string;
  readonly projectOut?: string;
  /** Of a layer; `{}` is its number from 0. */
  readonly layer: string;
  /** Before attention, or the only one before a parallel block. */
  readonly norm?: string;
  readonly postNorm?: string;
  readonly ffnNorm?: string;
  readonly ffnPostNorm?: string;
  /** Of a parallel block with two norms, where they have other names. */
  readonly parallelNorms?: readonly [attention: string, ffn: string];
  readonly qkv: QkvLayout;
  readonly queryNorm?: string;
  readonly keyNorm?: string;
  readonly output: string;
  readonly up: UpLayout;
  readonly down: string;
  readonly experts?: ExpertNames;
  readonly finalNorm: string;
  readonly head: string;
  /** Stored [in, out] rather than [out, in], all but the head. */
  readonly turned?: boolean;
  /** RMS scales are stored less one. */
  readonly normsLessOne?: boolean;
  /** Tensors that older writers stored beside the weights: endings. */
  readonly leftovers?: readonly string[];
  /** Of other parts of a larger model: beginnings. */
  readonly others?: readonly string[];
}

export interface ExpertNames {
  readonly router: string;
  /** `{}` is the expert's number. */
  readonly gate: string;
  readonly up: string;
  readonly down: string;
}

export interface Family {
  /** `model_type`. */
  readonly model: string;
  readonly architecture: string;
  readonly sizes: Readonly<Record<keyof Sizes, SizeKey>>;
  readonly traits: Partial<Traits>;
  readonly options: readonly Option[];
  /** Keys that may only have these values; the first is what we write, if anything. */
  readonly demands: Readonly<Record<string, readonly unknown[]>>;
  readonly harmless: readonly string[];
  readonly rope?: RopeKeys;
  /** Layers of another kind have another theta: by `layer_types`. */
  readonly localRope?: { readonly key: string; readonly otherwise: number };
  /** Is layer `layer` (from 0) rotated? Absent: all are. */
  readonly rotated?: (layer: number, config: ConfigReader, layers: number) => boolean;
  readonly windows?: Windows;
  /** Traits that hang on several keys at once. */
  readonly derive?: (config: ConfigReader, sizes: Sizes) => Partial<Decoder>;
  /** The keys that `derive` would read so, and others that the generic writer does not know. */
  readonly write?: (decoder: Decoder) => Record<string, unknown>;
  readonly tensors: TensorNames;
  /** The text model is the part of the config under this key. */
  readonly inside?: string;
}

const bent = (activations: Readonly<Record<string, Activation>>) =>
  Object.entries(activations).map(([name, activation]) => [name, { activation }] as const);

/** Our word for each of Transformers' functions. */
export const plainActivations = bent({
  gelu_new: "gelu-tanh",
  gelu_pytorch_tanh: "gelu-tanh",
  gelu_fast: "gelu-tanh",
  gelu: "gelu",
  relu: "relu",
  silu: "silu",
});
export const gatedActivations = bent({ silu: "swiglu", gelu: "geglu", gelu_pytorch_tanh: "geglu-tanh" });

export const choice = (
  key: string,
  otherwise: boolean | string,
  values: readonly (readonly [boolean | string, Partial<Traits>])[],
): Option => ({ kind: "choice", key, otherwise, values });

export const flag = (key: string, otherwise: boolean, on: Partial<Traits>, off: Partial<Traits>): Option =>
  choice(key, otherwise, [
    [true, on],
    [false, off],
  ]);

export const numeric = (
  key: string,
  trait: NumberTrait,
  otherwise?: number,
  as?: "reciprocal" | "inverse-root",
): Option => ({ kind: "number", key, trait, otherwise, ...(as && { as }) });
