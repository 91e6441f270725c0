// Where the parameters of a VNode lie in its memory. Weights, gradients and moments share one layout, so that few
// kernel calls work on all of them: embedding tables first, whose gradients come as rows; then other parameters
// that decay, then those that do not; then, in gradients only, borrowed weights, and in weights only, frozen ones.

import { elementCount, type Shape, type Tensor } from "../core/tensor.ts";
import type { Float32Span, SharedBytes } from "../engine/engine.ts";
import { alignElements } from "../network/lanes.ts";
import type { PortPlan, VNodePlan } from "../network/plan.ts";

export interface Place {
  readonly name: string;
  readonly shape: Shape;
  /** In elements. */
  readonly start: number;
  readonly length: number;
}

export interface Layout {
  /** Those that learn. */
  readonly parameters: readonly Place[];
  /** Behind them, in weights only: what stays as it is. */
  readonly frozen: readonly Place[];
  /** Input ports that carry another VNode's weights; only gradients have room for them. */
  readonly ties: readonly Place[];
  /** Elements of parameters whose gradients come as rows alone. */
  readonly sparseLength: number;
  /** Elements before the first parameter without weight decay. */
  readonly decayLength: number;
  /** Elements of all parameters that learn, with padding. */
  readonly weightLength: number;
  /** Elements of all weights, frozen ones included. */
  readonly storedLength: number;
  /** Elements of parameters and ties. */
  readonly gradientLength: number;
}

/** `sparse` names the parameters without a dense gradient. */
export function layoutOf(plan: VNodePlan, tiePorts: readonly PortPlan[], sparse: ReadonlySet<string>): Layout {
  let at = 0;
  const place = ({ name, shape }: { name: string; shape: Shape }): Place => {
    const start = at;
    const length = elementCount(shape);
    at = Math.ceil((start + length) / alignElements) * alignElements;
    return { name, shape, start, length };
  };
  const learnt = plan.parameters.filter(({ frozen }) => !frozen);
  const decaying = learnt.filter((parameter) => parameter.decay);
  const tables = decaying.filter((parameter) => sparse.has(parameter.name)).map(place);
  const sparseLength = at;
  const matrices = decaying.filter((parameter) => !sparse.has(parameter.name)).map(place);
  const decayLength = at;
  const others = learnt.filter((parameter) => !parameter.decay).map(place);
  const weightLength = at;
  const ties = tiePorts.map(place);
  const gradientLength = at;
  at = weightLength;
  const frozen = plan.parameters.filter((parameter) => parameter.frozen).map(place);
  const lengths = { sparseLength, decayLength, weightLength, gradientLength, storedLength: at };
  return { parameters: [...tables, ...matrices, ...others], frozen, ties, ...lengths };
}

export function spanOf(memory: SharedBytes, start: number, length: number): Float32Span {
  return { memory, start, length };
}

/** `before` elements of the layout lie in front of `memory`. */
export function tensorAt(memory: SharedBytes, place: Place, before = 0): Tensor {
  const data = new Float32Array(memory.buffer, memory.offset + 4 * (place.start - before), place.length);
  return { dtype: "float32", shape: place.shape, data };
}
