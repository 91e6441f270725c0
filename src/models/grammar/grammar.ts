// What an answer may look like, byte by byte: rules that consist of nodes, with ways from node to node by a byte, by a whole
// rule, or by nothing. Plain data, so that it goes from thread to thread.

import { fail } from "../../core/errors.ts";

export interface GrammarNode {
  /** The rule may end here. */
  ends: boolean;
  /** Ways by a byte from `low` to `high`. */
  readonly bytes: { readonly low: number; readonly high: number; readonly to: number }[];
  /** Ways by all that a rule stands for. */
  readonly calls: { readonly rule: number; readonly to: number }[];
  /** Ways by nothing. */
  readonly skips: number[];
}

export interface Grammar {
  /** The node with which each rule begins; the first rule is the whole answer. */
  readonly starts: readonly number[];
  /** Where in the schema each rule comes from, for people. */
  readonly places: readonly string[];
  readonly nodes: readonly GrammarNode[];
}

/** Each costs some hundred bytes on the machine that answers. */
const nodesMax = 40_000;

export class GrammarBuilder implements Grammar {
  readonly starts: number[] = [];
  readonly places: string[] = [];
  readonly nodes: GrammarNode[] = [];

  node(): number {
    if (this.nodes.length >= nodesMax)
      fail("resource_exhausted", `the schema needs more than ${nodesMax} nodes: make it, or its bounds, smaller`);
    return this.nodes.push({ ends: false, bytes: [], calls: [], skips: [] }) - 1;
  }

  /** Every rule needs at least one byte. */
  rule(place: string): { readonly id: number; readonly start: number } {
    const start = this.node();
    this.places.push(place);
    return { id: this.starts.push(start) - 1, start };
  }

  end(node: number): void {
    this.#at(node).ends = true;
  }

  range(from: number, low: number, high: number, to = this.node()): number {
    this.#at(from).bytes.push({ low, high, to });
    return to;
  }

  /** Any one of these characters of ASCII. */
  oneOf(from: number, characters: string, to = this.node()): number {
    for (const character of characters) this.range(from, character.charCodeAt(0), character.charCodeAt(0), to);
    return to;
  }

  text(from: number, text: string, to?: number): number {
    const bytes = new TextEncoder().encode(text);
    let at = from;
    for (const [index, byte] of bytes.entries())
      at = this.range(at, byte, byte, index === bytes.length - 1 ? to : undefined);
    return at;
  }

  call(from: number, rule: number, to = this.node()): number {
    this.#at(from).calls.push({ rule, to });
    return to;
  }

  skip(from: number, to: number): number {
    this.#at(from).skips.push(to);
    return to;
  }

  #at(node: number): GrammarNode {
    return this.nodes[node] as GrammarNode;
  }
}

/** Any of these texts. Those that begin alike share what they begin with, so that many do not mean many ways at once. */
export function addTexts(builder: GrammarBuilder, from: number, texts: readonly string[], to: number): void {
  const after = new Map<string, number>();
  for (const text of new Set(texts)) {
    let at = from;
    let path = "";
    for (const byte of new TextEncoder().encode(text)) {
      path += `${byte},`;
      const known = after.get(path);
      at = known ?? builder.range(at, byte, byte);
      if (known === undefined) after.set(path, at);
    }
    builder.skip(at, to);
  }
}

/** The fewest bytes from each node to the end of its rule, of bytes for which `isWritable` holds; infinite where there is no way. */
export function distancesOf({ nodes, starts }: Grammar, isWritable: (byte: number) => boolean): Float64Array {
  const distances = new Float64Array(nodes.length).fill(Number.POSITIVE_INFINITY);
  const writable = Array.from({ length: 256 }, (_, byte) => isWritable(byte));
  /** For each node, those whose distance may follow from its own. */
  const dependents = nodes.map((): Set<number> => new Set());
  const lead = (from: number, to: number) => dependents[to]?.add(from);
  for (const [from, { bytes, calls, skips }] of nodes.entries()) {
    for (const { to } of bytes) lead(from, to);
    for (const to of skips) lead(from, to);
    for (const { rule, to } of calls) {
      lead(from, to);
      lead(from, starts[rule] as number);
    }
  }
  const distanceOf = ({ ends, bytes, calls, skips }: GrammarNode): number => {
    let least = ends ? 0 : Number.POSITIVE_INFINITY;
    for (const { low, high, to } of bytes)
      if (writable.slice(low, high + 1).includes(true)) least = Math.min(least, 1 + (distances[to] as number));
    for (const to of skips) least = Math.min(least, distances[to] as number);
    for (const { rule, to } of calls)
      least = Math.min(least, (distances[starts[rule] as number] as number) + (distances[to] as number));
    return least;
  };
  const waiting = new Set(nodes.keys());
  for (const node of waiting) {
    waiting.delete(node);
    const distance = distanceOf(nodes[node] as GrammarNode);
    if (distance >= (distances[node] as number)) continue;
    distances[node] = distance;
    for (const dependent of dependents[node] as Set<number>) waiting.add(dependent);
  }
  return distances;
}

/** Rules that come back to themselves before anything is written: nobody could follow them. */
export function endlessRule({ nodes, starts }: Grammar): number | undefined {
  const first = starts.map((start) => {
    const rules = new Set<number>();
    const seen = new Set([start]);
    for (const node of seen) {
      const { calls, skips } = nodes[node] as GrammarNode;
      for (const { rule } of calls) rules.add(rule);
      for (const to of skips) seen.add(to);
    }
    return rules;
  });
  const done = new Set<number>();
  const visit = (rule: number, path: ReadonlySet<number>): number | undefined => {
    if (path.has(rule)) return rule;
    if (done.has(rule)) return undefined;
    const longer = new Set(path).add(rule);
    for (const next of first[rule] as Set<number>) {
      const found = visit(next, longer);
      if (found !== undefined) return found;
    }
    done.add(rule);
    return undefined;
  };
  for (const rule of starts.keys()) {
    const found = visit(rule, new Set());
    if (found !== undefined) return found;
  }
  return undefined;
}
