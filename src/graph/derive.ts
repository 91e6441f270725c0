// From a forward graph to what a VNode runs in training: a forward that keeps what the backward needs and the
// backward itself, or one graph with loss and gradients. Gradients are named `grad:` + what they belong to.

import { fail } from "../core/errors.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import { differentiate, type Gradients, type SparseRows } from "./differentiate.ts";
import { extract } from "./extract.ts";
import { fuseSums } from "./fuse.ts";
import { lowerModel } from "./lower.ts";
import { mergeLinears } from "./merge.ts";
import type { GraphModel, GraphNode, ValueInfo } from "./model.ts";
import { chooseSaved } from "./saving.ts";
import { justInTime, reducersFirst } from "./schedule.ts";

/** The runtime adds row i of `gradient` to row ids[i] of the parameter's gradient, in index order. */
export interface SparseGradient {
  readonly parameter: string;
  /** The graph input that holds the ids. */
  readonly ids: string;
  /** The output with the rows' gradients, [ids, width]. */
  readonly gradient: string;
}

export interface BackwardRequest {
  /** Names of inputs. */
  readonly gradientsOf: readonly string[];
  /** Names of outputs whose gradients come from outside. */
  readonly from: readonly string[];
}

export interface ForwardAndBackward {
  /** The given graph's outputs, then `saved`. */
  readonly forward: GraphModel;
  /** Its inputs: `saved`, then those of the forward's inputs that it needs, then `grad:` + outputs. */
  readonly backward: GraphModel;
  readonly saved: readonly ValueInfo[];
  readonly sparse: readonly SparseGradient[];
}

export function deriveBackward(given: GraphModel, wanted: BackwardRequest): ForwardAndBackward {
  const forward = mergeLinears(given);
  const joint = new GraphBuilder(forward.name);
  const values = joint.replay(forward);
  const forwardNodes = [...joint.nodes];
  const seeds = new Map<string, Value>();
  for (const name of wanted.from) {
    const { dtype, shape } = outputNamed(forward, name);
    const seed = joint.input(`grad:${name}`, dtype, shape);
    const target = valueNamed(values, name);
    const before = seeds.get(target.name);
    seeds.set(target.name, before ? joint.op("Add", [before, seed]) : seed);
  }
  const gradients = differentiate(joint, forwardNodes, seeds, targetsOf(forward, wanted.gradientsOf));
  const { outputs, sparse } = gradientOutputs(joint, forward, wanted.gradientsOf, gradients);
  const gradientNodes = joint.nodes.slice(forwardNodes.length);
  const saved = savedValues(joint, forwardNodes, gradientNodes, outputs);
  return {
    forward: withSaved(joint, forward, values, saved),
    backward: backwardPart(joint, forwardNodes, gradientNodes, { outputs, saved }),
    saved: saved.map(savedInfo),
    sparse,
  };
}

export interface TrainingRequest {
  /** The output that holds the scalar loss. */
  readonly loss: string;
  /** What the loss is multiplied with before its gradient is taken; the loss output itself is not scaled. */
  readonly lossScale: number;
  readonly gradientsOf: readonly string[];
}

/** One graph that yields the outputs and then the gradients. */
export function deriveTraining(
  given: GraphModel,
  wanted: TrainingRequest,
): { graph: GraphModel; sparse: readonly SparseGradient[] } {
  const forward = mergeLinears(given);
  const joint = new GraphBuilder(forward.name);
  const values = joint.replay(forward);
  const forwardNodes = [...joint.nodes];
  const loss = outputNamed(forward, wanted.loss);
  if (loss.shape.some((size) => size !== 1))
    fail(
      "invalid_argument",
      `the loss "${loss.name}" of graph ${forward.name} has the shape [${loss.shape}]: it must be one number`,
    );
  const seed = joint.op("Reshape", [joint.scalar(wanted.lossScale)], { shape: loss.shape });
  const seeds = new Map([[valueNamed(values, wanted.loss).name, seed]]);
  const gradients = differentiate(joint, forwardNodes, seeds, targetsOf(forward, wanted.gradientsOf));
  const { outputs, sparse } = gradientOutputs(joint, forward, wanted.gradientsOf, gradients);
  const gradientNodes = joint.nodes.slice(forwardNodes.length);
  const forwardOutputs = forward.outputs.map(({ name }) => ({ value: valueNamed(values, name), name }));
  const whole = extract({
    name: forward.name,
    inputs: forward.inputs,
    outputs: [...forwardOutputs, ...outputs],
    nodes: justInTime(gradientNodes, forwardNodes),
    constants: joint.constants,
  });
  return { graph: finish(whole), sparse };
}

type NamedOutput = { readonly value: Value; readonly name: string };

function finish(model: GraphModel): GraphModel {
  return reducersFirst(fuseSums(lowerModel(model)));
}

function outputNamed(model: GraphModel, name: string): ValueInfo {
  return (
    model.outputs.find((output) => output.name === name) ??
    fail(
      "not_found",
      `graph ${model.name} has no output named "${name}"; it has ${model.outputs.map((o) => o.name).join(", ")}`,
    )
  );
}

function valueNamed(values: ReadonlyMap<string, Value>, name: string): Value {
  return values.get(name) ?? fail("not_found", `no value is named "${name}"`);
}

