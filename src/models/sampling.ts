// Chooses the next token from logits: a pure function of logits, the tokens so far, settings, and the position.
// Chance is counter-based, so that an answer that is computed again after a failure is the same answer.

import { fail } from "../core/errors.ts";
import { exp } from "../core/numbers/math.ts";
import { randomKey, uniformAt } from "../core/numbers/random.ts";

export interface SamplingSettings {
  /** 0 takes the most likely token, always. */
  readonly temperature: number;
  /** Only the K most likely tokens; 0 for all. */
  readonly topK: number;
  /** Only the most likely tokens that together have this probability; 1 for all. */
  readonly topP: number;
  /** Above 1, tokens that occurred before become less likely; 1 changes nothing. */
  readonly repetitionPenalty: number;
  /** Taken from a token's logit for each time that it was chosen before; 0 changes nothing. */
  readonly frequencyPenalty: number;
  /** Taken once from the logit of a token that was chosen before; 0 changes nothing. */
  readonly presencePenalty: number;
  /** Added to the logits of these tokens. */
  readonly logitBias: Readonly<Record<number, number>>;
  readonly seed: number;
}

export const greedy: SamplingSettings = {
  temperature: 0,
  topK: 0,
  topP: 1,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: {},
  seed: 0,
};

/** Beyond these a penalty or a bias would decide alone. */
export const penaltyMax = 2;
export const logitBiasMax = 100;
/** Each costs time at every token. */
export const biasedTokensMax = 1_024;

export function checkSampling(settings: SamplingSettings): void {
  const { temperature, topK, topP, repetitionPenalty, seed } = settings;
  const inRange = (name: string, value: number, least: number, most: number) => {
    if (!(value >= least && value <= most))
      fail("invalid_argument", `${name} is ${value}, expected ${least} to ${most}`);
  };
  inRange("temperature", temperature, 0, 100);
  inRange("top_k", topK, 0, 2 ** 31);
  inRange("top_p", topP, 0, 1);
  inRange("repetition_penalty", repetitionPenalty, 0.01, 100);
  inRange("frequency_penalty", settings.frequencyPenalty, -penaltyMax, penaltyMax);
  inRange("presence_penalty", settings.presencePenalty, -penaltyMax, penaltyMax);
  const biases = Object.entries(settings.logitBias);
  if (biases.length > biasedTokensMax)
    fail("invalid_argument", `logit_bias has ${biases.length} tokens, at most ${biasedTokensMax} are allowed`);
  for (const [token, bias] of biases) inRange(`logit_bias of token ${token}`, bias, -logitBiasMax, logitBiasMax);
  if (!Number.isInteger(topK)) fail("invalid_argument", `top_k is ${topK}, expected a whole number`);
  if (!Number.isSafeInteger(seed)) fail("invalid_argument", `seed is ${seed}, expected a whole number`);
}

/** Whether the choice depends on the tokens before, beyond what the logits know of them. */
export function needsHistory({ repetitionPenalty, frequencyPenalty, presencePenalty }: SamplingSettings): boolean {
  return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
}

/**
 * `history` are the request's tokens so far, of which the first `promptLength` were asked and the others chosen;
 * `position` is where the new one will stand. Ties go to the lower token. `logits` are not changed.
 */
export function sampleToken(
  logits: Float32Array,
  history: ArrayLike<number>,
  settings: SamplingSettings,
  position: number,
  promptLength = 0,
): number {
  const { temperature, topK, topP, seed } = settings;
  const scores = adjusted(logits, history, promptLength, settings);
  const best = largest(scores);
  if (temperature === 0 || topK === 1 || topP === 0) return best;
  const weights = weightsOf(scores, scores[best] as number, temperature);
  const draw = uniformAt(randomKey("sampling", seed), position);
  if (topP >= 1 && (topK === 0 || topK >= scores.length)) return drawInOrder(weights, draw);
  return drawFromTop(weights, topK === 0 ? scores.length : topK, topP, draw);
}

