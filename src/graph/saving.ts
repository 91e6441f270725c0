// Decides which forward values a backward graph is handed and which it computes again: the cheapest set in bytes
// such that no expensive operator runs twice. It is a minimum cut between expensive results and what is needed.

import { tensorBytes } from "../core/tensor.ts";
import type { GraphNode, ValueInfo } from "./model.ts";
import { operatorOf } from "./operators/registry.ts";

export interface SavingProblem {
  /** Forward nodes in order. */
  readonly nodes: readonly GraphNode[];
  /** Forward values that the backward graph uses. Graph inputs and constants cost nothing and are left out. */
  readonly needed: ReadonlySet<string>;
  infoOf(name: string): ValueInfo;
}

/** Names of the values to save, in the order in which they are computed. */
export function chooseSaved({ nodes, needed, infoOf }: SavingProblem): string[] {
  const network = new FlowNetwork();
  const produced = new Set(nodes.flatMap((node) => node.outputs));
  for (const node of nodes) {
    const { cheap } = operatorOf(node.op);
    for (const output of node.outputs) {
      const { dtype, shape } = infoOf(output);
      network.connect(`in ${output}`, `out ${output}`, tensorBytes(dtype, shape));
      if (needed.has(output)) network.connect(`out ${output}`, "needed", Number.POSITIVE_INFINITY);
      if (!cheap) network.connect("expensive", `in ${output}`, Number.POSITIVE_INFINITY);
      else
        for (const input of node.inputs)
          if (produced.has(input)) network.connect(`out ${input}`, `in ${output}`, Number.POSITIVE_INFINITY);
    }
  }
  const late = network.reachingAfterMaxFlow("expensive", "needed");
  return [...produced].filter((name) => late.has(`out ${name}`) && !late.has(`in ${name}`));
}

interface Arc {
  readonly to: number;
  room: number;
  /** Where the opposite arc stands in the list of `to`. */
  readonly reverse: number;
}

/** Maximum flow by shortest augmenting paths; networks here have at most some thousand arcs. */
class FlowNetwork {
  readonly #ids = new Map<string, number>();
  readonly #arcs: Arc[][] = [];

  connect(from: string, to: string, room: number): void {
    const [a, b] = [this.#id(from), this.#id(to)];
    const forward = this.#arcs[a] as Arc[];
    const backward = this.#arcs[b] as Arc[];
    forward.push({ to: b, room, reverse: backward.length });
    backward.push({ to: a, room: 0, reverse: forward.length - 1 });
  }

  /** Everything that can still reach `sink`: the cut that lies as near to it as possible, so least is recomputed. */
  reachingAfterMaxFlow(source: string, sink: string): Set<string> {
    const [from, to] = [this.#id(source), this.#id(sink)];
    while (this.#augment(from, to));
    const reached = new Set([to]);
    const queue = [to];
    for (let node = queue.pop(); node !== undefined; node = queue.pop())
      for (const arc of this.#arcs[node] ?? []) {
        const inward = this.#arcs[arc.to]?.[arc.reverse];
        if (inward && inward.room > 0 && !reached.has(arc.to)) {
          reached.add(arc.to);
          queue.push(arc.to);
        }
      }
    return new Set([...this.#ids].filter(([, id]) => reached.has(id)).map(([name]) => name));
  }

  #augment(from: number, to: number): boolean {
    const arrival = new Map<number, { node: number; arc: Arc }>();
    const queue = [from];
    for (let i = 0; i < queue.length && !arrival.has(to); i++)
      for (const arc of this.#arcs[queue[i] as number] ?? [])
        if (arc.room > 0 && arc.to !== from && !arrival.has(arc.to)) {
          arrival.set(arc.to, { node: queue[i] as number, arc });
          queue.push(arc.to);
        }
    if (!arrival.has(to)) return false;
    const path = [];
    for (let node = to; node !== from; ) {
      const step = arrival.get(node) as { node: number; arc: Arc };
      path.push(step.arc);
      node = step.node;
    }
    const room = Math.min(...path.map((arc) => arc.room));
    for (const arc of path) {
      arc.room -= room;
      const reverse = this.#arcs[arc.to]?.[arc.reverse];
      if (reverse) reverse.room += room;
    }
    return true;
  }

  #id(name: string): number {
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    this.#ids.set(name, this.#arcs.length);
    this.#arcs.push([]);
    return this.#arcs.length - 1;
  }
}
