// Cuts a VNode's graph where attention stands: what needs no attention's result is the first piece, what needs the first
// attention's the second, and so on. Values that a later piece needs travel between them.

import { assert } from "../../core/assert.ts";
import { extract } from "../../graph/extract.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../../graph/model.ts";
import { operatorOf } from "../../graph/operators/registry.ts";
import {
  adaptersInput,
  hiddenOutput,
  logitsOutput,
  type UnitAttention,
  type UnitPlan,
  type UnitRows,
  type UnitStep,
} from "../../graph/unit.ts";

/** Constants, weights and what is made of them alone belong to every piece that uses them. */
const everywhere = -1;

export function cutAtAttention(
  model: GraphModel,
  attentions: readonly UnitAttention[],
  weights: ReadonlySet<string>,
): UnitPlan {
  const infos = inferAll(model);
  const levels = new Levels(model, attentions, weights);
  const attended = new Set(attentions.map(({ result }) => result));
  const inner = new Set(attentions.flatMap(({ query, key, value }) => [query.of, key.of, value.of]));
  const leaving = model.outputs.filter(({ name }) => !inner.has(name));
  const last = Math.max(0, ...model.nodes.map((node) => levels.of(node.outputs[0] as string)));
  const steps: UnitStep[] = [];
  for (let level = 0; level <= last; level++) {
    const nodes = model.nodes.filter((node) => [everywhere, level].includes(levels.of(node.outputs[0] as string)));
    const made = new Set(nodes.flatMap((node) => (isOfLevel(levels, node, level) ? node.outputs : [])));
    const later = new Set(
      model.nodes.filter((node) => levels.of(node.outputs[0] as string) > level).flatMap(({ inputs }) => inputs),
    );
    const wanted = [...made].filter(
      (name) => later.has(name) || inner.has(name) || leaving.some((output) => output.name === name),
    );
    const piece = { model, infos, nodes, weights, level };
    // A graph of its own: most rows' hidden states are asked for by nobody.
    const aside = level === last && wanted.includes(hiddenOutput);
    const others = aside ? wanted.filter((name) => name !== hiddenOutput) : wanted;
    if (others.length > 0)
      steps.push(pieceOf({ ...piece, wanted: others, rows: rowsOf(others, leaving, level === last) }));
    if (aside) steps.push(pieceOf({ ...piece, wanted: [hiddenOutput], rows: "hidden" }));
    for (const attention of attentions)
      if (levels.of(attention.result) === level + 1) steps.push({ kind: "attend", ...attention });
  }
  const inputs = model.inputs.filter(({ name }) => !weights.has(name) && !attended.has(name));
  return { name: model.name, inputs, steps, outputs: leaving };
}

/** Where nothing but logits leaves, rows whose logits nobody asks for need not go through. */
function rowsOf(wanted: readonly string[], leaving: readonly ValueInfo[], isLast: boolean): UnitRows {
  const others = leaving.filter(({ name }) => name !== logitsOutput && name !== hiddenOutput);
  return isLast && others.length === 0 && wanted.length === 1 && wanted[0] === logitsOutput ? "logits" : "all";
}

function isOfLevel(levels: Levels, { outputs }: GraphNode, level: number): boolean {
  return levels.of(outputs[0] as string) === level;
}

interface Piece {
  readonly model: GraphModel;
  readonly infos: ReadonlyMap<string, ValueInfo>;
  readonly nodes: readonly GraphNode[];
  readonly wanted: readonly string[];
  readonly weights: ReadonlySet<string>;
  readonly level: number;
  readonly rows: UnitRows;
}

function pieceOf({ model, infos, nodes, wanted, weights, level, rows }: Piece): UnitStep {
  const outputs = wanted.map((name) => ({ value: infos.get(name) as ValueInfo, name }));
  const constants = new Map(Object.entries(model.constants));
  const whole = extract({
    name: `${model.name}.${level}${rows === "hidden" ? ".hidden" : ""}`,
    inputs: [],
    outputs,
    nodes,
    constants,
  });
  const made = new Set(whole.nodes.flatMap((node) => node.outputs));
  const used = new Set(whole.nodes.flatMap((node) => node.inputs));
  const inputs = [...used].filter((name) => !made.has(name) && !(name in whole.constants));
  const graph = { ...whole, inputs: inputs.map((name) => infos.get(name) as ValueInfo) };
  return {
    kind: "graph",
    graph,
    weights: inputs.filter((name) => weights.has(name)),
    rows,
  };
}

/** How many attentions lie before each value. */
class Levels {
  readonly #known = new Map<string, number>();
  readonly #producers = new Map<string, GraphNode>();
  readonly #attentions: ReadonlyMap<string, UnitAttention>;

  constructor(model: GraphModel, attentions: readonly UnitAttention[], weights: ReadonlySet<string>) {
    this.#attentions = new Map(attentions.map((each) => [each.result, each]));
    for (const node of model.nodes) for (const output of node.outputs) this.#producers.set(output, node);
    for (const name of [...weights, ...Object.keys(model.constants)]) this.#known.set(name, everywhere);
    for (const { name } of model.inputs)
      if (!weights.has(name) && !this.#attentions.has(name))
        // Matrices that rows pick by their adapters are picked where they are used: they would be large on their way.
        this.#known.set(name, name === adaptersInput ? everywhere : 0);
  }

  of(name: string): number {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const attention = this.#attentions.get(name);
    const producer = this.#producers.get(name);
    assert(attention !== undefined || producer !== undefined, `${name} is computed`);
    const level =
      attention !== undefined
        ? 1 + Math.max(...[attention.query, attention.key, attention.value].map((part) => this.of(part.of)))
        : Math.max(everywhere, ...(producer as GraphNode).inputs.map((input) => this.of(input)));
    this.#known.set(name, level);
    return level;
  }
}

function inferAll(model: GraphModel): Map<string, ValueInfo> {
  const infos = new Map(model.inputs.map((info) => [info.name, info]));
  for (const [name, { dtype, shape }] of Object.entries(model.constants)) infos.set(name, { name, dtype, shape });
  for (const node of model.nodes) {
    const given = node.inputs.map((name) => infos.get(name) as ValueInfo);
    const results = operatorOf(node.op).infer(given, node.attributes);
    for (const [i, name] of node.outputs.entries())
      infos.set(name, { name, ...(results[i] as Pick<ValueInfo, "dtype" | "shape">) });
  }
  return infos;
}