/** Repetition counts what was asked too; the other penalties only what was chosen, as OpenAI defines them. */
function adjusted(
  logits: Float32Array,
  history: ArrayLike<number>,
  promptLength: number,
  settings: SamplingSettings,
): Float32Array {
  const { repetitionPenalty, frequencyPenalty, presencePenalty } = settings;
  const biases = Object.entries(settings.logitBias);
  if (biases.length === 0 && !needsHistory(settings)) return logits;
  const scores = logits.slice();
  /** How often a token was chosen; 0 if it was only asked. */
  const counts = new Map<number, number>();
  for (let i = 0; i < history.length; i++) {
    const token = history[i] as number;
    counts.set(token, (counts.get(token) ?? 0) + (i < promptLength ? 0 : 1));
  }
  for (const [token, count] of counts) {
    const logit = logits[token];
    if (logit === undefined) continue;
    const repeated = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
    scores[token] = repeated - count * frequencyPenalty - (count > 0 ? presencePenalty : 0);
  }
  for (const [key, bias] of biases) {
    const token = Number(key);
    if (token < scores.length) scores[token] = (scores[token] as number) + bias;
  }
  return scores;
}

function largest(scores: Float32Array): number {
  let best = -1;
  for (let i = 0; i < scores.length; i++)
    if (best < 0 ? !Number.isNaN(scores[i]) : (scores[i] as number) > (scores[best] as number)) best = i;
  if (best < 0) fail("internal", "there are no logits to choose a token from");
  return best;
}

/** Probabilities times a common factor; the most likely token has weight 1. */
function weightsOf(scores: Float32Array, most: number, temperature: number): Float64Array {
  const weights = new Float64Array(scores.length);
  for (let i = 0; i < scores.length; i++) weights[i] = exp(((scores[i] as number) - most) / temperature);
  return weights;
}

function drawInOrder(weights: Float64Array, draw: number): number {
  let left = draw * sumOf(weights);
  let last = 0;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0) continue;
    left -= weights[i] as number;
    last = i;
    if (left < 0) break;
  }
  return last;
}

/** Of the `topK` most likely tokens those that together have the share `topP`, at least one. */
function drawFromTop(weights: Float64Array, topK: number, topP: number, draw: number): number {
  const tokens = topK < weights.length ? [...heaviestFirst(weights).take(topK)] : heaviestFirst(weights);
  const total = Array.isArray(tokens)
    ? tokens.reduce((sum, token) => sum + (weights[token] as number), 0)
    : sumOf(weights);
  const kept: number[] = [];
  let sum = 0;
  for (const token of tokens) {
    kept.push(token);
    sum += weights[token] as number;
    if (sum >= total * topP) break;
  }
  let left = draw * sum;
  for (const token of kept) {
    left -= weights[token] as number;
    if (left < 0) return token;
  }
  return kept.at(-1) as number;
}

function sumOf(weights: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < weights.length; i++) sum += weights[i] as number;
  return sum;
}

/** Indices by falling weight, the lower of equals first. A heap: mostly only the first few are wanted. */
function* heaviestFirst(weights: Float64Array): Generator<number> {
  const heap = Int32Array.from(weights.keys());
  const before = (a: number, b: number) => {
    const difference = (weights[a] as number) - (weights[b] as number);
    return difference > 0 || (difference === 0 && a < b);
  };
  const sink = (start: number, length: number) => {
    const item = heap[start] as number;
    let at = start;
    for (let child = at * 2 + 1; child < length; child = at * 2 + 1) {
      if (child + 1 < length && before(heap[child + 1] as number, heap[child] as number)) child++;
      if (!before(heap[child] as number, item)) break;
      heap[at] = heap[child] as number;
      at = child;
    }
    heap[at] = item;
  };
  for (let i = (heap.length >> 1) - 1; i >= 0; i--) sink(i, heap.length);
  for (let length = heap.length; length > 0; ) {
    yield heap[0] as number;
    length--;
    heap[0] = heap[length] as number;
    sink(0, length);
  }
}
