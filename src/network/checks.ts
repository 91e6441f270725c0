// Checks of a node against what its definition declares: sizes, shapes, and what the dataset gives to all.

import { fail } from "../core/errors.ts";
import { elementCount, type Shape, sameShape } from "../core/tensor.ts";
import type { Config } from "./catalogue/config.ts";
import {
  type Description,
  lastAxis,
  type NodeType,
  refuse,
  type Signature,
  type Site,
  showShape,
} from "./catalogue/node-type.ts";
import type { DefinitionNode } from "./definition.ts";
import type { ResolvedNode } from "./resolve.ts";

interface Declared {
  readonly node: DefinitionNode;
  readonly nodeType: NodeType;
  readonly config: Config;
}

/** Sizes that a type gives no meaning of its own are checked: against the input, or else against the output. */
export function checkCommonSizes(site: Site, nodeType: NodeType, { outputs }: Description): void {
  const [input] = site.inputs;
  const [output] = outputs;
  const check = (key: string, axis: "first" | "last", ...of: (Signature | undefined)[]) => {
    const size = site.config.optionalNumber(key);
    const shapes = of.flatMap((signature) => (signature === undefined ? [] : [signature.shape]));
    if (size === undefined || key in nodeType.keys || shapes.length === 0) return;
    const found = shapes.map((shape) => (axis === "last" ? lastAxis(shape) : (shape[0] ?? 1)));
    if (!found.includes(size))
      refuse(
        site,
        `key "${key}" is ${size}, but the ${axis} axis of its ${key === "out_dim" ? "output" : "input"} ${showShape(shapes[0]!)} is ${found[0]}`,
      );
  };
  check("dim", "last", input, output);
  check("seq_len", "first", input, output);
  check("in_dim", "last", input);
  check("out_dim", "last", output);
}

/** Larger tensors fit no machine, and their sizes no exact number. */
const elementsMax = 2 ** 34;

export function checkSizes(site: Site, { outputs, parameters }: Description): void {
  for (const [slot, { shape }] of outputs.entries())
    if (elementCount(shape) > elementsMax)
      refuse(site, `output ${slot} ${showShape(shape)} has more than ${elementsMax} elements`);
  for (const { name, shape } of parameters)
    if (elementCount(shape) > elementsMax)
      refuse(site, `its weight "${name}" ${showShape(shape)} has more than ${elementsMax} elements`);
}

export function checkDeclaredInput({ node, config }: Declared, slot: number, found: Signature, source: string): void {
  const declared = node.inputShapes?.[slot] ?? (slot === 0 ? config.shape("input_shape") : undefined);
  if (declared !== undefined && !sameShape(declared, found.shape))
    refuse(
      node,
      `input ${slot} should have the shape ${showShape(declared)}, but ${source} has ${showShape(found.shape)}`,
    );
}

export function checkDeclaredOutputs({ node, config, nodeType }: Declared, { outputs }: Description): void {
  const declared: readonly (Shape | undefined)[] = node.outputShapes ?? [config.shape("output_shape")];
  if (declared.length > outputs.length)
    refuse(node, `output_shapes lists ${declared.length} outputs, but it has ${outputs.length}`);
  for (const [slot, shape] of declared.entries()) {
    if (shape === undefined) continue;
    const found = outputs[slot]!.shape;
    const scalar = nodeType.cost && elementCount(shape) === 1;
    if (!scalar && !sameShape(shape, found))
      refuse(node, `output ${slot} should have the shape ${showShape(shape)}, but it has ${showShape(found)}`);
  }
}

/** A dataset has one tensor of inputs and one of labels: all that take them must agree. */
export function checkData(nodes: readonly ResolvedNode[]): void {
  const taken: { what: string; node: string; signature: Signature }[] = [];
  for (const { id, inputs, inputSignatures, description } of nodes) {
    if (inputs[0]?.kind === "data") taken.push({ what: "inputs", node: id, signature: inputSignatures[0]! });
    if (description.labels !== undefined) taken.push({ what: "labels", node: id, signature: description.labels });
  }
  for (const what of ["inputs", "labels"]) {
    const [first, ...rest] = taken.filter((entry) => entry.what === what);
    for (const other of rest) {
      const same =
        other.signature.kind === first!.signature.kind && sameShape(other.signature.shape, first!.signature.shape);
      if (!same)
        fail(
          "invalid_argument",
          `node "${other.node}" takes ${show(other.signature)} as the dataset's ${what}, but "${first!.node}" takes ${show(first!.signature)}: they must be equal`,
        );
    }
  }
}

function show({ kind, shape }: Signature): string {
  return `${kind === "tokens" ? "token ids" : "floats"} ${showShape(shape)}`;
}