function targetsOf(model: GraphModel, names: readonly string[]): Set<string> {
  for (const name of names)
    if (!model.inputs.some((input) => input.name === name))
      fail("not_found", `graph ${model.name} has no input named "${name}" to take a gradient of`);
  return new Set(names);
}

/** Inputs that nothing depends on get zeros, so that callers need not know; tables may have rows instead. */
function gradientOutputs(
  joint: GraphBuilder,
  model: GraphModel,
  names: readonly string[],
  { dense, sparse }: Gradients,
) {
  const outputs: NamedOutput[] = [];
  const tables = new Set(sparse.map(({ table }) => table.name));
  for (const name of names) {
    const value = dense.get(name);
    if (value === undefined && tables.has(name)) continue;
    const { shape } = joint.valueOf(name);
    outputs.push({ value: value ?? joint.op("Expand", [joint.scalar(0)], { shape }), name: `grad:${name}` });
  }
  const counts = new Map<string, number>();
  const described = sparse.map(({ table, ids, rows }): SparseGradient => {
    const count = counts.get(table.name) ?? 0;
    counts.set(table.name, count + 1);
    const gradient = count === 0 ? `rows:${table.name}` : `rows:${table.name}:${count}`;
    outputs.push({ value: rows, name: gradient });
    return { parameter: inputName(joint, model, table), ids: inputName(joint, model, ids), gradient };
  });
  return { outputs, sparse: described };
}

/** The graph input behind a value that is at most reshaped or cast. */
function inputName(joint: GraphBuilder, model: GraphModel, value: SparseRows["ids"]): string {
  const producer = joint.producerOf(value);
  if (producer?.op === "Reshape" || producer?.op === "Cast")
    return inputName(joint, model, joint.valueOf(producer.inputs[0] as string));
  if (producer === undefined && !value.constant) return value.name;
  return fail(
    "unimplemented",
    `graph ${model.name}: a table and the ids that are looked up in it must be inputs of the graph`,
  );
}

/** A forward value that crosses over to the backward graph. */
interface Saved {
  readonly value: Value;
  /** How it crosses over: as rows of a matrix where a product made it, since an output that is reshaped is copied. */
  readonly form: Value;
}

function savedInfo({ value, form }: Saved): ValueInfo {
  return { name: `saved:${value.name}`, dtype: form.dtype, shape: form.shape };
}

function savedValues(
  joint: GraphBuilder,
  forwardNodes: readonly GraphNode[],
  gradientNodes: readonly GraphNode[],
  outputs: readonly NamedOutput[],
): Saved[] {
  const produced = new Set(forwardNodes.flatMap((node) => node.outputs));
  const used = [...gradientNodes.flatMap((node) => node.inputs), ...outputs.map(({ value }) => value.name)];
  const needed = new Set(used.filter((name) => produced.has(name)));
  const saved = chooseSaved({ nodes: forwardNodes, needed, infoOf: (name) => joint.valueOf(name) });
  return saved.map((name) => {
    const value = joint.valueOf(name);
    const flat = joint.producerOf(value)?.op === "Linear";
    return { value, form: flat ? joint.op("Reshape", [value], { shape: [-1, value.shape.at(-1) as number] }) : value };
  });
}

function withSaved(
  joint: GraphBuilder,
  forward: GraphModel,
  values: ReadonlyMap<string, Value>,
  saved: readonly Saved[],
): GraphModel {
  const outputs = forward.outputs.map(({ name }) => ({ value: valueNamed(values, name), name }));
  const kept = saved.map((item) => ({ value: item.form, name: savedInfo(item).name }));
  const { name, inputs } = forward;
  return finish(
    extract({ name, inputs, outputs: [...outputs, ...kept], nodes: joint.nodes, constants: joint.constants }),
  );
}

function backwardPart(
  joint: GraphBuilder,
  forwardNodes: readonly GraphNode[],
  gradientNodes: readonly GraphNode[],
  { outputs, saved }: { outputs: readonly NamedOutput[]; saved: readonly Saved[] },
): GraphModel {
  const names = new Map<string, string>();
  const restored: GraphNode[] = [];
  for (const item of saved) {
    const { value, form } = item;
    const { name } = savedInfo(item);
    names.set(value.name, value === form ? name : `whole:${value.name}`);
    if (value !== form)
      restored.push({
        op: "Reshape",
        name: `whole:${value.name}`,
        inputs: [name],
        outputs: [`whole:${value.name}`],
        attributes: { shape: value.shape },
      });
  }
  const renamed = (name: string) => names.get(name) ?? name;
  const rename = (node: GraphNode): GraphNode => ({ ...node, inputs: node.inputs.map(renamed) });
  const again = forwardNodes.filter((node) => !node.outputs.every((output) => names.has(output)));
  const part = extract({
    name: `${joint.name}:backward`,
    inputs: [...saved.map(savedInfo), ...joint.inputs],
    outputs: outputs.map(({ value, name }) => ({ value: { ...value, name: renamed(value.name) }, name })),
    nodes: justInTime(gradientNodes.map(rename), [...restored, ...again.map(rename)]),
    constants: joint.constants,
  });
  const lowered = finish(part);
  const used = new Set(lowered.nodes.flatMap((node) => node.inputs));
  return { ...lowered, inputs: lowered.inputs.filter((input) => used.has(input.name)) };
}
