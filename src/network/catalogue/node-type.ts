// What the compiler knows about a type of node: its keys, what it makes of its inputs' shapes, and how its
// forward pass is built. Backward passes are derived (graph/derive.ts), never written here.

import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import type { InitialPlan } from "../plan.ts";
import type { BuildSite, Value } from "./build-site.ts";
import type { Config, KeySpecs } from "./config.ts";

/** `floats` are activations; `tokens` are int32 ids that carry no gradient. */
export type ValueKind = "floats" | "tokens";

/** A value between nodes; the batch axis is implied in front. */
export interface Signature {
  readonly kind: ValueKind;
  readonly shape: Shape;
}

export interface ParameterSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly initial: InitialPlan;
  /** Learns also where its node is frozen, and may be missing where a network starts from. */
  readonly adapter?: true;
}

export interface ChanceSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly rate: number;
  readonly keepValue: number;
  readonly dropValue: number;
}

/** Which way round a shared matrix lies: `out_in` is an embedding's [vocabulary, dim]. */
export type Layout = "out_in" | "in_out";

export interface Tie {
  readonly alias: string;
  readonly publisher: string;
  readonly shape: Shape;
  readonly layout: Layout;
}

/** Where a node stands: all that may decide its shapes. */
export interface Site {
  readonly id: string;
  readonly config: Config;
  readonly inputs: readonly Signature[];
  readonly tie?: Tie;
}

export interface Description {
  readonly outputs: readonly Signature[];
  readonly parameters: readonly ParameterSpec[];
  readonly chances: readonly ChanceSpec[];
  /** Forward pass of one sample; a multiply-add counts as two. */
  readonly flops: number;
  /** Elements kept for the backward pass, one sample. An estimate: what is cheap is computed again, not kept. */
  readonly saved: number;
  /** Cost nodes: what the dataset must give per sample. */
  readonly labels?: Signature;
  /** Token ids that it looks up are below this. */
  readonly idsBelow?: number;
  /** The matrix that `shared_weight_alias` publishes. */
  readonly shared?: { readonly parameter: string; readonly layout: Layout };
}

export interface NodeType {
  readonly type: string;
  readonly aliases?: readonly string[];
  readonly meaning: string;
  readonly keys: KeySpecs;
  readonly inputs: (config: Config) => { readonly min: number; readonly max: number };
  readonly outputs: (config: Config) => number;
  /** What it takes from the dataset where no edge leads in; `shape` is undefined where only the definition can say it. */
  readonly root?: (config: Config) => { readonly kind: ValueKind; readonly shape?: Shape };
  readonly tiesWeights?: boolean;
  readonly cost?: boolean;
  readonly describe: (site: Site) => Description;
  readonly build: (site: BuildSite) => readonly Value[];
}

export const one = () => ({ min: 1, max: 1 });
export const oneOutput = () => 1;

export function description(
  outputs: readonly Signature[],
  more: Partial<Omit<Description, "outputs">> = {},
): Description {
  return {
    outputs,
    parameters: [],
    chances: [],
    flops: 0,
    saved: 0,
    ...more,
  };
}

export function floats(shape: Shape): Signature {
  return { kind: "floats", shape };
}

export function tokens(shape: Shape): Signature {
  return { kind: "tokens", shape };
}

export function showShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

export function refuse(site: { readonly id: string }, sentence: string): never {
  return fail("invalid_argument", `node "${site.id}": ${sentence}`);
}

/** The input's signature, once it is known to be an activation of at least `rankMin` axes. */
export function floatInput(site: Site, slot = 0, rankMin = 1): Signature {
  const input = site.inputs[slot];
  if (input === undefined) return refuse(site, `input ${slot} is not connected`);
  if (input.kind !== "floats")
    refuse(site, `input ${slot} must be activations, found token ids ${showShape(input.shape)}`);
  if (input.shape.length < rankMin)
    refuse(site, `input ${slot} must have at least ${rankMin} axes, found ${showShape(input.shape)}`);
  return input;
}

export function lastAxis(shape: Shape): number {
  return shape[shape.length - 1] ?? 1;
}

/** Checks a configured size against the one that the shapes give. */
export function agree(site: Site, key: string, found: number, of: string): number {
  const configured = site.config.optionalNumber(key);
  if (configured !== undefined && configured !== found)
    refuse(site, `key "${key}" is ${configured}, but ${of} is ${found}`);
  return found;
}

export function uniform(fanIn: number): InitialPlan {
  return { kind: "uniform", bound: 1 / Math.sqrt(fanIn) };
}

export const zeros: InitialPlan = { kind: "constant", value: 0 };
export const ones: InitialPlan = { kind: "constant", value: 1 };
