// The kernels of optimizers as graphs of one operator each, so that a device computes them where weights, gradients and moments lie.
// Products and sums stand in the order of kernel-module.ts: where a device rounds as IEEE says, the bits are the same.
// Kernels that are not here run on the CPU, on what was downloaded.

import { fail } from "../../core/errors.ts";
import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../../graph/model.ts";

export interface DeviceKernel {
  readonly graph: GraphModel;
  /** Of the operands, in the call's order; the same one may be read under several names. */
  readonly operands: readonly string[];
  /** Of the numbers, in the call's order. */
  readonly numbers: readonly string[];
  /** By the place of the operand that is written. */
  readonly results: ReadonlyMap<number, string>;
}

const info = (name: string, shape: Shape): ValueInfo => ({ name, dtype: "float32", shape });

/** `result = a op b` or `result = op a`. */
type Line = readonly [result: string, op: string, ...inputs: string[]];

interface Recipe {
  readonly operands: readonly string[];
  readonly numbers: readonly string[];
  readonly results: Readonly<Record<number, string>>;
  readonly lines: readonly Line[];
}

const recipes: Readonly<Record<string, Recipe>> = {
  adam: {
    operands: ["weights", "gradient", "first", "second"],
    numbers: ["beta1", "rest1", "beta2", "rest2", "step", "root", "epsilon", "decay", "shrink", "scale"],
    results: { 0: "weights'", 2: "first'", 3: "second'" },
    lines: [
      ["scaled", "Mul", "gradient", "scale"],
      ["decayed", "Mul", "weights", "decay"],
      ["whole", "Add", "scaled", "decayed"],
      ["first1", "Mul", "first", "beta1"],
      ["first2", "Mul", "whole", "rest1"],
      ["first'", "Add", "first1", "first2"],
      ["second1", "Mul", "second", "beta2"],
      ["square", "Mul", "whole", "whole"],
      ["second2", "Mul", "square", "rest2"],
      ["second'", "Add", "second1", "second2"],
      ["deviation", "Sqrt", "second'"],
      ["corrected", "Mul", "deviation", "root"],
      ["divisor", "Add", "corrected", "epsilon"],
      ["direction", "Mul", "first'", "step"],
      ["change", "Div", "direction", "divisor"],
      ["kept", "Mul", "weights", "shrink"],
      ["weights'", "Sub", "kept", "change"],
    ],
  },
  sgd: {
    operands: ["weights", "gradient", "again"],
    numbers: ["rate", "momentum", "decay", "scale"],
    results: { 0: "weights'" },
    lines: [
      ["scaled", "Mul", "gradient", "scale"],
      ["decayed", "Mul", "weights", "decay"],
      ["whole", "Add", "scaled", "decayed"],
      ["change", "Mul", "whole", "rate"],
      ["weights'", "Sub", "weights", "change"],
    ],
  },
  sgdMomentum: {
    operands: ["weights", "gradient", "velocity"],
    numbers: ["rate", "momentum", "decay", "scale"],
    results: { 0: "weights'", 2: "velocity'" },
    lines: [
      ["scaled", "Mul", "gradient", "scale"],
      ["decayed", "Mul", "weights", "decay"],
      ["whole", "Add", "scaled", "decayed"],
      ["old", "Mul", "velocity", "momentum"],
      ["velocity'", "Add", "old", "whole"],
      ["change", "Mul", "velocity'", "rate"],
      ["weights'", "Sub", "weights", "change"],
    ],
  },
  accumulate: {
    operands: ["into", "add"],
    numbers: [],
    results: { 0: "into'" },
    lines: [["into'", "Add", "into", "add"]],
  },
};

export function runsOnDevice(name: string): boolean {
  return name in recipes || name === "sumOfSquares";
}

/** The kernel for operands of one shape. */
export function deviceKernel(name: string, shape: Shape): DeviceKernel {
  const recipe = recipes[name] ?? fail("internal", `the kernel ${name} does not run on devices`);
  const read = new Set(recipe.lines.flatMap(([, , ...inputs]) => inputs));
  const nodes = recipe.lines.map(([result, op, ...inputs]): GraphNode => {
    return { op, name: result, inputs, outputs: [result], attributes: {} };
  });
  const numbers = recipe.numbers.filter((number) => read.has(number));
  const operands = recipe.operands.filter((operand) => read.has(operand));
  const results = new Map(Object.entries(recipe.results).map(([place, result]) => [Number(place), result]));
  const graph: GraphModel = {
    name: `kernel ${name} of [${shape}]`,
    inputs: [...operands.map((operand) => info(operand, shape)), ...numbers.map((number) => info(number, []))],
    outputs: [...results.values()].map((result) => info(result, shape)),
    nodes,
    constants: {},
  };
  return { graph, operands: recipe.operands, numbers: recipe.numbers, results };
}

/** Sums of squares along the last axis: few enough for the CPU to add, in doubles and in order. */
export function squaresGraph(shape: Shape): GraphModel {
  const rows = shape.length > 1 ? elementCount(shape.slice(0, -1)) : 1;
  const flat = [rows, elementCount(shape) / rows];
  return {
    name: `squares of [${shape}]`,
    inputs: [info("of", shape)],
    outputs: [info("sums", [rows])],
    nodes: [
      { op: "Mul", name: "squares", inputs: ["of", "of"], outputs: ["squares"], attributes: {} },
      { op: "Reshape", name: "rows", inputs: ["squares"], outputs: ["rows"], attributes: { shape: flat } },
      { op: "ReduceSum", name: "sums", inputs: ["rows"], outputs: ["sums"], attributes: { axes: [1], keepdims: 0 } },
    ],
    constants: {},
  };
}
