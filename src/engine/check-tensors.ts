// The check before every run, the same for all engines: names, types and shapes, in sentences that name the tensor.

import { fail } from "../core/errors.ts";
import { elementCount, sameShape, type Tensor } from "../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../graph/model.ts";
import type { Tensors } from "./engine.ts";

/** Names, types and shapes of everything that goes into a run. */
export function checkTensors(graph: GraphModel, feeds: Tensors, into: Tensors = {}): void {
  for (const info of graph.inputs) checkTensor(graph, "input", info, feeds[info.name]);
  for (const name of Object.keys(into)) {
    const info = graph.outputs.find((output) => output.name === name);
    if (info === undefined) fail("invalid_argument", `graph "${graph.name}" has no output "${name}"`);
    checkTensor(graph, "output", info, into[name]);
  }
}

function checkTensor(graph: GraphModel, what: string, info: ValueInfo, tensor: Tensor | undefined): void {
  const place = `${what} "${info.name}" of graph "${graph.name}"`;
  if (tensor === undefined) fail("invalid_argument", `${place} is missing`);
  if (tensor.dtype !== info.dtype) fail("invalid_argument", `${place} is ${tensor.dtype}, it must be ${info.dtype}`);
  if (!sameShape(tensor.shape, info.shape))
    fail("invalid_argument", `${place} has shape [${tensor.shape}], it must be [${info.shape}]`);
  if (tensor.data.length !== elementCount(info.shape))
    fail(
      "invalid_argument",
      `${place} holds ${tensor.data.length} elements, its shape [${info.shape}] needs ${elementCount(info.shape)}`,
    );
}
