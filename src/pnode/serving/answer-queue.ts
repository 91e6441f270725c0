// Tokens between the conductor that chooses them and the one reader who waits for them.

import type { DcnrError } from "../../core/errors.ts";
import type { ChosenLogprobs } from "../../models/choosing.ts";

export interface TokenAnswer {
  readonly tokens: readonly number[];
  /** One for each token, if they were asked for. */
  readonly logprobs?: readonly ChosenLogprobs[];
  /** Of a text, instead of tokens. */
  readonly vector?: Float32Array;
  /** On the first one: what the machines of the replica call the answer. */
  readonly request?: string;
  /** Set on the last one. */
  readonly finish?: "stop" | "length";
}

export class AnswerQueue {
  readonly #answers: TokenAnswer[] = [];
  #failure: DcnrError | undefined;
  #wake: () => void = () => {};

  push(answer: TokenAnswer): void {
    this.#answers.push(answer);
    this.#wake();
  }

  fail(error: DcnrError): void {
    this.#failure ??= error;
    this.#wake();
  }

  /** Until the last answer, a failure, or the reader's own signal. `ended` is called as soon as nobody reads. */
  async *read(signal: AbortSignal, ended: () => void): AsyncGenerator<TokenAnswer> {
    const stop = () => {
      ended();
      this.#wake();
    };
    signal.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const answer = this.#answers.shift();
        if (answer) {
          yield answer;
          if (answer.finish) return;
        } else if (this.#failure) throw this.#failure;
        else if (signal.aborted) return;
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
      }
    } finally {
      signal.removeEventListener("abort", stop);
      ended();
    }
  }
}
