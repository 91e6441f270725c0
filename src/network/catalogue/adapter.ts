// Adapters (LoRA): two narrow matrices beside one of a node's own, `x W + alpha / rank (x A) B`. B begins with zeros, so that a
// fresh adapter changes nothing. With `frozen` the node's own weights stay as they are, and the adapter alone learns.

import type { BuildSite, Value } from "./build-site.ts";
import type { KeySpecs } from "./config.ts";
import { type ParameterSpec, type Site, uniform, zeros } from "./node-type.ts";

export const adapterKeys: KeySpecs = {
  adapter_rank: {
    kind: "integer",
    min: 1,
    max: 4096,
    meaning: "an adapter of this rank beside the weights: `x W + adapter_alpha / adapter_rank (x A) B`",
  },
  adapter_alpha: { kind: "number", min: 1e-6, max: 1e6, meaning: "what the adapter counts; else adapter_rank" },
};

export const adapterNames = { a: "adapter_a", b: "adapter_b" } as const;

/** `prefix`: of the adapted matrix's name, where a node has several. */
export function adapterParameters(site: Site, inDim: number, outDim: number, prefix = ""): ParameterSpec[] {
  const rank = site.config.optionalNumber("adapter_rank");
  if (rank === undefined) return [];
  const { a, b } = adapterNames;
  return [
    { name: prefix + a, shape: [inDim, rank], initial: uniform(inDim), adapter: true },
    { name: prefix + b, shape: [rank, outDim], initial: zeros, adapter: true },
  ];
}

/** What the adapter counts beside the weights. */
export function adapterScale({ config }: Pick<Site, "config">): number {
  const rank = config.number("adapter_rank");
  return (config.optionalNumber("adapter_alpha") ?? rank) / rank;
}

/** `made` is what the node's own weights make of `x`. */
export function adapted(site: BuildSite, x: Value, made: Value, prefix = ""): Value {
  if (!site.config.has("adapter_rank")) return made;
  const { graph } = site;
  const narrow = graph.op("Linear", [x, site.parameter(prefix + adapterNames.a)]);
  const wide = graph.op("Linear", [narrow, site.parameter(prefix + adapterNames.b)]);
  return graph.op("Add", [made, graph.op("Mul", [wide, graph.scalar(adapterScale(site))])]);
}

/** What an adapter costs for so many rows. */
export function adapterFlops(site: Site, rows: number, inDim: number, outDim: number): number {
  return 2 * rows * (site.config.optionalNumber("adapter_rank") ?? 0) * (inDim + outDim);
}
