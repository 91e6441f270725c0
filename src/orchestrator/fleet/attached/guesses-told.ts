// What a machine says of the tokens that it guessed for a served model: it is for people, and bounded.

import { wholeOf } from "../../../core/whole.ts";
import type { Guesses } from "../../../protocol/gen/dcnr/v1/common_pb.ts";

export interface GuessesTold {
  readonly kind: string;
  readonly guessed: number;
  readonly right: number;
}

/** There are three kinds; a machine that tells of more is not believed more. */
const guessKindsMax = 8;
const guessKindLengthMax = 20;

/** What a machine says of its guesses, within bounds; absent where it says nothing. */
export function guessesOf({ guesses }: { readonly guesses: readonly Guesses[] }): {
  readonly guesses?: readonly GuessesTold[];
} {
  if (guesses.length === 0) return {};
  const told = guesses.slice(0, guessKindsMax).map(({ kind, guessed, right }) => ({
    kind: kind.slice(0, guessKindLengthMax),
    guessed: wholeOf(guessed),
    right: Math.min(wholeOf(right), wholeOf(guessed)),
  }));
  return { guesses: told };
}
