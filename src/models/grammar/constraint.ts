// A grammar and a vocabulary together: which tokens may come next in an answer, so that it fits the grammar and can be brought
// to an end within the tokens that are left. Shared by all answers of one schema; each has its own place in it.

import { Recent } from "../../core/caches/recent.ts";
import { fail } from "../../core/errors.ts";
import { bytesOfToken } from "../../data/bpe/token-table.ts";
import type { Constraint } from "../choosing.ts";
import { Automaton, type State } from "./automaton.ts";
import type { Grammar } from "./grammar.ts";
import { longestToken, type OrderedVocabulary } from "./vocabulary.ts";

/** A bit for each token of the vocabulary: 12 KB for 100,000 tokens. */
const masksKept = 128;

/** Of a guessed token, on the average: names of properties are words. */
const guessedTokenBytes = 8;

interface Mask {
  readonly bits: Uint32Array;
  /** The most bytes that any of them leaves to the end. */
  readonly farthest: number;
}

export class GrammarConstraints {
  readonly #vocabulary: OrderedVocabulary;
  readonly #automaton: Automaton;
  readonly #masks = new Recent<State, Mask>(masksKept);

  constructor(grammar: Grammar, distances: Float64Array, vocabulary: OrderedVocabulary) {
    this.#vocabulary = vocabulary;
    this.#automaton = new Automaton(grammar, distances);
  }

  /** Tokens within which an answer is certainly possible. */
  get tokensLeast(): number {
    return this.#automaton.start.distance;
  }

  open(): Constraint {
    let state = this.#automaton.start;
    return {
      allowed: (left) => this.#allowed(state, left),
      guess: (count) => this.#guess(state, count),
      accept: (token) => {
        state = this.#after(state, token) ?? fail("internal", `token ${token} does not fit the schema of its answer`);
      },
      get mayEnd() {
        return state.mayEnd;
      },
      get isOver() {
        return state.mayEnd && state.stacks.length === 0;
      },
    };
  }

  /** What must be written, such as the name of the next property, in as few tokens as write it. */
  #guess(state: State, count: number): number[] {
    const bytes = this.#onlyBytes(state, count * guessedTokenBytes);
    const tokens: number[] = [];
    for (let at = 0; at < bytes.length && tokens.length < count; ) {
      const found = longestToken(this.#vocabulary, bytes.subarray(at));
      if (found === undefined) break;
      tokens.push(found.token);
      at += found.bytes;
    }
    return tokens;
  }

  /** As long as there is one byte only that may come next, and the answer may not end. */
  #onlyBytes(state: State, most: number): Uint8Array {
    const bytes: number[] = [];
    for (let at = state; bytes.length < most && !at.mayEnd; ) {
      const next = this.#automaton.onlyNext(at);
      if (next === undefined) break;
      bytes.push(next.byte);
      at = next.state;
    }
    return Uint8Array.from(bytes);
  }

  #after(state: State, token: number): State | undefined {
    let at: State | null = state;
    for (const byte of bytesOfToken(this.#vocabulary.table, token)) {
      at = this.#automaton.step(at, byte);
      if (at === null) return undefined;
    }
    return at;
  }

  #allowed(state: State, left: number): Uint32Array {
    const mask = this.#masks.get(state) ?? this.#mask(state, Number.POSITIVE_INFINITY);
    this.#masks.set(state, mask);
    return mask.farthest <= left ? mask.bits : this.#mask(state, left).bits;
  }

  /** All tokens whose bytes can be followed to a place from which at most `left` bytes lead to the end. */
  #mask(state: State, left: number): Mask {
    const { order, shared } = this.#vocabulary;
    const { bytes, ends } = this.#vocabulary.table;
    const bits = new Uint32Array(Math.ceil(ends.length / 32));
    /** The state after so many bytes of the token before. */
    const path: State[] = [state];
    /** So many bytes of the token before lead nowhere. */
    let dead = Number.POSITIVE_INFINITY;
    let farthest = 0;
    for (let i = 0; i < order.length; i++) {
      const common = shared[i] as number;
      if (common >= dead) continue;
      const token = order[i] as number;
      // Where its bytes lie, without a view of them: a hundred thousand views cost more than the walk.
      const first = token === 0 ? 0 : (ends[token - 1] as number);
      const length = (ends[token] as number) - first;
      dead = Number.POSITIVE_INFINITY;
      for (let depth = common; depth < length; depth++) {
        const byte = bytes[first + depth] as number;
        const at = path[depth] as State;
        const known = at.next[byte];
        const next = known === undefined ? this.#automaton.step(at, byte) : known;
        if (next === null) {
          dead = depth + 1;
          break;
        }
        path[depth + 1] = next;
      }
      if (dead !== Number.POSITIVE_INFINITY) continue;
      const { distance } = path[length] as State;
      if (distance > left) continue;
      bits[token >> 5] = (bits[token >> 5] as number) | (1 << (token & 31));
      farthest = Math.max(farthest, distance);
    }
    return { bits, farthest };
  }
}
