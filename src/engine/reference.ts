// The reference engine: graphs executed by the operators' own plain kernels. Slow on big tensors, quick on tiny
// ones, and the oracle that the other engines are compared with. In float64 mode every float of a graph is a
// double, so that finite differences can check derivatives.

import { fail } from "../core/errors.ts";
import { allocate, type DType, elementCount, sameShape, type Tensor, type TensorData } from "../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../graph/model.ts";
import { sameData } from "../graph/operators/copy.ts";
import type { Kernel } from "../graph/operators/operator.ts";
import { operatorOf } from "../graph/operators/registry.ts";
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
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

interface ProgramPlan {
  readonly graph: GraphModel;
  readonly float: DType;
  readonly steps: readonly Step[];
  /** Where each graph input and output lives. */
  readonly inputSlots: readonly number[];
  readonly outputSlots: readonly number[];
  /** One array per slot; those of inputs and outputs are replaced at every run. */
  readonly memory: TensorData[];
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
  const steps: Step[] = [];
  for (const node of graph.nodes) {
    const step = planNode(graph, node, values);
    const alias = step.kernel === sameData && !outputNames.has(node.outputs[0] as string);
    for (const info of step.outputs) {
      if (alias) {
        values.set(info.name, info);
        slots.set(info.name, slots.get(node.inputs[0] as string) as number);
      } else define(info, outputNames.has(info.name) ? nothing : allocate(precise(info.dtype, float), info.shape).data);
    }
    if (alias) continue;
    const slotsOf = (names: readonly string[]) => names.map((name) => slots.get(name) as number);
    steps.push({ kernel: step.kernel, inputs: slotsOf(node.inputs), outputs: slotsOf(node.outputs) });
  }
  const inputSlots = graph.inputs.map((input) => slots.get(input.name) as number);
  const outputSlots = graph.outputs.map(
    (output) =>
      slots.get(output.name) ?? fail("invalid_argument", `graph ${graph.name} never computes "${output.name}"`),
  );
  const plan = { graph, float, steps, inputSlots, outputSlots, memory };
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

function execute(plan: ProgramPlan, feeds: Tensors, into: Tensors = {}): Tensors {
  const { graph, float, steps, inputSlots, outputSlots, memory } = plan;
  for (const [i, input] of graph.inputs.entries())
    memory[inputSlots[i] as number] = feedOf(graph, input, feeds[input.name], float);
  const results: Record<string, Tensor> = {};
  for (const [i, output] of graph.outputs.entries()) {
    const dtype = precise(output.dtype, float);
    const given = into[output.name];
    if (given && (given.dtype !== dtype || elementCount(given.shape) !== elementCount(output.shape)))
      fail(
        "invalid_argument",
        `output "${output.name}" is ${dtype}[${output.shape}], its buffer is ${given.dtype}[${given.shape}]`,
      );
    const tensor = { dtype, shape: output.shape, data: given?.data ?? allocate(dtype, output.shape).data };
    results[output.name] = tensor;
    memory[outputSlots[i] as number] = tensor.data;
  }
  for (const { kernel, inputs, outputs } of steps)
    kernel(
      inputs.map((slot) => memory[slot] as TensorData),
      outputs.map((slot) => memory[slot] as TensorData),
    );
  return results;
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
