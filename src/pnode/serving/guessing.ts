// Who guesses what an answer says next: the schema that it must fit, the text itself, or a small model beside the head; how many tokens, by what
// guesses of each kind have come to and what they cost. Whatever is guessed, the answer is the same.

import type { Cancel, World } from "../../core/world.ts";
import type { Drafter } from "./drafter.ts";
import { Acceptance, draftFrom, hopeful } from "./drafts.ts";
import type { Pace } from "./pace.ts";
import type { Active } from "./pieces.ts";

/** A schema that leaves no choice, the text's own repetitions, the draft. */
export const guessKinds = ["schema", "text", "draft"] as const;
export type GuessKind = (typeof guessKinds)[number];

/** Of all answers since the beginning. */
export interface GuessCount {
  readonly guessed: number;
  readonly right: number;
}

export interface Guess {
  readonly kind: GuessKind;
  readonly ids: readonly number[];
}

/** What is known of guesses of one answer. */
export interface RequestGuesses {
  readonly rates: Readonly<Record<GuessKind, Acceptance>>;
  /** What the draft was asked when the request had so many tokens, and what it said; undefined while it thinks. */
  asked: { readonly tokens: number; ids: readonly number[] | undefined } | undefined;
  /** The draft has not read the prompt yet. */
  isReading: boolean;
}

export interface GuessingOptions {
  readonly world: World;
  readonly pace: Pace;
  readonly stageMs: () => number;
  /** Requests that answers are made for. */
  readonly active: () => number;
  /** Undefined where there is none, or none yet. */
  readonly drafter: () => Drafter | undefined;
  /** The draft has said something. */
  readonly onDraft: () => void;
}

const nothing: Guess = { kind: "text", ids: [] };
/** An answer does not wait longer for a draft, however slow its machine has become. */
const patienceMs = 1_000;
/** What a draft may have to read while an answer waits for it. */
const unreadMax = 64;
/** How much one answer's guesses count for what is expected of the next one's. */
const share = 0.05;

export class Guessing {
  readonly #options: GuessingOptions;
  readonly #counts = Object.fromEntries(guessKinds.map((kind) => [kind, { guessed: 0, right: 0 }])) as Record<
    GuessKind,
    { guessed: number; right: number }
  >;
  /** How often drafts are right, over all answers: it is a matter of the two models. */
  #draftRate = hopeful;

  constructor(options: GuessingOptions) {
    this.#options = options;
  }

  get counts(): Readonly<Record<GuessKind, GuessCount>> {
    return this.#counts;
  }

  open(): RequestGuesses {
    const rates = { schema: new Acceptance(), text: new Acceptance(), draft: new Acceptance(this.#draftRate) };
    return { rates, asked: undefined, isReading: false };
  }

  /** Up to `most` tokens behind those that are known, beside so many requests of the pass that guess, too; "later": the draft is being asked. */
  next(request: Active, tokens: readonly number[], most: number, together: number): Guess | "later" {
    const { reads, guesses } = request;
    if (most < 1 || reads.kind !== "tokens") return nothing;
    const { asked } = guesses;
    if (asked?.tokens === tokens.length) {
      if (asked.ids === undefined) return "later";
      if (asked.ids.length > 0) return { kind: "draft", ids: asked.ids.slice(0, most) };
    }
    const schema = reads.chooser.guess(Math.min(this.#plan(guesses.rates.schema, together).count, most));
    if (schema.length > 0) return { kind: "schema", ids: schema };
    const plan = this.#plan(guesses.rates.text, together);
    const text = draftFrom(tokens, Math.min(plan.count, most));
    if (asked?.tokens === tokens.length) return { kind: "text", ids: text };
    const isAsked = this.#ask(request, tokens, most, text.length > 0 ? plan.rate : 0);
    return isAsked ? "later" : { kind: "text", ids: text };
  }

  #plan(rate: Acceptance, together: number) {
    const { pace, stageMs } = this.#options;
    return pace.guesses(rate.rate, stageMs(), together);
  }

  /** Drafts take time of the head's machine, which others may need. */
  #draftPlan(chance: number, guessMs: number) {
    const { pace, stageMs, active } = this.#options;
    const atOnce = pace.inFlight(stageMs());
    const together = Math.ceil(active() / atOnce);
    return pace.guesses(chance, stageMs(), together, guessMs, Math.min(active(), atOnce));
  }

  /** True if the draft should bring more tokens per time than what is known, and thinks now. */
  #ask(request: Active, tokens: readonly number[], most: number, known: number): boolean {
    const drafter = this.#options.drafter();
    const { guesses, key } = request;
    if (drafter?.tokenMs === undefined || guesses.isReading) return false;
    const { count, rate } = this.#draftPlan(guesses.rates.draft.rate, drafter.tokenMs);
    const unread = drafter.unread(key, tokens);
    if (count === 0 || rate <= known || unread === undefined) return false;
    if (unread > unreadMax) {
      this.#read(request, tokens, drafter);
      return false;
    }
    const asked: RequestGuesses["asked"] = { tokens: tokens.length, ids: undefined };
    guesses.asked = asked;
    let giveUp: Cancel = () => {};
    const said = (ids: readonly number[]) => {
      giveUp();
      if (guesses.asked !== asked || asked.ids !== undefined) return;
      asked.ids = ids;
      this.#options.onDraft();
    };
    giveUp = this.#options.world.timers.after(patienceMs, () => said([]));
    void drafter.guess({ key, tokens, count: Math.min(count, most), choose: choiceOf(request) }).then(said);
    return true;
  }

  /** A prompt is on its way: where drafts pay the draft reads it meanwhile. */
  begin(request: Active, tokens: readonly number[]): void {
    const drafter = this.#options.drafter();
    if (drafter?.tokenMs === undefined || request.reads.kind !== "tokens" || request.guesses.isReading) return;
    if (this.#draftPlan(this.#draftRate, drafter.tokenMs).count > 0) this.#read(request, tokens, drafter);
  }

  #read({ guesses, key }: Active, tokens: readonly number[], drafter: Drafter): void {
    guesses.isReading = true;
    const ask = { key, tokens, count: 0, choose: () => undefined };
    void drafter.guess(ask).then(() => {
      guesses.isReading = false;
    });
  }

  /** What has come of guesses. */
  observe({ guesses }: Active, kind: GuessKind, guessed: number, right: number): void {
    if (guessed === 0) return;
    guesses.rates[kind].observe(guessed, right);
    this.#counts[kind].guessed += guessed;
    this.#counts[kind].right += right;
    if (kind === "draft") this.#draftRate += share * (right / Math.min(guessed, right + 1) - this.#draftRate);
  }

  /** The request is over. */
  end({ key }: Active): void {
    this.#options.drafter()?.drop(key);
  }
}

/** As the request chooses, from the draft's logits: with its own seed, so that two models that nearly agree draw the same. */
function choiceOf({ reads, prompt }: Active) {
  return (logits: Float32Array, tokens: readonly number[]) =>
    reads.kind === "tokens" ? reads.chooser.suggest(logits, tokens, prompt.length) : undefined;
}
