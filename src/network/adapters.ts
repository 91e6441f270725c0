// A network with adapters (catalogue/adapter.ts) made of one without, and back again: as definitions, so that an adapted network is
// one like any other, and what it starts from is shared with the network that it was made of.

import { isMap, isSeq, parseDocument, type YAMLMap } from "yaml";
import { fail } from "../core/errors.ts";
import { float32, type Tensor } from "../core/tensor.ts";
import type { BodyNode } from "./body.ts";
import { adapterNames, adapterScale } from "./catalogue/adapter.ts";
import { compileText } from "./compile.ts";
import type { Plan } from "./plan.ts";

export interface AdapterWish {
  readonly rank: number;
  /** What it counts; else the rank. */
  readonly alpha?: number;
  /** Ids of nodes, or the beginnings of some with a star; absent: all linear layers and attentions but the head. */
  readonly targets?: readonly string[];
}

/** One matrix that an adapter stands beside, by parameter names. */
export interface Adapter {
  readonly node: string;
  readonly weight: string;
  readonly a: string;
  readonly b: string;
  readonly scale: number;
}

const adaptable = new Set(["linear", "attention"]);
const keys = ["adapter_rank", "adapter_alpha", "adapter_count", "frozen"] as const;

/** All weights are frozen, and those that are wished for have adapters. */
export function withAdapters(text: string, { rank, alpha, targets }: AdapterWish): string {
  const plan = compileText(text);
  if (adaptersOf(plan).length > 0)
    fail("failed_precondition", `network ${plan.name} has adapters already: merge them first, or train it as it is`);
  const bodies = plan.vnodes.flatMap(({ body }) => body);
  const chosen = targets === undefined ? usualTargets(bodies) : namedTargets(bodies, targets);
  const frozen = new Set(
    bodies
      .filter(({ description }) => description.parameters.length > 0)
      .flatMap((node) => node.standsFor ?? [node.id]),
  );
  const made = edited(text, (id, config) => {
    if (frozen.has(id)) config.set("frozen", true);
    if (!chosen.has(id)) return;
    config.set("adapter_rank", rank);
    if (alpha !== undefined && alpha !== rank) config.set("adapter_alpha", alpha);
  });
  compileText(made);
  return made;
}

/** All weights are frozen, and beside those of each named node stand so many adapters of a rank. */
export function withBank(text: string, count: number, ranks: ReadonlyMap<string, number>): string {
  const bodies = compileText(text).vnodes.flatMap(({ body }) => body);
  const frozen = new Set(
    bodies
      .filter(({ description }) => description.parameters.length > 0)
      .flatMap((node) => node.standsFor ?? [node.id]),
  );
  return edited(text, (id, config) => {
    if (frozen.has(id)) config.set("frozen", true);
    const rank = ranks.get(id);
    if (rank === undefined) return;
    config.set("adapter_rank", rank);
    config.set("adapter_count", count);
  });
}

/** The network that adapters were put into. */
export function withoutAdapters(text: string): string {
  return edited(text, (_id, config) => {
    for (const key of keys) config.delete(key);
  });
}

function edited(text: string, edit: (id: string, config: YAMLMap) => void): string {
  const document = parseDocument(text);
  const nodes = document.get("nodes");
  if (!isSeq(nodes)) fail("invalid_argument", "the definition lists no nodes");
  for (const node of nodes.items) {
    if (!isMap(node)) continue;
    const had = node.get("config");
    const config = isMap(had) ? had : (document.createNode({}, { flow: true }) as YAMLMap);
    edit(String(node.get("id")), config);
    if (config.items.length > 0) node.set("config", config);
    else node.delete("config");
  }
  return document.toString({ lineWidth: 0 });
}

function isTarget(node: BodyNode): boolean {
  return adaptable.has(node.nodeType.type) && node.tie === undefined && node.standsFor === undefined;
}

/** A layer whose outputs are judged is the head. */
function usualTargets(bodies: readonly BodyNode[]): Set<string> {
  const judged = new Set(
    bodies.flatMap(({ nodeType, inputs }) =>
      nodeType.cost ? inputs.flatMap((input) => (input.kind === "node" ? [input.node] : [])) : [],
    ),
  );
  const chosen = bodies.filter((node) => isTarget(node) && !judged.has(node.id)).map(({ id }) => id);
  if (chosen.length === 0) fail("failed_precondition", "the network has neither linear layers nor attentions to adapt");
  return new Set(chosen);
}

function namedTargets(bodies: readonly BodyNode[], targets: readonly string[]): Set<string> {
  const chosen = new Set<string>();
  for (const target of targets) {
    const fits = (id: string) => (target.endsWith("*") ? id.startsWith(target.slice(0, -1)) : id === target);
    const found = bodies.filter((node) => fits(node.id) && isTarget(node));
    if (found.length === 0) {
      const known = bodies.filter(isTarget).map(({ id }) => id);
      fail(
        "invalid_argument",
        `no linear layer or attention is called "${target}": there are ${known.slice(0, 12).join(", ")}${known.length > 12 ? ", ..." : ""}`,
      );
    }
    for (const { id } of found) chosen.add(id);
  }
  return chosen;
}

/** In the plan's order. Those of a bank cannot be taken apart again. */
export function adaptersOf(plan: Pick<Plan, "vnodes">): Adapter[] {
  if (plan.vnodes.some(({ body }) => body.some(({ config }) => config.has("adapter_count"))))
    fail("failed_precondition", "the model holds several adapters: take one of the models that it was joined from");
  return plan.vnodes.flatMap(({ body }) =>
    body.flatMap((node) =>
      node.description.parameters.flatMap(({ name, adapter }): Adapter[] => {
        if (!adapter || !name.endsWith(adapterNames.a)) return [];
        const prefix = `${node.id}.${name.slice(0, -adapterNames.a.length)}`;
        const names = { a: prefix + adapterNames.a, b: prefix + adapterNames.b, weight: `${prefix}weight` };
        return [{ node: node.id, ...names, scale: adapterScale(node) }];
      }),
    ),
  );
}

/** The weights and what the adapter adds to them, as one matrix. */
export function mergedWeight(weight: Tensor, a: Tensor, b: Tensor, scale: number): Tensor {
  const [rows = 0, columns = 0] = weight.shape;
  const [, rank = 0] = a.shape;
  const [own, first, second] = [weight, a, b].map(({ data }) => data as Float32Array) as [
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  const merged = new Float32Array(own.length);
  const sums = new Float64Array(columns);
  for (let row = 0; row < rows; row++) {
    sums.fill(0);
    for (let k = 0; k < rank; k++) {
      const factor = first[row * rank + k] as number;
      if (factor === 0) continue;
      for (let column = 0; column < columns; column++)
        sums[column] = (sums[column] as number) + factor * (second[k * columns + column] as number);
    }
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      merged[at] = (own[at] as number) + scale * (sums[column] as number);
    }
  }
  return float32(weight.shape, merged);
}
