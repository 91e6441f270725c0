// Decides what runs next in a served network, beside its head. A pass has the next token of everybody whose next token is
// known, with guesses at those after it, and beside them pieces of prompts. A row's bits depend on its own request alone, so
// nothing has to be repeated as it was: if part of the network is lost, what is known of each answer is read again like a prompt.

import { DcnrError, fail } from "../../core/errors.ts";
import type { Cancel } from "../../core/world.ts";
import { Chooser } from "../../models/choosing.ts";
import { AnswerQueue, type TokenAnswer } from "./answer-queue.ts";
import { answerName, type RecordedRow } from "./answer-rows.ts";
import type { ConductorLoad, ConductorOptions, EmbedRequest, TokenRequest } from "./conductor-options.ts";
import { Guessing } from "./guessing.ts";
import { Pace } from "./pace.ts";
import { type Pass, rowsMax } from "./pass.ts";
import { type Active, isNextToken, nextPieces, type Piece, tokensOf, type Ways } from "./pieces.ts";
import { Pool } from "./pooling.ts";
import { Prefixes } from "./prefixes.ts";
import { type HeadRows, rowsAt, takeStates, takeTokens } from "./taking.ts";

const waitingMax = 128;
/** Answers that were begun elsewhere come in even when nobody else may. */
const continuedMax = 2 * waitingMax;
/** A pass that takes longer is taken for lost; each time it happens the next one gets twice as long. */
const stallMsMin = 30_000;
/** So long without any result, nobody is kept waiting. */
const giveUpMs = 180_000;
/** Caches of ended requests are not relied on for longer; VNodes keep them for twice as long. */
const keptMs = 60_000;
const resetPauseMsMin = 25;
const resetPauseMsMax = 800;

interface InFlight {
  readonly pieces: readonly Piece[];
  readonly sentMs: number;
  /** No other was under way when it was sent, and no prompt is read by it. */
  readonly isAlone: boolean;
}

export class Conductor {
  readonly #options: ConductorOptions;
  readonly #waiting: Active[] = [];
  readonly #active = new Set<Active>();
  readonly #inFlight = new Map<number, InFlight>();
  readonly #prefixes = new Prefixes();
  readonly #pace = new Pace();
  readonly #guessing: Guessing;
  readonly #ways: Ways;
  #dropped: string[] = [];
  #passes = 0;
  #attempt = 0;
  #sharedPositions = 0;
  #resetTimer: Cancel | undefined;
  #stallTimer: Cancel | undefined;
  #closed = false;
  #pauseMs = resetPauseMsMin;
  #stallMs = stallMsMin;
  #progressMs = 0;

