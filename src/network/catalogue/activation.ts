// Activations: element-wise functions, softmax, and the gated swiglu and geglu.

import { elementCount } from "../../core/tensor.ts";
import type { Builder } from "../../graph/operators/operator.ts";
import type { BuildSite, Value } from "./build-site.ts";
import type { KeySpecs } from "./config.ts";
import {
  description,
  floatInput,
  floats,
  lastAxis,
  type NodeType,
  one,
  oneOutput,
  refuse,
  showShape,
} from "./node-type.ts";

function elementwise(
  type: string,
  meaning: string,
  flops: number,
  build: (site: BuildSite, input: Value) => Value,
  keys: KeySpecs = {},
): NodeType {
  return {
    type,
    meaning,
    keys,
    inputs: one,
    outputs: oneOutput,
    root: () => ({ kind: "floats" }),
    describe: (site) => {
      const input = floatInput(site, 0, 0);
      return description([input], { flops: flops * elementCount(input.shape) });
    },
    build: (site) => [build(site, site.input(0))],
  };
}

export const relu = elementwise("relu", "`max(x, 0)`.", 1, ({ graph }, x) => graph.op("Relu", [x]));
export const gelu = elementwise(
  "gelu",
  "Gaussian error linear unit.",
  10,
  ({ graph, config }, x) => (config.text("approximate") === "tanh" ? geluTanh(graph, x) : graph.op("Gelu", [x])),
  {
    approximate: {
      kind: "choice",
      choices: ["none", "tanh"],
      default: "none",
      meaning: "`tanh` is the approximation that GPT-2 uses",
    },
  },
);
export const silu = elementwise("silu", "`x sigmoid(x)`.", 6, ({ graph }, x) => graph.op("Silu", [x]));
export const tanh = elementwise("tanh", "Hyperbolic tangent.", 6, ({ graph }, x) => graph.op("Tanh", [x]));
export const sigmoid = elementwise("sigmoid", "Logistic function.", 5, ({ graph }, x) => graph.op("Sigmoid", [x]));
export const softmax = elementwise("softmax", "Softmax over the last axis.", 8, ({ graph }, x) =>
  graph.op("Softmax", [x], { axis: -1 }),
);

/** x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), from operators that have derivatives. */
function geluTanh(graph: Builder, x: Value): Value {
  const cube = graph.op("Mul", [graph.op("Mul", [x, x]), x]);
  const inner = graph.op("Add", [x, graph.op("Mul", [cube, graph.scalar(0.044715)])]);
  const bend = graph.op("Tanh", [graph.op("Mul", [inner, graph.scalar(0.7978845608028654)])]);
  return graph.op("Mul", [graph.op("Mul", [x, graph.scalar(0.5)]), graph.op("Add", [bend, graph.scalar(1)])]);
}

/** `[.., 2n] -> [.., n]`: a value half and a gate half. */
function gated(
  type: string,
  meaning: string,
  build: (site: BuildSite, input: Value) => Value,
  keys: KeySpecs = {},
): NodeType {
  return {
    type,
    meaning: `Splits the last axis in a value and a gate half: \`[.., 2n] -> [.., n]\`, ${meaning}.`,
    keys,
    inputs: one,
    outputs: oneOutput,
    root: () => ({ kind: "floats" }),
    describe: (site) => {
      const input = floatInput(site);
      const size = lastAxis(input.shape);
      if (size % 2 !== 0) refuse(site, `the last axis of its input ${showShape(input.shape)} must be even`);
      return description([floats([...input.shape.slice(0, -1), size / 2])], {
        flops: 4 * elementCount(input.shape),
      });
    },
    build: (site) => [build(site, site.input(0))],
  };
}

export const swiglu = gated("swiglu", "`value * silu(gate)`", ({ graph }, x) => graph.op("SwiGlu", [x]));

export const geglu = gated(
  "geglu",
  "`value * gelu(gate)`",
  ({ graph, config }, x) => {
    const half = lastAxis(x.shape) / 2;
    const axis = x.shape.length - 1;
    const [value, gate] = graph.ops("Split", [x], { axis, split: [half, half] }, 2) as [Value, Value];
    const bent = config.text("approximate") === "tanh" ? geluTanh(graph, gate) : graph.op("Gelu", [gate]);
    return graph.op("Mul", [value, bent]);
  },
  gelu.keys,
);
