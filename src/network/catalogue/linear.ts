// linear: fully connected, with a matrix of its own or one that another node publishes.
// Its own matrix lies [in_dim, out_dim], so that the forward pass is a plain product.

import { elementCount } from "../../core/tensor.ts";
import type { Builder } from "../../graph/operators/operator.ts";
import { adapted, adapterFlops, adapterKeys, adapterParameters } from "./adapter.ts";
import type { BuildSite, Value } from "./build-site.ts";
import { dimension } from "./config.ts";
import {
  agree,
  type Description,
  description,
  floatInput,
  floats,
  lastAxis,
  type NodeType,
  one,
  oneOutput,
  type ParameterSpec,
  refuse,
  type Site,
  showShape,
  uniform,
} from "./node-type.ts";

export const linear: NodeType = {
  type: "linear",
  aliases: ["dense"],
  meaning: "Fully connected: `x W + b` over the last axis. With a tie it uses the shared matrix (LM head).",
  keys: {
    in_dim: dimension("size of the input's last axis"),
    out_dim: dimension("size of the output's last axis; a tied matrix gives it otherwise"),
    bias: { kind: "flag", meaning: "adds a learned vector; on unless the matrix is tied" },
    ...adapterKeys,
  },
  inputs: one,
  outputs: oneOutput,
  tiesWeights: true,
  root: (config) => ({ kind: "floats", ...(config.has("in_dim") && { shape: [config.number("in_dim")] }) }),
  describe,
  build: (site) => {
    const { weight, bias, transposed } = linearOperands(site);
    const x = site.input(0);
    return [adapted(site, x, applyLinear(site.graph, x, weight, bias, transposed))];
  },
};

export interface LinearOperands {
  readonly weight: Value;
  readonly bias: Value | undefined;
  /** The weight lies [out, in]. */
  readonly transposed: boolean;
}

export function linearOperands(site: BuildSite): LinearOperands {
  return {
    weight: site.tie === undefined ? site.parameter("weight") : site.tied(),
    bias: hasBias(site) ? site.parameter("bias") : undefined,
    transposed: site.tie?.layout === "out_in",
  };
}

export function applyLinear(graph: Builder, x: Value, weight: Value, bias?: Value, transposed = false): Value {
  const operands = bias === undefined ? [x, weight] : [x, weight, bias];
  return graph.op("Linear", operands, transposed ? { transposed: 1 } : {});
}

function hasBias(site: Pick<Site, "config" | "tie">): boolean {
  return site.config.has("bias") ? site.config.flag("bias") : site.tie === undefined;
}

function describe(site: Site): Description {
  const input = floatInput(site);
  const inDim = agree(site, "in_dim", lastAxis(input.shape), `the last axis of its input ${showShape(input.shape)}`);
  const outDim = site.tie === undefined ? site.config.optionalNumber("out_dim") : tiedOutDim(site, inDim);
  if (outDim === undefined) return refuse(site, `key "out_dim" is missing: it must say the size of the output`);
  const parameters: ParameterSpec[] = [];
  if (site.tie === undefined) parameters.push({ name: "weight", shape: [inDim, outDim], initial: uniform(inDim) });
  if (hasBias(site)) parameters.push({ name: "bias", shape: [outDim], initial: uniform(inDim) });
  parameters.push(...adapterParameters(site, inDim, outDim));
  const rows = elementCount(input.shape) / inDim;
  return description([floats([...input.shape.slice(0, -1), outDim])], {
    parameters,
    flops: 2 * rows * inDim * outDim + adapterFlops(site, rows, inDim, outDim),
    saved: rows * outDim,
    ...(site.tie === undefined && { shared: { parameter: "weight", layout: "in_out" as const } }),
  });
}

/** The size of a tied matrix across from `inDim`, checked against it and against `out_dim`. */
export function tiedOutDim(site: Site, inDim: number): number {
  const { alias, shape, layout, publisher } = site.tie!;
  const [found, outDim] = layout === "out_in" ? [shape[1], shape[0]] : [shape[0], shape[1]];
  if (found !== inDim || outDim === undefined)
    refuse(
      site,
      `the matrix ${showShape(shape)} that "${publisher}" publishes as "${alias}" does not fit an input of size ${inDim}`,
    );
  return agree(site, "out_dim", outDim, `the matrix ${showShape(shape)} published as "${alias}" by "${publisher}"`);
}