  constructor(options: ConductorOptions) {
    this.#options = options;
    const { context, stageMs, world, without, drafter = () => undefined } = options;
    const onDraft = () => this.#schedule();
    this.#guessing = new Guessing({
      world,
      pace: this.#pace,
      stageMs,
      drafter,
      onDraft,
      active: () => this.#active.size,
    });
    const guess: Ways["guess"] = (request, tokens, most, together) =>
      this.#guessing.next(request, tokens, without?.includes("drafts") ? 0 : most, together);
    this.#ways = { context, guess, shared: (request, tokens) => this.#sharedWith(request, tokens) };
  }

  get load(): ConductorLoad {
    return {
      ...{ active: this.#active.size, waiting: this.#waiting.length, inFlight: this.#inFlight.size },
      ...{ guesses: this.#guessing.counts, sharedPositions: this.#sharedPositions },
    };
  }

  /** Tokens as they are chosen, until the answer ends or the signal aborts. Fails at once if the request cannot be taken. */
  generate(request: TokenRequest, signal: AbortSignal): AsyncGenerator<TokenAnswer> {
    const { prompt, sent, maxTokens, adapter = 0 } = request;
    this.#check(prompt, this.#options.context - 1, sent.length > 0 ? continuedMax : waitingMax);
    const reads = { kind: "tokens" as const, chooser: new Chooser(request, sent) };
    const active = this.#request({ prompt, maxTokens, adapter, reads, produced: [...sent] });
    if (sent.length >= maxTokens || prompt.length + sent.length >= this.#options.context)
      active.answers.push({ tokens: [], finish: "length" });
    else if (!signal.aborted) this.#begin(active);
    return this.#named(
      active,
      active.answers.read(signal, () => this.#end(active)),
    );
  }

  /** The first tokens come with what machines call the answer. */
  async *#named({ key }: Active, answers: AsyncGenerator<TokenAnswer>): AsyncGenerator<TokenAnswer> {
    let request: string | undefined = answerName(this.#options.epoch, key);
    for await (const answer of answers) {
      yield request === undefined ? answer : { ...answer, request };
      request = undefined;
    }
  }

  /** One vector of length 1 for the whole prompt. */
  async embed({ prompt, pooling, adapter = 0 }: EmbedRequest, signal: AbortSignal): Promise<Float32Array> {
    this.#check(prompt, this.#options.context, waitingMax);
    const reads = { kind: "vector" as const, pool: new Pool(pooling) };
    const active = this.#request({ prompt, maxTokens: 0, adapter, reads, produced: [] });
    if (!signal.aborted) this.#begin(active);
    for await (const { vector } of active.answers.read(signal, () => this.#end(active))) if (vector) return vector;
    return fail("cancelled", "nobody waits for the vector any more");
  }

  #request(wish: Pick<Active, "prompt" | "maxTokens" | "adapter" | "reads" | "produced">): Active {
    const [guesses, answers] = [this.#guessing.open(), new AnswerQueue()];
    const key = String(this.#options.nextRequest());
    return { ...wish, key, guesses, position: 0, answers };
  }

  #begin(active: Active): void {
    if (this.#active.size + this.#waiting.length === 0) this.#awake();
    this.#waiting.push(active);
    this.#schedule();
  }

  #check(prompt: readonly number[], tokensMax: number, most: number): void {
    if (this.#closed) fail("unavailable", "the model moves to another PNode: try again");
    if (prompt.length === 0) fail("invalid_argument", "the prompt is empty");
    if (prompt.length > tokensMax)
      fail(
        "invalid_argument",
        `the prompt has ${prompt.length} tokens, the model takes at most ${tokensMax}: shorten it`,
      );
    if (this.#waiting.length >= most)
      fail("resource_exhausted", `${this.#waiting.length} requests are waiting already: try again later`);
  }

  /** Somebody comes after nobody was there. */
  #awake(): void {
    const nowMs = this.#options.world.clock.monotonicMs();
    if (nowMs - this.#progressMs > keptMs) this.#dropped.push(...this.#prefixes.forget());
    this.#progressMs = nowMs;
  }

  /** The reader has its answer, or has gone away. */
  #end(active: Active): void {
    const index = this.#waiting.indexOf(active);
    if (index >= 0) this.#waiting.splice(index, 1);
    if (!this.#active.has(active)) return;
    this.#remove(active, true);
    this.#schedule();
  }

  /** `whole`: its caches are what they should be, so that others may begin with them. */
  #remove(active: Active, whole: boolean): void {
    this.#active.delete(active);
    this.#guessing.end(active);
    if (!whole || this.#options.without?.includes("prefixes")) {
      this.#dropped.push(active.key);
      return;
    }
    const { key, adapter, position } = active;
    this.#prefixes.keep({ key, adapter, tokens: tokensOf(active).slice(0, position) });
    this.#dropped.push(...this.#prefixes.shrink(this.#options.positionsMax - this.#reserved()));
  }

  #reserved(): number {
    let positions = 0;
    for (const active of this.#active) positions += this.#wants(active);
    return positions;
  }

  /** Positions that a request may come to. */
  #wants({ prompt, maxTokens }: Active): number {
    return Math.min(this.#options.context, prompt.length + maxTokens);
  }

  #schedule(): void {
    while (!this.#closed && !this.#resetTimer) {
      const atOnce = this.#pace.inFlight(this.#options.stageMs());
      // One more, so that newcomers need not wait until a pass has come around.
      if (this.#inFlight.size > atOnce) return;
      this.#admit();
      const pieces = nextPieces(this.#active, atOnce, this.#ways);
      if (pieces.length === 0) {
        if (this.#active.size === 0 && this.#dropped.length > 0) this.#sayFarewell();
        return;
      }
      // What it measures is worth that others wait for it once in a while; prompts never do.
      if (this.#inFlight.size > 0 && this.#pace.wantsAlone && pieces.every(isNextToken)) return;
      this.#send(pieces);
    }
  }

  /** In order, as many as there is memory for; what ended ones left behind goes first. */
  #admit(): void {
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined || this.#active.size >= rowsMax) return;
      const positions = this.#reserved() + this.#wants(next);
      if (positions > this.#options.positionsMax && this.#active.size > 0) return;
      this.#waiting.shift();
      this.#active.add(next);
      this.#dropped.push(...this.#prefixes.shrink(Math.max(0, this.#options.positionsMax - positions)));
    }
  }

  #sharedWith(request: Active, tokens: readonly number[]): Piece["shared"] {
    // Of positions that are shared there are caches, but no hidden states.
    if (request.reads.kind === "vector" || this.#options.without?.includes("prefixes")) return undefined;
    const running = [...this.#active]
      .filter((other) => other !== request && other.position > 0)
      .map((other) => ({ key: other.key, adapter: other.adapter, tokens: tokensOf(other).slice(0, other.position) }));
    const shared = this.#prefixes.best(tokens, request.adapter, running);
    this.#sharedPositions += shared?.positions ?? 0;
    return shared;
  }

  #send(pieces: readonly Piece[]): void {
    const { world, feed } = this.#options;
    for (const { request, position, ids, drafts } of pieces) request.position = position + ids.length - drafts.length;
    if (!this.#options.without?.includes("drafts"))
      for (const { request } of pieces.filter((piece) => !isNextToken(piece)))
        this.#guessing.begin(request, tokensOf(request));
    const pass = this.#pass(pieces);
    const isAlone = this.#inFlight.size === 0 && pieces.every(isNextToken);
    this.#inFlight.set(pass.id, { pieces, sentMs: world.clock.monotonicMs(), isAlone });
    this.#watchForStall();
    feed(pass, Int32Array.from(pieces.flatMap(({ ids }) => ids)));
  }

  /** Nobody is left whose pass could carry the news: VNodes need not keep caches until somebody comes. */
  #sayFarewell(): void {
    this.#options.feed(this.#pass([]), new Int32Array(0));
  }

  #pass(pieces: readonly Piece[]): Pass {
    const { pnode, epoch } = this.#options;
    const dropped = this.#dropped.splice(0);
    const rows = pieces.map(({ request, position, ids, logits, hidden, shared }) => ({
      ...{ request: request.key, position, tokens: ids.length, logits },
      ...(hidden > 0 && { hidden }),
      ...(request.adapter > 0 && { adapter: request.adapter }),
      ...(shared && { shared }),
    }));
    return { id: ++this.#passes, conductor: pnode, epoch, attempt: this.#attempt, rows, plain: false, dropped };
  }

  /** The head is done with a pass. */
  finished({ id, attempt }: Pass, logits: HeadRows, hidden?: HeadRows): void {
    const sent = this.#inFlight.get(id);
    if (sent === undefined || attempt !== this.#attempt) return;
    this.#inFlight.delete(id);
    this.#pauseMs = resetPauseMsMin;
    this.#stallMs = stallMsMin;
    this.#progressMs = this.#options.world.clock.monotonicMs();
    const tokens = sent.pieces.reduce((sum, { ids }) => sum + ids.length, 0);
    this.#pace.observe(tokens, this.#progressMs - sent.sentMs, sent.isAlone);
    let [row, state] = [0, 0];
    for (const piece of sent.pieces) {
      const { request } = piece;
      const own = rowsAt(logits, row, piece.logits);
      const states = hidden && rowsAt(hidden, state, piece.hidden);
      row += piece.logits;
      state += piece.hidden;
      if (!this.#active.has(request)) continue;
      if (this.#take(piece, own, states)) this.#remove(request, true);
    }
    this.#schedule();
  }

  /** True if the request has all that it wanted. */
  #take(piece: Piece, logits: HeadRows, states: HeadRows | undefined): boolean {
    const { reads } = piece.request;
    if (reads.kind === "vector") return takeStates(piece, reads.pool, states);
    const { accepted, isOver } = takeTokens(piece, logits, reads.chooser, this.#options.context);
    if (piece.logits > 0) this.#options.onLogits?.(chosenFrom(piece, accepted), rowsAt(logits, 0, 1 + accepted).values);
    this.#guessing.observe(piece.request, piece.guessedBy, piece.drafts.length, accepted);
    return isOver;
  }

  /** A pass cannot be finished; those after it in its turn would miss what it should have left behind. */
  lost({ attempt }: Pass): void {
    if (attempt === this.#attempt && this.#inFlight.size > 0) this.reset();
  }

  /** A pass cannot be computed at all: its requests end, the others go on. */
  failed({ id, attempt }: Pass, reason: string): void {
    const sent = this.#inFlight.get(id);
    if (sent === undefined || attempt !== this.#attempt) return;
    this.#inFlight.delete(id);
    const error = new DcnrError("data_loss", `the model cannot go on: ${reason}`);
    for (const { request } of sent.pieces) {
      if (!this.#active.has(request)) continue;
      request.answers.fail(error);
      this.#remove(request, false);
    }
    this.#schedule();
  }

  /** Part of the network is new: everybody's caches are made again from the tokens that are known. */
  reset(): void {
    if (this.#closed || this.#resetTimer) return;
    // A short pause, since several changes often come together; a longer one while a new owner loads.
    this.#pauseMs = Math.min(this.#pauseMs * 2, resetPauseMsMax);
    this.#resetTimer = this.#options.world.timers.after(this.#pauseMs, () => {
      this.#resetTimer = undefined;
      this.#beginAnew();
    });
  }

  #beginAnew(): void {
    const waitedMs = this.#options.world.clock.monotonicMs() - this.#progressMs;
    if (this.#active.size > 0 && waitedMs > giveUpMs)
      this.#failAll(`part of the model has been missing for ${Math.round(waitedMs / 1000)} s: try again later`);
    this.#inFlight.clear();
    // A new attempt: what VNodes kept of earlier ones goes by itself.
    this.#dropped = [];
    this.#prefixes.forget();
    this.#attempt++;
    for (const active of this.#active) {
      active.position = 0;
      if (active.reads.kind === "vector") active.reads.pool.clear();
    }
    if (this.#active.size + this.#waiting.length === 0) this.#sayFarewell();
    else this.#schedule();
  }

  #watchForStall(): void {
    if (this.#stallTimer) return;
    const { world } = this.#options;
    this.#stallTimer = world.timers.after(stallMsMin / 2, () => {
      this.#stallTimer = undefined;
      const oldest = this.#inFlight.values().next().value;
      if (oldest === undefined) return;
      if (world.clock.monotonicMs() - oldest.sentMs > this.#stallMs) {
        this.#stallMs *= 2;
        this.reset();
      } else this.#watchForStall();
    });
  }

  #failAll(reason: string): void {
    const error = new DcnrError("unavailable", reason);
    for (const { answers } of [...this.#active, ...this.#waiting]) answers.fail(error);
    for (const active of this.#active) this.#guessing.end(active);
    this.#active.clear();
    this.#waiting.length = 0;
  }

  /** The head leaves this PNode: whoever waits is told to ask again elsewhere. */
  close(): void {
    this.#closed = true;
    this.#resetTimer?.();
    this.#stallTimer?.();
    this.#failAll("the model moves to another PNode: try again");
  }
}

/** The last known token, and guesses that were right. */
function chosenFrom({ request, position, ids, logits }: Piece, accepted: number): RecordedRow {
  return { request: request.key, position: position + ids.length - logits, tokens: 1 + accepted };
}
