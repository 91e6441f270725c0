// What `dcnr network analyze FILE` shows: shapes, parameters, work and memory of every node, and the
// operational VNodes with what was fused. Data first, a text for terminals second.

import { sha256 } from "../core/hash.ts";
import { wireBytes } from "../core/numbers/wire-types.ts";
import { elementCount, type Shape } from "../core/tensor.ts";
import { showShape } from "./catalogue/node-type.ts";
import { compile } from "./compile.ts";
import { parseDefinition } from "./definition.ts";
import type { DataPlan, Plan, VNodePlan } from "./plan.ts";
import { resolve } from "./resolve.ts";

export interface NodeAnalysis {
  readonly id: string;
  readonly type: string;
  readonly vnode: string;
  readonly inputs: readonly Shape[];
  readonly outputs: readonly Shape[];
  readonly parameters: number;
  /** Forward pass of one sample. */
  readonly flops: number;
}

export interface VNodeAnalysis {
  readonly id: string;
  readonly role: VNodePlan["role"];
  readonly nodes: readonly string[];
  /** Definition nodes that run as one operation, for example heads of attention. */
  readonly merged: readonly (readonly string[])[];
  readonly parameters: number;
  readonly flops: number;
  /** Weights, gradient and optimizer moments. */
  readonly stateBytes: number;
  /** Kept between forward and backward, one sample. */
  readonly savedBytes: number;
  /** What it sends per sample, forward and back. */
  readonly trafficBytes: number;
  readonly optimizer: string;
}

export interface Analysis {
  readonly name: string;
  readonly definition: string;
  readonly nodes: readonly NodeAnalysis[];
  readonly vnodes: readonly VNodeAnalysis[];
  readonly colocations: Plan["colocations"];
  readonly ties: readonly { readonly from: string; readonly to: string; readonly shape: Shape }[];
  readonly inputs?: DataPlan;
  readonly labels?: DataPlan;
  readonly totals: {
    readonly nodes: number;
    readonly vnodes: number;
    readonly parameters: number;
    /** One sample. */
    readonly forwardFlops: number;
    readonly trainingFlops: number;
    readonly stateBytes: number;
    readonly savedBytes: number;
    readonly trafficBytes: number;
  };
}

/** The backward pass does about twice the work of the forward pass: gradients of inputs and of weights. */
const trainingShare = 3;

export function analyze(text: string): Analysis {
  const definition = parseDefinition(text);
  const plan = compile(definition, sha256(text));
  const vnodeOf = new Map(plan.vnodes.flatMap((vnode) => vnode.nodes.map((node) => [node, vnode.id] as const)));
  const order = new Map(definition.nodes.map((node, index) => [node.id, index]));
  const nodes = resolve(definition)
    .toSorted((a, b) => order.get(a.id)! - order.get(b.id)!)
    .map(({ id, nodeType, inputSignatures, description }) => ({
      id,
      type: nodeType.type,
      vnode: vnodeOf.get(id)!,
      inputs: inputSignatures.map(({ shape }) => shape),
      outputs: description.outputs.map(({ shape }) => shape),
      parameters: total(description.parameters.map(({ shape }) => elementCount(shape))),
      flops: description.flops,
    }));
  const byId = new Map(plan.vnodes.map((vnode) => [vnode.id, vnode]));
  const vnodes = plan.order.map((id) => analyzeVNode(plan, byId.get(id)!));
  const forwardFlops = total(vnodes.map((vnode) => vnode.flops));
  return {
    name: plan.name,
    definition: plan.definition,
    nodes,
    vnodes,
    colocations: plan.colocations,
    ties: plan.edges
      .filter(({ kind }) => kind === "tie")
      .map(({ fromPort, to, shape }) => ({ from: fromPort, to, shape })),
    ...(plan.inputs && { inputs: plan.inputs }),
    ...(plan.labels && { labels: plan.labels }),
    totals: {
      nodes: nodes.length,
      vnodes: vnodes.length,
      parameters: total(vnodes.map((vnode) => vnode.parameters)),
      forwardFlops,
      trainingFlops: trainingShare * forwardFlops,
      stateBytes: total(vnodes.map((vnode) => vnode.stateBytes)),
      savedBytes: total(vnodes.map((vnode) => vnode.savedBytes)),
      trafficBytes: total(vnodes.map((vnode) => vnode.trafficBytes)),
    },
  };
}

