// Somebody who asks a served model questions while the world breaks: every answer is the undisturbed one, or an error
// that says what happened, and what was already said is never taken back.

import { DcnrError } from "../src/core/errors.ts";
import type { SessionId } from "../src/core/ids.ts";
import type { ViolationKind } from "./checks/checkers.ts";
import type { Answers } from "./checks/session-watch.ts";
import type { Maintainer } from "./maintainer.ts";

/** Errors that a caller can do something about: try again. */
const clearCodes = ["unavailable", "deadline_exceeded", "resource_exhausted", "aborted", "cancelled", "data_loss"];

export const tokensWanted = 4;

/** Question `index`: a prompt and how to choose; every other one with chance. Of every third the vector is asked for instead. */
export function questionOf(index: number): { prompt: number[]; temperature: number; seed: number; embeds: boolean } {
  const embeds = index % 3 === 1;
  return {
    embeds,
    prompt: [(3 * index + 1) % 11, (5 * index + 2) % 11],
    temperature: index % 2 === 0 ? 0 : 0.9,
    seed: index,
  };
}

/** What the model answers undisturbed, in each class that it answers or answered in. */
export type ExpectedAnswers = () => readonly Answers[];

/** Drawn answers are repeated within it. */
const checkedMs = 15_000;

export class Conversation {
  /** Of whole answers: tokens, or the numbers of a vector. */
  readonly answers = new Map<number, readonly number[]>();
  /** Questions, repeated ones included. */
  asked = 0;
  /** Answers that were wrong. */
  misled = 0;
  /** What it waits for now; undefined if for nothing. */
  waitsFor: string | undefined;
  readonly #maintainer: Maintainer;
  readonly #model: string;
  readonly #expected: ExpectedAnswers | undefined;
  readonly #wrong: (kind: ViolationKind, message: string) => void;
  readonly #mayMislead: boolean;

  /** `mayMislead`: a machine lies that was honest when it was tried; it has to be found, and not before it has lied. */
  constructor(
    maintainer: Maintainer,
    model: string,
    expected: ExpectedAnswers | undefined,
    wrong: (kind: ViolationKind, message: string) => void,
    mayMislead = false,
  ) {
    this.#mayMislead = mayMislead;
    this.#maintainer = maintainer;
    this.#model = model;
    this.#expected = expected;
    this.#wrong = wrong;
  }

  /** Serves the session, asks, and asks the last question until it is answered once the faults have ended. */
  async run(session: SessionId, questions: number, faultsMs: number, audit: "on" | "off" = "off"): Promise<void> {
    this.waitsFor = `model ${this.#model} to be served`;
    await this.#maintainer.serve(this.#model, session, audit);
    const lastsMs = faultsMs / questions;
    for (let index = 0; index < questions; index++) {
      const isLast = index === questions - 1;
      if (!isLast) await this.#maintainer.pause(0.2 * lastsMs, lastsMs);
      const answered = await this.#ask(index);
      if (isLast && !answered) {
        await this.#maintainer.pause(500, 1_500);
        index -= 1;
      }
    }
    // What was answered last is checked too; nobody repeats answers of a model that is gone.
    if (audit === "on") await this.#maintainer.pause(checkedMs, checkedMs);
    this.waitsFor = `model ${this.#model} to be stopped`;
    await this.#maintainer.stop(this.#model);
    this.waitsFor = undefined;
  }

  async #ask(index: number): Promise<boolean> {
    this.asked += 1;
    this.waitsFor = `an answer to question ${index} from model ${this.#model}`;
    const tokens: number[] = [];
    const { embeds, ...question } = questionOf(index);
    const told = (more: readonly number[]) => {
      tokens.push(...more);
      this.#compare(index, tokens, false);
    };
    try {
      const finish = embeds
        ? await this.#maintainer.embed(this.#model, question.prompt, told)
        : await this.#maintainer.ask(this.#model, { ...question, maxTokens: tokensWanted }, told);
      if (finish === "") this.#wrong("answer", `the answer to question ${index} broke off without a word`);
      this.#compare(index, tokens, true);
      this.answers.set(index, tokens);
      return true;
    } catch (error) {
      const { code, message } = DcnrError.from(error);
      if (!clearCodes.includes(code) || message === "")
        this.#wrong("answer", `question ${index} was refused with ${code}: ${message || "no word"}`);
      return false;
    }
  }

  #compare(index: number, tokens: readonly number[], whole: boolean): void {
    const wanted = (this.#expected?.() ?? []).flatMap((answers) => {
      const answer = answers.get(index);
      return answer === undefined ? [] : [answer.slice(0, whole ? undefined : tokens.length)];
    });
    const isRight = this.#expected === undefined || wanted.some((answer) => isSame(answer, tokens));
    // Vectors are not repeated by anybody.
    if (!isRight && whole && !questionOf(index).embeds) this.misled += 1;
    if (!isRight && !this.#mayMislead)
      this.#wrong(
        "answer",
        `the answer to question ${index} is ${tokens.join(" ")}, undisturbed ${wanted[0]?.join(" ")}`,
      );
  }
}

function isSame(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((value, i) => Object.is(value, other[i]));
}
