// A decoder-only language model in our words, whatever family it is of: what definition.ts writes down as a network,
// and what a row of the table of families is about.

import type { Alibi, Rope } from "../network/graphs/positions.ts";

export interface Sizes {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly ffnDim: number;
  readonly vocabulary: number;
  /** Positions that the model was made for. */
  readonly positions: number;
}

/** Gated ones multiply a value with a bent gate and need twice the width. */
export type Activation = "swiglu" | "geglu" | "geglu-tanh" | "gelu" | "gelu-tanh" | "relu" | "silu";

/** What families differ in, beside sizes and what differs from layer to layer. */
export interface Traits {
  readonly norm: "rmsnorm" | "layernorm";
  readonly epsilon: number;
  /** Norms before attention and feed-forward part, behind them, both, or behind the sum with what went around them. */
  readonly place: "pre" | "post" | "both" | "after";
  /** Attention and feed-forward part side by side, from so many norms; 0: one after the other. */
  readonly parallel: 0 | 1 | 2;
  readonly finalNorm: boolean;
  readonly qkNorm: "none" | "head" | "head_layernorm" | "flat";
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
  readonly ffnBias: boolean;
  readonly headBias: boolean;
  readonly activation: Activation;
  /** The head uses the embedding's matrix. */
  readonly tied: boolean;
  readonly learnedPositions: boolean;
  /** Width of the embedding where it is not `dim`: a matrix leads in and another out. */
  readonly embeddingDim: number | undefined;
  readonly embeddingScale: number | undefined;
  readonly embeddingNorm: boolean;
  /** What attention and feed-forward part add is multiplied with it. */
  readonly residualScale: number | undefined;
  readonly scoreScale: number | undefined;
  readonly scoreCap: number | undefined;
  readonly logitScale: number | undefined;
  readonly logitCap: number | undefined;
  readonly alibi: Alibi | undefined;
  /** Undefined: one feed-forward part. */
  readonly experts: number | undefined;
  readonly expertsPerToken: number | undefined;
}

export interface Layer {
  /** Undefined: queries and keys are not rotated. */
  readonly rope: Rope | undefined;
  /** Positions that one sees, itself included; undefined: all before it. */
  readonly window: number | undefined;
}

export interface Decoder extends Sizes, Traits {
  /** `model_type` of the family's row. */
  readonly family: string;
  /** One for each layer. */
  readonly each: readonly Layer[];
}

/** What most families have. */
export const plainTraits: Traits = {
  norm: "rmsnorm",
  epsilon: 1e-6,
  place: "pre",
  parallel: 0,
  finalNorm: true,
  qkNorm: "none",
  qkvBias: false,
  outputBias: false,
  ffnBias: false,
  headBias: false,
  activation: "swiglu",
  tied: false,
  learnedPositions: false,
  embeddingDim: undefined,
  embeddingScale: undefined,
  embeddingNorm: false,
  residualScale: undefined,
  scoreScale: undefined,
  scoreCap: undefined,
  logitScale: undefined,
  logitCap: undefined,
  alibi: undefined,
  experts: undefined,
  expertsPerToken: undefined,
};

export function isGated(activation: Activation): boolean {
  return activation === "swiglu" || activation === "geglu" || activation === "geglu-tanh";
}
