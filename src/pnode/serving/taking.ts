// What a request gets from the rows of a finished pass: tokens chosen from logits, as many as its guesses allow, or states added to a vector. What
// follows for the others is the conductor's.

import { DcnrError } from "../../core/errors.ts";
import type { Chooser } from "../../models/choosing.ts";
import type { Active, Piece } from "./pieces.ts";
import type { Pool } from "./pooling.ts";

/** What the head gives of a pass: rows that were asked for, in order. */
export interface HeadRows {
  readonly values: Float32Array;
  readonly width: number;
}

export function rowsAt({ values, width }: HeadRows, first: number, count: number): HeadRows {
  return { values: values.subarray(first * width, (first + count) * width), width };
}

export interface Taken {
  /** Guesses that were right. */
  readonly accepted: number;
  /** The request has all that it wanted, or cannot go on. */
  readonly isOver: boolean;
}

/** Chooses as many tokens as the guesses allow: each that was right has the logits of the next one already. */
export function takeTokens(
  { request, position, ids, drafts, logits: count }: Piece,
  logits: HeadRows,
  chooser: Chooser,
  context: number,
): Taken {
  const known = position + ids.length - drafts.length;
  let accepted = 0;
  let isOver = false;
  for (let row = 0; row < count; row++) {
    const chosen = choose(request, chooser, known + row, rowsAt(logits, row, 1).values, context);
    isOver ||= chosen.isOver;
    if (isOver || chosen.token === undefined) break;
    if (row < drafts.length && chosen.token !== drafts[row]) break;
    if (row < drafts.length) accepted++;
  }
  if (drafts.length > 0) request.position = known + accepted;
  return { accepted, isOver };
}

/** `position` is where the new token stands. No token if the answer cannot go on. */
function choose(
  request: Active,
  chooser: Chooser,
  position: number,
  logits: Float32Array,
  context: number,
): { readonly token?: number; readonly isOver: boolean } {
  const { prompt, produced, maxTokens } = request;
  if (position !== prompt.length + produced.length) return { isOver: false };
  const left = Math.min(maxTokens, context - prompt.length) - produced.length - 1;
  try {
    const { token, logprobs, ends } = chooser.choose(logits, { position, prompt, produced, left });
    produced.push(token);
    const finish = ends ? "stop" : left <= 0 ? "length" : undefined;
    request.answers.push({
      ...(ends === "before" ? { tokens: [] } : { tokens: [token], ...(logprobs ? { logprobs: [logprobs] } : {}) }),
      ...(finish ? { finish } : {}),
    });
    return { token, isOver: finish !== undefined };
  } catch (error) {
    request.answers.fail(DcnrError.from(error, "internal"));
    return { isOver: true };
  }
}

/** Passes come back in the order in which they were sent, so states are added in the order of positions. True when the vector is whole. */
export function takeStates({ request, position, ids }: Piece, pool: Pool, states: HeadRows | undefined): boolean {
  if (states) pool.add(states.values, states.width);
  if (position + ids.length < request.prompt.length) return false;
  try {
    const expected = pool.wants(request.prompt.length, true);
    request.answers.push({ tokens: [], vector: pool.vector(expected), finish: "stop" });
  } catch (error) {
    request.answers.fail(DcnrError.from(error, "internal"));
  }
  return true;
}