function analyzeVNode(plan: Plan, vnode: VNodePlan): VNodeAnalysis {
  const parameters = total(vnode.parameters.map(({ shape }) => elementCount(shape)));
  const moments = vnode.optimizer.kind === "sgd" ? (vnode.optimizer.momentum > 0 ? 1 : 0) : 2;
  const sent = plan.edges.filter(
    (edge) => edge.kind === "activation" && (edge.from === vnode.id || (edge.to === vnode.id && edge.gradient)),
  );
  return {
    id: vnode.id,
    role: vnode.role,
    nodes: vnode.nodes,
    merged: vnode.body.flatMap((node) => (node.standsFor === undefined ? [] : [node.standsFor])),
    parameters,
    flops: vnode.flopsPerSample,
    stateBytes: parameters * 4 * (2 + moments),
    savedBytes: vnode.savedBytesPerSample,
    trafficBytes: total(sent.map((edge) => wireBytes(edge.wire, edge.shape))),
    optimizer: vnode.optimizer.kind,
  };
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

type Column = readonly [title: string, align: "left" | "right"];

/** A text that fits `width` columns; long names and lists are cut, never wrapped. */
export function renderAnalysis(analysis: Analysis, width = 100): string {
  const { totals } = analysis;
  const nodeRows = analysis.nodes.map((node) => [
    node.id,
    node.type,
    node.inputs.map(showShape).join(" "),
    node.outputs.length > 2 && node.outputs.every((shape) => String(shape) === String(node.outputs[0]))
      ? `${node.outputs.length} x ${showShape(node.outputs[0]!)}`
      : node.outputs.map(showShape).join(" "),
    node.parameters === 0 ? "" : counted(node.parameters),
    counted(node.flops),
    node.vnode,
  ]);
  const vnodeRows = analysis.vnodes.map((vnode) => [
    vnode.id,
    counted(vnode.parameters),
    counted(vnode.flops),
    bytes(vnode.stateBytes),
    bytes(vnode.savedBytes),
    fusedText(vnode),
  ]);
  const lines = [
    `network ${analysis.name}: ${totals.nodes} nodes in ${totals.vnodes} VNodes, ${counted(totals.parameters)} parameters`,
    `one sample: ${counted(totals.forwardFlops)}FLOP forward, about ${counted(totals.trainingFlops)}FLOP to train on, ${bytes(totals.savedBytes)} kept, ${bytes(totals.trafficBytes)} sent`,
    `weights, gradients and moments: ${bytes(totals.stateBytes)}`,
    dataText(analysis),
    "",
    ...table(
      [
        ["node", "left"],
        ["type", "left"],
        ["in", "left"],
        ["out", "left"],
        ["params", "right"],
        ["FLOP", "right"],
        ["VNode", "left"],
      ],
      nodeRows,
      width,
    ),
    "",
    ...table(
      [
        ["VNode", "left"],
        ["params", "right"],
        ["FLOP", "right"],
        ["state", "right"],
        ["kept", "right"],
        ["fused from", "left"],
      ],
      vnodeRows,
      width,
    ),
    ...analysis.ties.map(({ from, to, shape }) => `tie: ${to} uses ${from} ${showShape(shape)}`),
    ...analysis.colocations.map((ids) => `together on one PNode: ${ids.join(", ")}`),
  ];
  return `${lines.map((line) => cut(line, width)).join("\n")}\n`;
}

function dataText({ inputs, labels }: Analysis): string {
  const show = (what: string, data: DataPlan | undefined) =>
    data === undefined
      ? []
      : [`${what} ${data.wire} ${showShape(data.shape)}${data.below ? ` below ${data.below}` : ""}`];
  return `dataset: ${[...show("inputs", inputs), ...show("labels", labels)].join(", ") || "none"}`;
}

function fusedText({ nodes, merged }: VNodeAnalysis): string {
  const heads = merged.map((ids) => `${ids.length - 1} heads as one`);
  const fused = nodes.length === 1 ? nodes[0]! : `${nodes.length} nodes: ${nodes[0]} to ${nodes.at(-1)}`;
  return [fused, ...heads].join("; ");
}

function table(columns: readonly Column[], rows: readonly (readonly string[])[], width: number): string[] {
  const cells = [columns.map(([title]) => title), ...rows];
  const sizes = columns.map((_, i) => Math.max(...cells.map((row) => row[i]!.length)));
  // The widest text columns give way until the table fits.
  const gaps = 2 * (columns.length - 1);
  while (total(sizes) + gaps > width) {
    const widest = sizes.reduce((best, size, i) => (columns[i]![1] === "left" && size > sizes[best]! ? i : best), 0);
    if (sizes[widest]! <= 6) break;
    sizes[widest]!--;
  }
  return cells.map((row) =>
    row
      .map((cell, i) => (columns[i]![1] === "left" ? cut(cell, sizes[i]!).padEnd(sizes[i]!) : cell.padStart(sizes[i]!)))
      .join("  ")
      .trimEnd(),
  );
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(1, width - 1))}…`;
}

function counted(value: number): string {
  const units = ["", "k", "M", "G", "T", "P"];
  let at = 0;
  let left = value;
  while (left >= 999.5 && at < units.length - 1) {
    left /= 1000;
    at++;
  }
  return at === 0 ? String(value) : `${left.toPrecision(3)} ${units[at]}`;
}

function bytes(value: number): string {
  const text = counted(value);
  return /[A-Z]$|k$/.test(text) ? `${text}B` : `${text} B`;
}
