// Rotary positions between config.json and our words. Older files have rope_theta and rope_scaling, newer ones both in
// rope_parameters; of two, Transformers takes the older.

import { fail } from "../../core/errors.ts";
import { log } from "../../core/numbers/math.ts";
import { written } from "../../core/words/written.ts";
import type { Rope, RopeScaling } from "../../network/graphs/positions.ts";
import type { ConfigReader } from "./config-reader.ts";

/** Where a family keeps what, and what it means by saying nothing. */
export interface RopeKeys {
  readonly theta: { readonly key: string; readonly otherwise: number };
  /** How much of a head is turned. */
  readonly share: { readonly key: string; readonly otherwise: number };
}

export const plainRope: RopeKeys = {
  theta: { key: "rope_theta", otherwise: 10_000 },
  share: { key: "partial_rotary_factor", otherwise: 1 },
};

export interface RopeSizes {
  readonly headDim: number;
  readonly positions: number;
  readonly context: number;
}

export function readRope(config: ConfigReader, keys: RopeKeys, sizes: RopeSizes): Rope {
  const scaling = config.part("rope_scaling");
  const parameters = config.part("rope_parameters");
  return ropeFrom(config, scaling ?? parameters, keys, sizes);
}

/** `parameters` is the object that says how; `config` the whole file. */
export function ropeFrom(
  config: ConfigReader,
  parameters: ConfigReader | undefined,
  keys: RopeKeys,
  sizes: RopeSizes,
): Rope {
  const outer = config.number(keys.theta.key, 1, 1e9, keys.theta.otherwise);
  const theta = parameters?.number("rope_theta", 1, 1e9, outer) ?? outer;
  const wholeShare = config.number(keys.share.key, 0, 1, keys.share.otherwise);
  const share = parameters?.number("partial_rotary_factor", 0, 1, wholeShare) ?? wholeShare;
  const dims = Math.floor(sizes.headDim * share);
  if (dims < 2 || dims % 2 !== 0)
    fail(
      "unimplemented",
      `config.json rotates ${dims} of ${sizes.headDim} elements of a head: it must be an even number`,
    );
  const scaled = parameters ? readScaling(config, parameters, dims, sizes) : {};
  return { theta, ...scaled, ...(dims < sizes.headDim && { dims }) };
}

function readScaling(
  config: ConfigReader,
  parameters: ConfigReader,
  dims: number,
  sizes: RopeSizes,
): Partial<Pick<Rope, "scaling" | "amplitude">> {
  const [newer, older] = [parameters.value("rope_type"), parameters.value("type")];
  const kind = written(newer ?? older ?? "default");
  const factor = () => parameters.number("factor", 1, 1e6);
  // Phi-3 keeps it outside, and then it counts first.
  const original = () =>
    config.integer("original_max_position_embeddings", originalInside(parameters) ?? sizes.positions);
  switch (kind) {
    case "default":
      return {};
    case "linear":
      return { scaling: { kind, factor: factor() } };
    case "dynamic":
      // It stretches only what lies beyond max_position_embeddings, and contexts end there.
      factor();
      originalInside(parameters);
      return {};
    case "llama3":
      return {
        scaling: {
          kind,
          factor: factor(),
          lowFrequencyFactor: parameters.number("low_freq_factor", 0, 1e6),
          highFrequencyFactor: parameters.number("high_freq_factor", 0, 1e6),
          originalPositions: parameters.integer("original_max_position_embeddings", sizes.positions),
        },
      };
    case "yarn":
      return readYarn(parameters, original(), sizes);
    case "su":
    case "longrope":
      return readLongRope(parameters, original(), dims, sizes);
    default:
      return parameters.refuse("rope_type", kind, "default, linear, dynamic, llama3, yarn or longrope");
  }
}

function originalInside(parameters: ConfigReader): number | undefined {
  return parameters.value("original_max_position_embeddings") === undefined
    ? undefined
    : parameters.integer("original_max_position_embeddings");
}

function readYarn(parameters: ConfigReader, originalPositions: number, { positions }: RopeSizes) {
  const factor = parameters.number("factor", 1, 1e6, positions / originalPositions);
  const scaling: RopeScaling = {
    kind: "yarn",
    factor,
    betaFast: parameters.number("beta_fast", 0, 1e6, 32),
    betaSlow: parameters.number("beta_slow", 0, 1e6, 1),
    originalPositions,
    truncate: parameters.flag("truncate", true),
  };
  const [scale, scaleAll] = [parameters.value("mscale"), parameters.value("mscale_all_dim")];
  const amplitudeOf = (by: number) => (factor <= 1 ? 1 : 0.1 * by * log(factor) + 1);
  const inferred = scale && scaleAll ? amplitudeOf(Number(scale)) / amplitudeOf(Number(scaleAll)) : amplitudeOf(1);
  return { scaling, amplitude: parameters.number("attention_factor", 1e-3, 1e3, inferred) };
}

/**
 * Two lists of factors: one for contexts as long as the model first learned, one for longer ones. Transformers changes
 * from one to the other in mid-text; a network has one of them, chosen by its context.
 */
function readLongRope(parameters: ConfigReader, originalPositions: number, dims: number, sizes: RopeSizes) {
  const isFactor = (item: unknown): item is number => typeof item === "number" && item >= 1e-6 && item <= 1e6;
  const list = (key: string) =>
    parameters.list(key, dims / 2, isFactor, "positive factors") ??
    parameters.refuse(key, undefined, "a list of factors");
  const [short, long] = [list("short_factor"), list("long_factor")];
  const factor = parameters.number("factor", 1e-6, 1e6, sizes.positions / originalPositions);
  const inferred = factor <= 1 ? 1 : Math.sqrt(1 + log(factor) / log(originalPositions));
  const amplitude = parameters.number("attention_factor", 1e-3, 1e3, inferred);
  const factors = sizes.context > originalPositions ? long : short;
  return { scaling: { kind: "factors" as const, factors }, amplitude };
}

/** The same in config.json's words. */
export function ropeJson(rope: Rope, headDim: number): Record<string, unknown> {
  const { theta, dims, amplitude, scaling } = rope;
  const share = dims === undefined ? {} : { partial_rotary_factor: shareOf(dims, headDim) };
  const shared = { rope_theta: theta, ...share };
  switch (scaling?.kind) {
    case undefined:
      return { rope_type: "default", ...shared };
    case "linear":
      return { rope_type: "linear", factor: scaling.factor, ...shared };
    case "llama3":
      return {
        rope_type: "llama3",
        factor: scaling.factor,
        low_freq_factor: scaling.lowFrequencyFactor,
        high_freq_factor: scaling.highFrequencyFactor,
        original_max_position_embeddings: scaling.originalPositions,
        ...shared,
      };
    case "yarn":
      return {
        rope_type: "yarn",
        factor: scaling.factor,
        beta_fast: scaling.betaFast,
        beta_slow: scaling.betaSlow,
        original_max_position_embeddings: scaling.originalPositions,
        ...(scaling.truncate ? {} : { truncate: false }),
        attention_factor: amplitude ?? 1,
        ...shared,
      };
    case "factors":
      return {
        rope_type: "longrope",
        short_factor: scaling.factors,
        long_factor: scaling.factors,
        attention_factor: amplitude ?? 1,
        ...shared,
      };
  }
}

/** A share that gives `dims` when it is multiplied and cut. */
function shareOf(dims: number, headDim: number): number {
  const exact = dims / headDim;
  return Math.floor(headDim * exact) === dims ? exact : (dims + 0.5) / headDim;
}
