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
  adapter_count: {
    kind: "integer",
    min: 1,
    max: 64,
    meaning: "so many adapters side by side; each answer of a served model uses one of them, or none",
  },
};

export const adapterNames = { a: "adapter_a", b: "adapter_b" } as const;

/** `prefix`: of the adapted matrix's name, where a node has several. */
export function adapterParameters(site: Site, inDim: number, outDim: number, prefix = ""): ParameterSpec[] {
  const rank = site.config.optionalNumber("adapter_rank");
  if (rank === undefined) return [];
  const { a, b } = adapterNames;
  const count = site.config.optionalNumber("adapter_count");
  if (count !== undefined)
    // The first is none: zeros.
    return [
      { name: prefix + a, shape: [count + 1, inDim, rank], initial: zeros, adapter: true },
      { name: prefix + b, shape: [count + 1, rank, outDim], initial: zeros, adapter: true },
    ];
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
  if (site.config.has("adapter_count")) return adaptedByRow(site, x, made, prefix);
  const narrow = graph.op("Linear", [x, site.parameter(prefix + adapterNames.a)]);
  const wide = graph.op("Linear", [narrow, site.parameter(prefix + adapterNames.b)]);
  return graph.op("Add", [made, graph.op("Mul", [wide, graph.scalar(adapterScale(site))])]);
}

/** Each row with the adapter that it names: a product of its own, so that its bits depend on its own adapter alone. */
function adaptedByRow(site: BuildSite, x: Value, made: Value, prefix: string): Value {
  const { graph } = site;
  const named = site.adapterRows();
  const rows = named.shape[0] as number;
  const own = (name: string) => {
    const all = site.parameter(prefix + name);
    const picked = graph.op("Gather", [all, named], { axis: 0 });
    return graph.op("Reshape", [picked], { shape: [rows, ...all.shape.slice(1)] });
  };
  const narrow = graph.op("MatMul", [x, own(adapterNames.a)]);
  const wide = graph.op("MatMul", [narrow, own(adapterNames.b)]);
  return graph.op("Add", [made, graph.op("Mul", [wide, graph.scalar(adapterScale(site))])]);
}

/** What an adapter costs for so many rows. */
export function adapterFlops(site: Site, rows: number, inDim: number, outDim: number): number {
  return 2 * rows * (site.config.optionalNumber("adapter_rank") ?? 0) * (inDim + outDim);
}
