// The reference engine: graphs executed by the operators' own plain kernels. Slow on big tensors, quick on tiny
// ones, and the oracle that the other engines are compared with. In float64 mode every float of a graph is a
// double, so that finite differences can check derivatives.

import { fail } from "../core/errors.ts";
import { allocate, type DType, elementCount, sameShape, type Tensor, type TensorData } from "../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../graph/model.ts";
import type { Kernel } from "../graph/operators/operator.ts";
import { operatorOf } from "../graph/operators/registry.ts";
import { sameData } from "../graph/operators/shapes/copy.ts";
import type { Engine, Program, Tensors } from "./engine.ts";

export interface ReferenceOptions {
  /** What stands for a graph's float32 values. */
  readonly dtype?: "float32" | "float64";
}

export function openReferenceEngine(options: ReferenceOptions = {}): Engine {
  const float = options.dtype ?? "float32";
  return {
    kind: "reference",
    load: async (graph) => planProgram(graph, float),
    numericsClass: async () => "reference",
    close: async () => {},
  };
}

interface Step {
  readonly kernel: Kernel;
  readonly inputs: TensorData[];
  readonly outputs: TensorData[];
}

/** A place in a step's lists where the data of a graph input or output stands. */
interface Place {
  readonly list: TensorData[];
  readonly index: number;
}

interface ProgramPlan {
  readonly graph: GraphModel;
  readonly float: DType;
  readonly steps: readonly Step[];
  /** Where each graph input and output is used; everything else stays in place from run to run. */
  readonly inputPlaces: readonly (readonly Place[])[];
  readonly outputPlaces: readonly (readonly Place[])[];
}

/** Everything that depends on shapes happens here, once; a run only calls kernels. */
function planProgram(graph: GraphModel, float: DType): Program {
  const values = new Map<string, ValueInfo>();
  const slots = new Map<string, number>();
  const memory: TensorData[] = [];
  const define = (info: ValueInfo, data: TensorData) => {
    values.set(info.name, info);
    slots.set(info.name, memory.push(data) - 1);
  };
  const nothing = new Uint8Array(0);
  for (const input of graph.inputs) define(input, nothing);
  for (const [name, tensor] of Object.entries(graph.constants))
    define({ name, dtype: tensor.dtype, shape: tensor.shape }, inPrecision(tensor, float));
  const outputNames = new Set(graph.outputs.map((output) => output.name));
  const places = new Map<number, Place[]>();
  const listOf = (names: readonly string[]) => {
    const found = names.map((name) => slots.get(name) as number);
    const list = found.map((slot) => memory[slot] as TensorData);
    for (const [index, slot] of found.entries()) places.set(slot, [...(places.get(slot) ?? []), { list, index }]);
    return list;
  };
  const steps: Step[] = [];
  for (const node of graph.nodes) {
    const { kernel, outputs } = planNode(graph, node, values);
    if (kernel === sameData && !outputNames.has(node.outputs[0] as string)) {
      values.set(node.outputs[0] as string, outputs[0] as ValueInfo);
      slots.set(node.outputs[0] as string, slots.get(node.inputs[0] as string) as number);
      continue;
    }
    for (const info of outputs)
      define(info, outputNames.has(info.name) ? nothing : allocate(precise(info.dtype, float), info.shape).data);
    steps.push({ kernel, inputs: listOf(node.inputs), outputs: listOf(node.outputs) });
  }
  const placesOf = ({ name }: ValueInfo) => {
    const slot = slots.get(name) ?? fail("invalid_argument", `graph ${graph.name} never computes "${name}"`);
    return places.get(slot) ?? [];
  };
  const inputPlaces = graph.inputs.map(placesOf);
  const plan = { graph, float, steps, inputPlaces, outputPlaces: graph.outputs.map(placesOf) };
  return { run: async (feeds, into) => execute(plan, feeds, into), release: async () => {} };
}

function planNode(graph: GraphModel, node: GraphNode, values: ReadonlyMap<string, ValueInfo>) {
  const operator = operatorOf(node.op);
  const inputs = node.inputs.map((name) => {
    const info = values.get(name);
    return info ?? fail("invalid_argument", `graph ${graph.name}: ${node.name} uses "${name}" before it is computed`);
  });
  const results = operator.infer(inputs, node.attributes);
  const outputs = node.outputs.map((name, i) => {
    const result = results[i] ?? fail("invalid_argument", `graph ${graph.name}: ${node.name} has no output ${i}`);
    return { name, dtype: result.dtype, shape: result.shape };
  });
  return { kernel: operator.plan(inputs, outputs, node.attributes), outputs };
}

function execute(plan: ProgramPlan, feeds: Tensors, into?: Tensors): Tensors {
  const { graph, float, steps, inputPlaces, outputPlaces } = plan;
  for (let i = 0; i < graph.inputs.length; i++) {
    const input = graph.inputs[i] as ValueInfo;
    put(inputPlaces[i] as readonly Place[], feedOf(graph, input, feeds[input.name], float));
  }
  const results: Record<string, Tensor> = {};
  for (let i = 0; i < graph.outputs.length; i++) {
    const output = graph.outputs[i] as ValueInfo;
    const tensor = resultOf(output, into?.[output.name], float);
    results[output.name] = tensor;
    put(outputPlaces[i] as readonly Place[], tensor.data);
  }
  for (const { kernel, inputs, outputs } of steps) kernel(inputs, outputs);
  return results;
}

function put(places: readonly Place[], data: TensorData): void {
  for (const { list, index } of places) list[index] = data;
}

function resultOf({ name, dtype, shape }: ValueInfo, given: Tensor | undefined, float: DType): Tensor {
  const wanted = precise(dtype, float);
  if (given === undefined) return allocate(wanted, shape);
  if (given.dtype !== wanted || elementCount(given.shape) !== elementCount(shape))
    fail("invalid_argument", `output "${name}" is ${wanted}[${shape}], its buffer is ${given.dtype}[${given.shape}]`);
  return { dtype: wanted, shape, data: given.data };
}

function feedOf(graph: GraphModel, input: ValueInfo, tensor: Tensor | undefined, float: DType): TensorData {
  if (tensor === undefined) fail("invalid_argument", `graph ${graph.name} needs the input "${input.name}"`);
  const accepted = tensor.dtype === input.dtype || (tensor.dtype === float && input.dtype === "float32");
  if (!accepted || !sameShape(tensor.shape, input.shape))
    fail(
      "invalid_argument",
      `input "${input.name}" of graph ${graph.name} is ${input.dtype}[${input.shape}], got ${tensor.dtype}[${tensor.shape}]`,
    );
  return inPrecision(tensor, float);
}

function precise(dtype: DType, float: DType): DType {
  return dtype === "float32" ? float : dtype;
}

function inPrecision(tensor: Tensor, float: DType): TensorData {
  if (tensor.dtype === "float32" && float === "float64") return Float64Array.from(tensor.data as Float32Array);
  return tensor.data;
}
