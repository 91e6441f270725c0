// What goes into the next pass, and how much of each request: next tokens with guesses at those after them, and pieces of prompts.

import type { Chooser } from "../../models/choosing.ts";
import type { AnswerQueue } from "./answer-queue.ts";
import type { Guess, GuessKind, RequestGuesses } from "./guessing.ts";
import { passTokensMax } from "./pass.ts";
import type { Pool } from "./pooling.ts";

/** Tokens of prompts beside the next tokens of others, who wait for them. */
const chunkTokensMax = passTokensMax / 2;

/** A request that passes are sent for. */
export interface Active {
  readonly key: string;
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  /** Which of the model's adapters answers; 0: none. */
  readonly adapter: number;
  /** Chosen or repeated tokens, in order. */
  readonly produced: number[];
  /** What is made of the head's rows: tokens are chosen, or one vector is made of all. */
  readonly reads: { readonly kind: "tokens"; readonly chooser: Chooser } | { readonly kind: "vector"; pool: Pool };
  readonly guesses: RequestGuesses;
  /** Positions that passes have been sent for, and that are right. */
  position: number;
  readonly answers: AnswerQueue;
}

/** Some tokens of one request in a pass. */
export interface Piece {
  readonly request: Active;
  readonly position: number;
  /** Known ones, then guesses. */
  readonly ids: readonly number[];
  readonly drafts: readonly number[];
  /** Who guessed. */
  readonly guessedBy: GuessKind;
  /** 0 for a prompt that goes on. */
  readonly logits: number;
  readonly hidden: number;
  readonly shared?: { readonly request: string; readonly positions: number };
}

/** What a pass may make use of, besides what is known of requests. */
export interface Ways {
  /** Positions that prompt and answer must fit into. */
  readonly context: number;
  /** Up to `most` tokens behind a request's own, beside so many requests of the same pass that guess, too; "later": it is being found. */
  readonly guess: (request: Active, tokens: readonly number[], most: number, together: number) => Guess | "later";
  /** Caches of another request that begins with the same tokens. */
  readonly shared: (request: Active, tokens: readonly number[]) => Piece["shared"];
}

/** Next tokens first, shared out among the passes that are under way together; then pieces of prompts. */
export function nextPieces(active: ReadonlySet<Active>, atOnce: number, ways: Ways): Piece[] {
  const pieces: Piece[] = [];
  const share = Math.ceil(active.size / atOnce);
  let left = passTokensMax;
  for (const request of active) {
    if (pieces.length >= share || left < 1) break;
    if (request.reads.kind === "vector" || leftOf(request) !== 1) continue;
    const piece = nextToken(request, left, share, ways);
    if (piece === undefined) continue;
    left -= piece.ids.length;
    pieces.push(piece);
  }
  let chunk = Math.min(left, active.size > 1 ? chunkTokensMax : passTokensMax);
  for (const request of active) {
    if (chunk < 1) break;
    if (leftOf(request) < (request.reads.kind === "vector" ? 1 : 2)) continue;
    const piece = promptPiece(request, chunk, ways);
    chunk -= piece.ids.length;
    pieces.push(piece);
  }
  return pieces;
}

/** The last known token, and guesses at those after it; undefined while they are being found. */
function nextToken(request: Active, left: number, together: number, { context, guess }: Ways): Piece | undefined {
  const tokens = tokensOf(request);
  const { position, maxTokens, produced } = request;
  const mayFollow = Math.min(maxTokens - produced.length, context - tokens.length) - 1;
  const found = guess(request, tokens, Math.min(mayFollow, left - 1), together);
  if (found === "later") return undefined;
  const ids = [tokens[position] as number, ...found.ids];
  const drafts = { drafts: found.ids, guessedBy: found.kind };
  return { request, position, ids, ...drafts, logits: 1 + found.ids.length, hidden: 0 };
}

/** One known token, and guesses. */
export function isNextToken({ ids, drafts }: Piece): boolean {
  return ids.length - drafts.length === 1;
}

function promptPiece(request: Active, most: number, ways: Ways): Piece {
  const tokens = tokensOf(request);
  const shared = request.position === 0 ? ways.shared(request, tokens) : undefined;
  const position = shared?.positions ?? request.position;
  const ids = tokens.slice(position, position + most);
  const isLast = position + ids.length === tokens.length;
  const { reads } = request;
  const logits = isLast && reads.kind === "tokens" ? 1 : 0;
  const hidden = reads.kind === "vector" ? reads.pool.wants(ids.length, isLast) : 0;
  const none = { drafts: [], guessedBy: "text" as const };
  return { request, position, ids, ...none, logits, hidden, ...(shared && { shared }) };
}

export function tokensOf({ prompt, produced }: Active): number[] {
  return [...prompt, ...produced];
}

/** Known tokens that no pass was sent for yet. */
function leftOf({ prompt, produced, position }: Active): number {
  return prompt.length + produced.length - position;
}
