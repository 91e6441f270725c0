// From a graph to steps: every node becomes a view, a loop, a product, a call of its reference kernel, or part of another
// node's loop.

import { fail } from "../../core/errors.ts";
import { type DType, elementCount, type Shape, type Tensor, tensorBytes } from "../../core/tensor.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel, GraphNode } from "../../graph/model.ts";
import { numberOf, stridesOf } from "../../graph/operators/check.ts";
import type { Kernel, Value } from "../../graph/operators/operator.ts";
import { operatorOf } from "../../graph/operators/registry.ts";
import { type Code, f32x4, get, i32x4 } from "../kernels/wasm.ts";
import { type Context, contiguous, type Expression, pushCopy, pushLoop, type Step, type Vector } from "./context.ts";
import { elementwiseCode, fitsLanes, isElementwise } from "./elementwise.ts";
import { type Fusion, fuse, loopOf } from "./fuse.ts";
import { lowerConv, lowerConvTranspose, lowerPool } from "./images.ts";
import {
  lowerConcat,
  lowerExpand,
  lowerGather,
  lowerGatherElements,
  lowerPad,
  lowerReshape,
  lowerRotary,
  lowerScatterElements,
  lowerSlice,
  lowerSplit,
  lowerTranspose,
} from "./moves.ts";
import { lowerIntegerProduct, lowerProduct } from "./products.ts";
import { lowerReduction } from "./reductions.ts";
import { lowerLayerNormalization, lowerSoftmax } from "./rows.ts";
import { broadcastTo, isContiguous, type View, wholeView } from "./views.ts";

/** What a buffer stands for: memory of the arena, or a tensor that is given for a run or once. */
export type Buffer =
  | { readonly kind: "arena"; readonly bytes: number }
  | { readonly kind: "input" | "output"; readonly index: number; readonly bytes: number }
  | { readonly kind: "constant"; readonly tensor: Tensor; readonly bytes: number };

export interface LoweredGraph {
  readonly buffers: readonly Buffer[];
  readonly steps: readonly Step[];
}

/** Gives false where it leaves the node to the reference kernel. */
type Lowering = (context: Context, node: GraphNode) => boolean;

/**
 * Not here, because WebAssembly would win nothing: float64, int64 and uint8 arithmetic, products without elements, and
 * MaxPool when the places of its maxima are asked for. They run by the reference kernels.
 */
const lowerings: Readonly<Record<string, Lowering>> = {
  BatchNormalization: lowerBatchNormalization,
  Concat: lowerConcat,
  Conv: lowerConv,
  ConvTranspose: lowerConvTranspose,
  Expand: lowerExpand,
  FusedMatMul: lowerProduct,
  Gather: lowerGather,
  GatherElements: lowerGatherElements,
  IntegerMatMul: lowerIntegerProduct,
  Gemm: lowerProduct,
  Identity: lowerReshape,
  LayerNormalization: lowerLayerNormalization,
  LogSoftmax: lowerSoftmax,
  MatMul: lowerProduct,
  AveragePool: lowerPool,
  MaxPool: lowerPool,
  Pad: lowerPad,
  ReduceMax: lowerReduction,
  ReduceMean: lowerReduction,
  ReduceSum: lowerReduction,
  Reshape: lowerReshape,
  RotaryEmbedding: lowerRotary,
  ScatterElements: lowerScatterElements,
  Slice: lowerSlice,
  Softmax: lowerSoftmax,
  Split: lowerSplit,
  Transpose: lowerTranspose,
};

export function lowerGraph(given: GraphModel): LoweredGraph {
  const graph = given.nodes.some(({ op }) => operatorOf(op).lower !== undefined) ? lowerModel(given) : given;
  return new GraphLowering(graph).run();
}

class GraphLowering implements Context {
  readonly #graph: GraphModel;
  readonly #infos = new Map<string, Value>();
  readonly #views = new Map<string, View>();
  readonly #readers = new Map<string, GraphNode[]>();
  readonly #buffers: Buffer[] = [];
  readonly #steps: Step[] = [];
  readonly #fusion: Fusion;

  constructor(graph: GraphModel) {
    this.#graph = graph;
    for (const [index, { name, dtype, shape }] of graph.inputs.entries()) {
      this.#infos.set(name, { name, dtype, shape });
      this.#views.set(name, this.#buffer({ kind: "input", index, bytes: tensorBytes(dtype, shape) }, dtype, shape));
    }
    for (const [name, tensor] of Object.entries(graph.constants)) {
      this.#infos.set(name, { name, dtype: tensor.dtype, shape: tensor.shape, constant: tensor });
      this.#views.set(name, this.constant(tensor));
    }
    for (const node of graph.nodes) this.#infer(node);
    this.#fusion = fuse(graph, (name) => this.info(name), { isElementwise });
  }

