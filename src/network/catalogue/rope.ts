// Keys of rotary positions and how they are read: which waves turn, how fast, and how a model that learned few
// positions was stretched to more.

import { entryOf } from "../../core/words/table.ts";
import type { Rope, RopeScaling } from "../graphs/positions.ts";
import { type Config, dimension, type KeySpecs } from "./config.ts";
import { refuse, type Site } from "./node-type.ts";

const factor = (meaning: string) => ({ kind: "number" as const, min: 0, max: 1e6, meaning });

export const ropeKeys: KeySpecs = {
  rope_theta: { kind: "number", min: 1, max: 1e9, default: 10_000, meaning: "base of the rotary frequencies" },
  rope_scaling: {
    kind: "choice",
    choices: ["none", "linear", "llama3", "yarn", "factors"],
    meaning: "stretches the rotary positions of a model that learned fewer of them",
  },
  rope_factor: { kind: "number", min: 1, max: 1e6, meaning: "rope_scaling: how far they are stretched" },
  rope_low_freq_factor: factor("llama3: waves with fewer turns in rope_original_positions are stretched whole"),
  rope_high_freq_factor: factor("llama3: waves with more turns are kept"),
  rope_original_positions: dimension("llama3, yarn: positions that the model learned first"),
  rope_beta_fast: factor("yarn: waves with more turns in rope_original_positions are kept"),
  rope_beta_slow: factor("yarn: waves with fewer turns are stretched whole"),
  rope_truncate: {
    kind: "flag",
    meaning: "yarn: the ramp between them begins and ends at whole waves; true by default",
  },
  rope_factors: { kind: "numbers", min: 1e-6, max: 1e6, meaning: "factors: one for each wave, rope_dims / 2 of them" },
  rope_amplitude: { kind: "number", min: 1e-3, max: 1e3, meaning: "sines and cosines are multiplied with it" },
  rope_dims: dimension("how many elements of a head are turned, its first ones; else all"),
};

/** Keys that each kind of scaling needs. */
const scalingKeys: Readonly<Record<string, readonly string[]>> = {
  none: [],
  linear: ["rope_factor"],
  llama3: ["rope_factor", "rope_low_freq_factor", "rope_high_freq_factor", "rope_original_positions"],
  yarn: ["rope_factor", "rope_beta_fast", "rope_beta_slow", "rope_original_positions"],
  factors: ["rope_factors"],
};

/** The rotary positions of an attention node; undefined where it has none. */
export function ropeOf(site: Site, headDim: number): Rope | undefined {
  const { config } = site;
  const kind = config.optionalText("rope_scaling") ?? "none";
  if (config.text("position_encoding") !== "rope") {
    for (const key of ["rope_scaling", "rope_dims", "rope_amplitude"])
      if (config.has(key) && (key !== "rope_scaling" || kind !== "none"))
        refuse(site, `key "${key}" needs position_encoding "rope"`);
    return undefined;
  }
  for (const key of new Set(Object.values(scalingKeys).flat()))
    if (config.has(key) !== entryOf(scalingKeys, kind)?.includes(key))
      refuse(site, `key "${key}" ${config.has(key) ? "means nothing" : "is missing"} for rope_scaling "${kind}"`);
  if (config.has("rope_truncate") && kind !== "yarn")
    refuse(site, `key "rope_truncate" means nothing for rope_scaling "${kind}"`);
  const dims = config.optionalNumber("rope_dims");
  if (dims !== undefined && (dims % 2 !== 0 || dims > headDim))
    refuse(site, `key "rope_dims" must be even and at most head_dim ${headDim}, found ${dims}`);
  const amplitude = config.optionalNumber("rope_amplitude");
  return {
    theta: config.number("rope_theta"),
    ...(kind !== "none" && { scaling: scalingOf(site, kind, dims ?? headDim) }),
    ...(dims !== undefined && dims < headDim && { dims }),
    ...(amplitude !== undefined && { amplitude }),
  };
}

function scalingOf(site: Site, kind: string, width: number): RopeScaling {
  const { config } = site;
  if (kind === "factors") {
    const factors = config.numbers("rope_factors");
    if (factors.length !== width / 2)
      refuse(site, `key "rope_factors" has ${factors.length} numbers, ${width} rotated elements need ${width / 2}`);
    return { kind, factors };
  }
  const factor = config.number("rope_factor");
  if (kind === "linear") return { kind, factor };
  const originalPositions = config.number("rope_original_positions");
  if (kind === "yarn") {
    const [betaFast, betaSlow] = ordered(site, "rope_beta_slow", "rope_beta_fast");
    const truncate = config.has("rope_truncate") ? config.flag("rope_truncate") : true;
    return { kind, factor, betaFast, betaSlow, originalPositions, truncate };
  }
  const [highFrequencyFactor, lowFrequencyFactor] = ordered(site, "rope_low_freq_factor", "rope_high_freq_factor");
  return { kind: "llama3", factor, lowFrequencyFactor, highFrequencyFactor, originalPositions };
}

/** Two numbers of which the second key's must be larger: [larger, smaller]. */
function ordered(site: { readonly id: string; readonly config: Config }, lower: string, higher: string) {
  const [low, high] = [site.config.number(lower), site.config.number(higher)];
  if (high <= low) refuse(site, `key "${higher}" must be above ${lower}, found ${high}`);
  return [high, low] as const;
}
