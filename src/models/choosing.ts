// The one seam between logits and an answer: what is chosen at a position, what may be chosen there, and how likely it was.
// Whoever computes logits, in whatever batches, asks a request's chooser once for each position, in order.

import { fail } from "../core/errors.ts";
import { exp, log } from "../core/numbers/math.ts";
import { needsHistory, type SamplingSettings, sampleToken } from "./sampling.ts";

/** What an answer may consist of, token by token. Of one answer: it follows what was accepted. */
export interface Constraint {
  /**
   * A bit for each token that may come next, least significant first; undefined: all. `left` tokens may follow that one, and
   * within them the answer can always be brought to an end.
   */
  allowed(left: number): Uint32Array | undefined;
  /** The token comes next, whoever chose it. */
  accept(token: number): void;
  /** Up to so many tokens that may well come next, since little else fits; none if that cannot be told. */
  guess?(count: number): readonly number[];
  /** The answer may end here. */
  readonly mayEnd: boolean;
  /** Nothing can follow. */
  readonly isOver: boolean;
}

export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
}

/** Of the model's own distribution: temperature, penalties, biases and constraints choose from it and do not change it. */
export interface ChosenLogprobs extends TokenLogprob {
  /** The likeliest, best first, the lower token of equals first. */
  readonly top: readonly TokenLogprob[];
}

export interface ChoiceWish {
  readonly sampling: SamplingSettings;
  /** How many of the likeliest tokens are told beside the chosen one; undefined: not even its own probability. */
  readonly topLogprobs?: number | undefined;
  readonly constraint?: Constraint | undefined;
  readonly endTokens: ReadonlySet<number>;
}

export interface Choice {
  readonly token: number;
  readonly logprobs?: ChosenLogprobs;
  /** "after": with this token the answer is complete; "before": the token only says so. */
  readonly ends?: "after" | "before";
}

/** Where the new token stands, and what stands before it. */
export interface ChoicePlace {
  readonly position: number;
  readonly prompt: readonly number[];
  readonly produced: readonly number[];
  /** Tokens that may follow it. */
  readonly left: number;
}

/** More would make answers larger than what they are about. */
export const topLogprobsMax = 20;

export class Chooser {
  readonly #wish: ChoiceWish;
  readonly #needsHistory: boolean;

  /** `known` are tokens of the answer that were chosen before, elsewhere. */
  constructor(wish: ChoiceWish, known: readonly number[] = []) {
    this.#wish = wish;
    this.#needsHistory = needsHistory(wish.sampling);
    for (const token of known) wish.constraint?.accept(token);
  }

  /** Tokens that what the answer must fit leaves hardly any choice but to take. */
  guess(count: number): readonly number[] {
    return this.#wish.constraint?.guess?.(count) ?? [];
  }

  /** What another model's logits would choose behind these tokens, whatever the answer must fit; undefined if it would end there. */
  suggest(logits: Float32Array, tokens: readonly number[], promptLength: number): number | undefined {
    const { sampling, endTokens } = this.#wish;
    const token = sampleToken(logits, this.#needsHistory ? tokens : [], sampling, tokens.length, promptLength);
    return endTokens.has(token) ? undefined : token;
  }

  choose(logits: Float32Array, { position, prompt, produced, left }: ChoicePlace): Choice {
    const { sampling, constraint, endTokens, topLogprobs } = this.#wish;
    const history = this.#needsHistory ? [...prompt, ...produced] : [];
    const allowed = constraint?.allowed(left);
    const scores = allowed ? this.#masked(logits, allowed) : logits;
    const token = sampleToken(scores, history, sampling, position, prompt.length);
    const logprobs = topLogprobs === undefined ? {} : { logprobs: logprobsOf(logits, token, topLogprobs) };
    if (endTokens.has(token) && (constraint?.mayEnd ?? true)) return { token, ...logprobs, ends: "before" };
    constraint?.accept(token);
    // What may end where there is no room left has ended: it is whole.
    const isWhole = constraint && (constraint.isOver || (constraint.mayEnd && left === 0));
    return { token, ...logprobs, ...(isWhole ? { ends: "after" } : {}) };
  }

  #masked(logits: Float32Array, allowed: Uint32Array): Float32Array {
    const { constraint, endTokens } = this.#wish;
    const scores = new Float32Array(logits.length).fill(Number.NEGATIVE_INFINITY);
    let some = false;
    for (let word = 0; word < allowed.length; word++)
      for (let bits = allowed[word] as number; bits !== 0; bits &= bits - 1) {
        const token = word * 32 + (31 - Math.clz32(bits & -bits));
        if (token >= logits.length) continue;
        scores[token] = logits[token] as number;
        some = true;
      }
    for (const token of constraint?.mayEnd ? endTokens : [])
      if (token < logits.length) {
        scores[token] = logits[token] as number;
        some = true;
      }
    if (!some) fail("failed_precondition", "the model's vocabulary has no token that may come next in this answer");
    return scores;
  }
}

/** By this project's own exp and log: the same on every machine. */
export function logprobsOf(logits: Float32Array, token: number, count: number): ChosenLogprobs {
  let most = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > most) most = logit;
  let sum = 0;
  for (const logit of logits) sum += exp(logit - most);
  const offset = most + log(sum);
  const of = (id: number): TokenLogprob => ({ token: id, logprob: (logits[id] as number) - offset });
  return { ...of(token), top: likeliest(logits, count).map(of) };
}

/** `count` is small: each logit is compared with the least of those that lead. */
function likeliest(logits: Float32Array, count: number): number[] {
  const leading: number[] = [];
  for (let id = 0; id < logits.length && count > 0; id++) {
    const logit = logits[id] as number;
    const last = leading.at(-1);
    if (leading.length === count && logit <= (logits[last as number] as number)) continue;
    let at = leading.length;
    while (at > 0 && (logits[leading[at - 1] as number] as number) < logit) at--;
    leading.splice(at, 0, id);
    if (leading.length > count) leading.pop();
  }
  return leading;
}
