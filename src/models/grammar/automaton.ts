// Follows a grammar byte by byte. A state is the set of all places where the grammar may be, each with the rules it has to
// come back to; what follows from a state and a byte is found once and remembered. What is remembered may be forgotten at
// any time: states are values.

import { fail } from "../../core/errors.ts";
import type { Grammar, GrammarNode } from "./grammar.ts";

/** A node, and the nodes to go on at when its rule has ended. */
interface Stack {
  readonly id: number;
  readonly node: number;
  readonly below: Stack | undefined;
  /** The fewest bytes to the end of the answer. */
  readonly distance: number;
}

export interface State {
  /** Those at which a byte may come, by id. */
  readonly stacks: readonly Stack[];
  /** The answer may end here. */
  readonly mayEnd: boolean;
  /** The fewest bytes to the answer's end. */
  readonly distance: number;
  /** What follows, by byte; null: nothing. */
  readonly next: (State | null | undefined)[];
}

/** A grammar that leaves more ways open at once costs more than an answer should. */
const stacksMax = 512;
const statesKept = 4_096;

export class Automaton {
  readonly #grammar: Grammar;
  /** Of each node to the end of its rule. */
  readonly #distances: Float64Array;
  readonly #stacks = new Map<string, Stack>();
  readonly #states = new Map<string, State>();
  #made = 0;
  readonly start: State;

  constructor(grammar: Grammar, distances: Float64Array) {
    this.#grammar = grammar;
    this.#distances = distances;
    this.start = this.#state([this.#stack(grammar.starts[0] as number, undefined)]);
  }

  /** The byte that must come next, if there is but one. */
  onlyNext(state: State): { readonly byte: number; readonly state: State } | undefined {
    let only: number | undefined;
    for (const { node } of state.stacks)
      for (const { low, high } of this.#node(node).bytes) {
        if (low !== high || (only !== undefined && only !== low)) return undefined;
        only = low;
      }
    const next = only === undefined ? null : this.step(state, only);
    return next === null ? undefined : { byte: only as number, state: next };
  }

  step(state: State, byte: number): State | null {
    const known = state.next[byte];
    if (known !== undefined) return known;
    const reached: Stack[] = [];
    for (const { node, below } of state.stacks)
      for (const { low, high, to } of this.#node(node).bytes)
        if (low <= byte && byte <= high) reached.push(this.#stack(to, below));
    const next = reached.length === 0 ? null : this.#state(reached);
    const alive = next !== null && next.distance < Number.POSITIVE_INFINITY ? next : null;
    state.next[byte] = alive;
    return alive;
  }

  /** From where the grammar was led to all places where it can be without another byte. */
  #state(reached: readonly Stack[]): State {
    const seen = new Set<Stack>(reached);
    const stacks: Stack[] = [];
    let mayEnd = false;
    // A set that grows while it is gone through.
    for (const stack of seen) {
      if (seen.size > stacksMax)
        fail("resource_exhausted", `the schema leaves more than ${stacksMax} ways open at once: make it simpler`);
      const { ends, bytes, calls, skips } = this.#node(stack.node);
      if (bytes.length > 0 && stack.distance < Number.POSITIVE_INFINITY) stacks.push(stack);
      for (const to of skips) seen.add(this.#stack(to, stack.below));
      for (const { rule, to } of calls)
        seen.add(this.#stack(this.#grammar.starts[rule] as number, this.#stack(to, stack.below)));
      if (ends && stack.below) seen.add(stack.below);
      mayEnd ||= ends && stack.below === undefined;
    }
    stacks.sort((a, b) => a.id - b.id);
    const key = `${mayEnd} ${stacks.map(({ id }) => id).join()}`;
    const known = this.#states.get(key);
    if (known) return known;
    const distance = mayEnd
      ? 0
      : stacks.reduce((least, one) => Math.min(least, one.distance), Number.POSITIVE_INFINITY);
    const state: State = { stacks, mayEnd, distance, next: new Array(256) };
    if (this.#states.size >= statesKept) {
      this.#states.clear();
      this.#stacks.clear();
    }
    this.#states.set(key, state);
    return state;
  }

  #stack(node: number, below: Stack | undefined): Stack {
    const key = `${node} ${below?.id ?? -1}`;
    const known = this.#stacks.get(key);
    if (known) return known;
    const distance = (this.#distances[node] as number) + (below?.distance ?? 0);
    const stack = { id: this.#made++, node, below, distance };
    this.#stacks.set(key, stack);
    return stack;
  }

  #node(node: number): GrammarNode {
    return this.#grammar.nodes[node] as GrammarNode;
  }
}
