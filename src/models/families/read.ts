// From config.json to a decoder, by the family's row. Every key is read, demanded, known to be harmless, or refused.

import { fail } from "../../core/errors.ts";
import { type Decoder, type Layer, plainTraits, type Sizes, type Traits } from "../decoder.ts";
import { type ConfigJson, ConfigReader, harmlessKeys } from "./config-reader.ts";
import { type RopeSizes, readRope, ropeFrom } from "./rope.ts";
import type { Family, Option } from "./row.ts";
import { familyOf } from "./table.ts";

export interface ReadDecoder {
  readonly decoder: Decoder;
  readonly family: Family;
  readonly context: number;
}

/** Longer contexts cost memory in every activation; whoever wants them asks for them. */
export const contextDefault = 2048;

/** `wanted`: tokens that prompt and answer must fit; else what the model was made for, but at most `contextDefault`. */
export function readDecoder(json: ConfigJson, wanted?: number): ReadDecoder {
  const family = familyOf(json["model_type"]);
  const config = new ConfigReader(family.inside === undefined ? json : textPart(json, family.inside));
  const sizes = readSizes(config, family);
  const context = wanted ?? Math.min(sizes.positions, contextDefault);
  if (!Number.isSafeInteger(context) || context < 1 || context > sizes.positions)
    fail(
      "invalid_argument",
      `a context of ${context} is impossible: the model was made for 1 to ${sizes.positions} tokens`,
    );
  let traits: Traits = { ...plainTraits, ...family.traits };
  for (const option of family.options) traits = { ...traits, ...readOption(config, option) };
  for (const [key, values] of Object.entries(family.demands)) {
    const value = config.value(key);
    if (value !== undefined && !values.includes(value))
      config.refuse(key, value, values.length > 0 ? values.map((one) => JSON.stringify(one)).join(" or ") : "null");
  }
  const derived = family.derive?.(config, sizes) ?? {};
  const decoder = { ...sizes, ...traits, ...derived };
  const each = readLayers(config, family, { ...sizes, context }, decoder.alibi !== undefined);
  config.refuseUnread(new Set([...harmlessKeys, ...family.harmless]));
  checkExperts(decoder);
  return { decoder: { ...decoder, family: family.model, each }, family, context };
}

function textPart(json: ConfigJson, key: string): ConfigJson {
  const part = json[key];
  if (part === null || typeof part !== "object" || Array.isArray(part))
    fail("invalid_argument", `config.json has no ${key}, which describes the text model`);
  return part as ConfigJson;
}

const layersMax = 4_096;

function readSizes(config: ConfigReader, family: Family): Sizes {
  const known: Partial<Record<keyof Sizes, number>> = {};
  for (const name of ["layers", "dim", "heads", "kvHeads", "headDim", "ffnDim", "vocabulary", "positions"] as const) {
    const { key, also = [], otherwise } = family.sizes[name];
    const implied = typeof otherwise === "function" ? otherwise(known) : otherwise;
    if (key === "") {
      known[name] = implied ?? 0;
    } else {
      const given = [key, ...also].filter((each) => config.value(each) !== undefined);
      const found = given.map((each) => config.integer(each));
      if (new Set(found).size > 1)
        fail("invalid_argument", `config.json says ${given.map((each, i) => `${each} = ${found[i]}`).join(" and ")}`);
      known[name] = found[0] ?? config.integer(key, name === "headDim" ? whole(known, implied) : implied);
    }
    if (name === "headDim") known.headDim = whole(known, known.headDim);
    // Each becomes a VNode: no network has more.
    if (name === "layers" && (known.layers ?? 0) > layersMax)
      fail("invalid_argument", `config.json has ${known.layers} layers, at most ${layersMax} are supported`);
  }
  const sizes = known as Sizes;
  if (sizes.heads % sizes.kvHeads !== 0)
    fail("invalid_argument", `config.json has ${sizes.heads} heads, which ${sizes.kvHeads} key heads cannot share`);
  return sizes;
}

function whole({ dim, heads }: Partial<Record<keyof Sizes, number>>, size: number | undefined): number | undefined {
  if (size === undefined || Number.isInteger(size)) return size;
  return fail("invalid_argument", `config.json: a width of ${dim} is no multiple of ${heads} heads`);
}

function readOption(config: ConfigReader, option: Option): Partial<Traits> {
  if (option.kind === "choice") {
    const value = config.value(option.key) ?? option.otherwise;
    const found = option.values.find(([name]) => name === value);
    return found?.[1] ?? config.refuse(option.key, value, option.values.map(([name]) => name).join(", "));
  }
  const { key, trait, otherwise, as } = option;
  const none = config.has(key) ? undefined : otherwise;
  const value = config.value(key) === undefined ? none : config.number(key, as === undefined ? 0 : 1e-9, 1e9);
  if (value === undefined) return { [trait]: undefined };
  return { [trait]: as === "reciprocal" ? 1 / value : as === "inverse-root" ? 1 / Math.sqrt(value) : value };
}

function readLayers(config: ConfigReader, family: Family, sizes: Sizes & RopeSizes, alibi: boolean): Layer[] {
  const { layers } = sizes;
  const windowed = readWindows(config, family, layers);
  const { plain, local } = alibi ? { plain: undefined, local: undefined } : readRopes(config, family, sizes);
  return Array.from({ length: layers }, (_, layer) => {
    const window = windowed[layer];
    const rotated = family.rotated?.(layer, config, layers) ?? true;
    const sliding = family.localRope !== undefined && windowed[layer] !== undefined;
    return { rope: rotated ? (sliding ? local : plain) : undefined, window };
  });
}

/** Rotary positions of layers that see everything, and of those with a window. */
function readRopes(config: ConfigReader, family: Family, sizes: RopeSizes) {
  const { rope, localRope } = family;
  if (rope === undefined) return { plain: undefined, local: undefined };
  if (localRope === undefined) return { plain: readRope(config, rope, sizes), local: undefined };
  const localKeys = { ...rope, theta: localRope };
  const parameters = config.part("rope_parameters");
  const [full, sliding] = [parameters?.part("full_attention"), parameters?.part("sliding_attention")];
  return {
    plain: ropeFrom(config, config.part("rope_scaling") ?? full, rope, sizes),
    local: ropeFrom(config, sliding, localKeys, sizes),
  };
}

/** The window of each layer. */
function readWindows(config: ConfigReader, { windows }: Family, layers: number): (number | undefined)[] {
  const none = Array.from({ length: layers }, () => undefined);
  if (windows === undefined) return none;
  const { key, otherwise, flag, layer } = windows;
  const used = flag === undefined || config.flag(flag, false);
  const isType = (item: unknown): item is string => item === "full_attention" || item === "sliding_attention";
  const types = layer && config.list("layer_types", layers, isType, `times "full_attention" or "sliding_attention"`);
  const sliding = Array.from({ length: layers }, (_, i) =>
    types ? types[i] === "sliding_attention" : (layer?.(i, config) ?? true),
  );
  const size = config.value(key) ?? (config.has(key) ? undefined : otherwise);
  if (!used || size === undefined) return none;
  const window = config.integer(key, otherwise);
  return sliding.map((on) => (on ? window : undefined));
}

function checkExperts({ experts, expertsPerToken }: Traits): void {
  const isCount = (value: number | undefined) =>
    value === undefined || (Number.isInteger(value) && value >= 1 && value <= 1024);
  if (!isCount(experts) || !isCount(expertsPerToken) || (expertsPerToken ?? 0) > (experts ?? 0))
    fail("invalid_argument", `config.json chooses ${expertsPerToken} of ${experts} experts, which is impossible`);
}