  #infer(node: GraphNode): void {
    const results = operatorOf(node.op).infer(
      node.inputs.map((name) => {
        this.#readers.set(name, [...(this.#readers.get(name) ?? []), node]);
        return this.info(name);
      }),
      node.attributes,
    );
    for (const [i, name] of node.outputs.entries()) {
      const result =
        results[i] ?? fail("invalid_argument", `graph "${this.#graph.name}": ${node.name} has no output ${i}`);
      this.#infos.set(name, { name, dtype: result.dtype, shape: result.shape });
    }
  }

  run(): LoweredGraph {
    for (const node of this.#graph.nodes) {
      if (this.#fusion.isInside(node)) continue;
      if (this.#fusion.isElementwise(node)) this.#elementwise(node);
      else if (lowerings[node.op]?.(this, node) !== true) this.#reference(node);
    }
    for (const [index, { name }] of this.#graph.outputs.entries()) this.#deliver(name, index);
    return { buffers: this.#buffers, steps: this.#steps };
  }

  info(name: string): Value {
    return (
      this.#infos.get(name) ??
      fail("invalid_argument", `graph "${this.#graph.name}" uses "${name}" before it is computed`)
    );
  }

  view(name: string): View {
    return this.#views.get(name) as View;
  }

  define(name: string, view: View): void {
    this.#views.set(name, view);
  }

  #buffer(buffer: Buffer, dtype: DType, shape: Shape): View {
    return wholeView(this.#buffers.push(buffer) - 1, dtype, shape);
  }

  constant(tensor: Tensor): View {
    return this.#buffer({ kind: "constant", tensor, bytes: tensor.data.byteLength }, tensor.dtype, tensor.shape);
  }

  fresh(dtype: DType, shape: Shape): View {
    return this.#buffer({ kind: "arena", bytes: tensorBytes(dtype, shape) }, dtype, shape);
  }

  /** Where a Transpose is the only reader and moves no last axis, the result is written in the order that it wants. */
  result(name: string): View {
    const { dtype, shape } = this.info(name);
    const view = this.fresh(dtype, shape);
    const readers = this.#readers.get(name) ?? [];
    const perm = readers[0]?.op === "Transpose" ? readers[0].attributes["perm"] : undefined;
    const isOutput = this.#graph.outputs.some((output) => output.name === name);
    if (!Array.isArray(perm) || readers.length !== 1 || isOutput || perm.at(-1) !== shape.length - 1) return view;
    const wanted = stridesOf(perm.map((axis: number) => shape[axis] as number));
    return { ...view, strides: shape.map((_, axis) => wanted[perm.indexOf(axis)] as number) };
  }

  step(step: Step): void {
    this.#steps.push(step);
  }

  #elementwise(node: GraphNode): void {
    const out = node.outputs[0] as string;
    const expression = this.expressionOf(node, out, this.info(out).shape);
    const result = this.result(out);
    const names = [...this.#fusion.membersOf(node), node].map(({ op }) => op);
    pushLoop(this, result, expression, names.join("+"));
    this.define(out, result);
  }

  expressionOf(root: GraphNode, value: string, shape: Shape): Expression {
    const { nodes, reads } = loopOf(this.#fusion, root, value);
    const literals = new Map<string, Vector>();
    for (const name of reads) {
      const literal = literalOf(this.info(name));
      if (literal !== undefined) literals.set(name, literal);
    }
    const names = [...reads].filter((name) => !literals.has(name));
    return {
      leaves: names.map((name) => broadcastTo(this.view(name), shape)),
      dtype: this.info(value).dtype,
      compute: (fn, loaded) => {
        const known = new Map<string, Code<"v128">>();
        for (const [name, literal] of literals) known.set(name, fn.literal(literal));
        for (const [i, name] of names.entries()) known.set(name, get(fn.keep(loaded[i] as Vector)));
        for (const node of nodes) {
          const inputs = node.inputs.map((name) => known.get(name) as Vector);
          const [from, to] = [node.inputs[0], node.outputs[0]].map((name) => this.info(name as string).dtype);
          known.set(node.outputs[0] as string, elementwiseCode(fn, node, inputs, from as DType, to as DType));
        }
        return known.get(value) as Vector;
      },
    };
  }

  /** The operator's own kernel, on contiguous views. */
  #reference(node: GraphNode): void {
    const infos = node.inputs.map((name) => this.info(name));
    const reads = node.inputs.map((name) => this.#contiguousOf(this.view(name)));
    const results = node.outputs.map((name) => this.info(name));
    const writes = results.map(({ dtype, shape }) => this.fresh(dtype, shape));
    const kernel = operatorOf(node.op).plan(infos, results, node.attributes);
    this.step({ kind: "kernel", what: node.op, kernel, reads, writes });
    for (const [i, name] of node.outputs.entries()) this.define(name, writes[i] as View);
  }

  /** Elements that lanes cannot hold are copied by JavaScript. */
  #contiguousOf(view: View): View {
    if (isContiguous(view) || fitsLanes(view.dtype)) return contiguous(this, view);
    const whole = this.#wholeBuffer(view);
    const copy = this.fresh(view.dtype, view.shape);
    this.step({ kind: "kernel", what: "copy", reads: [whole], writes: [copy], kernel: stridedCopy(view) });
    return copy;
  }

  #wholeBuffer(view: View): View {
    const { bytes } = this.#buffers[view.buffer] as Buffer;
    return wholeView(view.buffer, view.dtype, [bytes / tensorBytes(view.dtype, [1])]);
  }

  /** A computed buffer that is the output and nothing else becomes it; everything else is copied there. */
  #deliver(name: string, index: number): void {
    const { dtype, shape } = this.info(name);
    const view =
      this.#views.get(name) ?? fail("invalid_argument", `graph "${this.#graph.name}" never computes "${name}"`);
    const buffer = this.#buffers[view.buffer] as Buffer;
    const bytes = tensorBytes(dtype, shape);
    if (buffer.kind === "arena" && buffer.bytes === bytes && view.offset === 0 && isContiguous(view)) {
      this.#buffers[view.buffer] = { kind: "output", index, bytes };
      return;
    }
    const out = this.#buffer({ kind: "output", index, bytes }, dtype, shape);
    if (fitsLanes(dtype)) {
      pushCopy(this, out, view, "output");
      return;
    }
    const whole = this.#wholeBuffer(view);
    this.step({ kind: "kernel", what: "output", reads: [whole], writes: [out], kernel: stridedCopy(view) });
  }
}

/** A constant with one element is part of the code. */
function literalOf({ constant, dtype, shape }: Value): Vector | undefined {
  if (constant === undefined || elementCount(shape) !== 1) return undefined;
  const value = Number(constant.data[0]);
  if (dtype === "float32") return f32x4.splat(value);
  if (dtype === "int32") return i32x4.splat(value);
  return dtype === "bool" ? i32x4.splat(value === 0 ? 0 : -1) : undefined;
}

function stridedCopy({ shape, strides, offset }: View): Kernel {
  return (inputs, outputs) => {
    const [x, y] = [inputs[0] as Float32Array, outputs[0] as Float32Array];
    const place = new Array<number>(shape.length).fill(0);
    for (let i = 0, at = offset; i < y.length; i++) {
      y[i] = x[at] as number;
      for (let axis = shape.length - 1; axis >= 0; axis--) {
        at += strides[axis] as number;
        place[axis] = (place[axis] as number) + 1;
        if ((place[axis] as number) < (shape[axis] as number)) break;
        at -= (strides[axis] as number) * (shape[axis] as number);
        place[axis] = 0;
      }
    }
  };
}

function lowerBatchNormalization(context: Context, node: GraphNode): boolean {
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype !== "float32") return false;
  const [x, ...perChannel] = node.inputs.map((name) => context.view(name)) as [View, ...View[]];
  const channels = perChannel.map((view) => {
    const column = [shape[1] as number, ...shape.slice(2).map(() => 1)];
    const strides = [view.strides[0] as number, ...shape.slice(2).map(() => 0)];
    return broadcastTo({ ...view, shape: column, strides }, shape);
  });
  const epsilon = f32x4.splat(numberOf(node.attributes, "epsilon", 1e-5));
  const result = context.result(out);
  pushLoop(
    context,
    result,
    {
      leaves: [x, ...channels],
      dtype,
      compute: (_fn, loaded) => {
        const [value, scale, bias, mean, variance] = loaded as [Vector, Vector, Vector, Vector, Vector];
        const normal = f32x4.div(f32x4.sub(value, mean), f32x4.sqrt(f32x4.add(variance, epsilon)));
        return f32x4.add(f32x4.mul(normal, scale), bias);
      },
    },
    node.op,
  );
  context.define(out, result);
  return true;
}
