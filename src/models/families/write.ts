// From a decoder to config.json, by the family's row: the keys that read.ts would read so. Positions are written as
// Transformers 4 and 5 both understand them.

import type { Decoder, Traits } from "../decoder.ts";
import type { ConfigJson } from "./config-reader.ts";
import { ropeJson } from "./rope.ts";
import type { Family, NumberTrait, Option } from "./row.ts";

/** Undefined: the family has no way to say what the decoder does. */
export function configOf(decoder: Decoder, family: Family, context: number): ConfigJson | undefined {
  const config: Record<string, unknown> = {
    architectures: [family.architecture],
    model_type: family.model,
    dtype: "float32",
    torch_dtype: "float32",
  };
  for (const [name, { key }] of Object.entries(family.sizes))
    if (key !== "") config[key] = name === "positions" ? context : decoder[name as keyof Family["sizes"]];
  for (const option of family.options) {
    const value = optionValue(option, decoder);
    if (value === undefined) return undefined;
    config[option.key] = value;
  }
  return { ...config, ...ropeKeys(decoder, family), ...windowKeys(decoder, family), ...family.write?.(decoder) };
}

function optionValue(option: Option, decoder: Decoder): unknown {
  if (option.kind === "choice") {
    const fits = (traits: Partial<Traits>) =>
      Object.entries(traits).every(([trait, value]) => decoder[trait as keyof Traits] === value);
    return option.values.find(([, traits]) => fits(traits))?.[0];
  }
  const value = decoder[option.trait as NumberTrait];
  if (value === undefined) return option.as === undefined && option.otherwise !== 1 ? null : neutral(option);
  return inverse(value, option.as);
}

/** A factor that is not there is one that changes nothing. */
function neutral(option: Option): unknown {
  return option.kind === "number" && option.otherwise === 1 ? 1 : undefined;
}

/** What `read` turns into exactly this value: rounding must not come between. */
function inverse(value: number, as: "reciprocal" | "inverse-root" | undefined): number | undefined {
  if (as === undefined) return value;
  const read = (written: number) => (as === "reciprocal" ? 1 / written : 1 / Math.sqrt(written));
  const exact = as === "reciprocal" ? 1 / value : 1 / (value * value);
  return [12, 15, 16, 17].map((digits) => Number(exact.toPrecision(digits))).find((written) => read(written) === value);
}

function ropeKeys({ each, headDim }: Decoder, { rope, localRope }: Family): ConfigJson {
  const plain = each.find((layer) => layer.rope && !(localRope && layer.window !== undefined))?.rope;
  const local = localRope && each.find((layer) => layer.window !== undefined)?.rope;
  const known = plain ?? local;
  if (rope === undefined || known === undefined) return {};
  const { rope_theta, partial_rotary_factor, ...scaling } = ropeJson(known, headDim);
  return {
    [rope.theta.key]: rope_theta,
    ...(partial_rotary_factor !== undefined || rope.share.otherwise !== 1
      ? { [rope.share.key]: partial_rotary_factor ?? 1 }
      : {}),
    ...(scaling["rope_type"] === "default" ? {} : { rope_scaling: scaling }),
    ...(localRope && { [localRope.key]: local?.theta ?? localRope.otherwise }),
  };
}

function windowKeys({ each }: Decoder, { windows }: Family): ConfigJson {
  if (windows === undefined) return {};
  const window = each.find((layer) => layer.window !== undefined)?.window;
  const types = each.map((layer) => (layer.window === undefined ? "full_attention" : "sliding_attention"));
  return {
    [windows.key]: window ?? null,
    ...(windows.flag && { [windows.flag]: window !== undefined }),
    ...(windows.layer && { layer_types: types }),
  };
}
