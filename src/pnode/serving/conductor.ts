// Decides what runs next in a served network, beside its head: new requests get a pass for their whole prompt, all
// others whose next token is known share a pass. If part of the network is lost, passes are repeated in the shapes
// they first had, with the tokens that are known already; what was sent never changes.

import { DcnrError, fail } from "../../core/errors.ts";
import type { Cancel, World } from "../../core/world.ts";
import { type Choice, type ChoiceWish, Chooser } from "../../models/choosing.ts";
import { AnswerQueue, type TokenAnswer } from "./answer-queue.ts";
import { type Pass, type PassRow, rowsMax } from "./pass.ts";

export interface TokenRequest extends ChoiceWish {
  readonly prompt: readonly number[];
  /** Tokens that an earlier conductor has sent: repeated, not chosen again. */
  readonly sent: readonly number[];
  readonly maxTokens: number;
}

export interface ConductorOptions {
  readonly pnode: string;
  /** Of the head's ownership. */
  readonly epoch: number;
  /** Positions that prompt and answer must fit into. */
  readonly context: number;
  readonly world: World;
  /** Sends token ids to the VNodes that take them. */
  readonly feed: (pass: Pass, ids: Int32Array, tokens: number) => void;
}

const waitingMax = 128;
/** Answers that were begun elsewhere come in even when nobody else may. */
const continuedMax = 2 * waitingMax;
/** Several passes keep several PNodes busy. */
const passesInFlightMax = 2;
/** Repeated passes wait for no token: more of them hide the way between PNodes. */
const repeatsInFlightMax = 8;
/** Few shapes mean few graphs; what is missing is filled with ghosts. */
const batchSizes = [1, 2, 3, 4, 6, 8, 12, rowsMax];
/** A pass that takes longer is taken for lost; each time it happens the next one gets twice as long. */
const stallMsMin = 30_000;
/** So long without any result, nobody is kept waiting. */
const giveUpMs = 180_000;
const resetPauseMsMin = 25;
const resetPauseMsMax = 800;

interface Active extends TokenRequest {
  readonly key: string;
  /** Chosen or repeated tokens, in order. */
  readonly produced: number[];
  readonly chooser: Chooser;
  /** Positions that passes have been sent for. */
  position: number;
  readonly answers: AnswerQueue;
}

/** What a pass consists of, to be repeated as it was. Rows without a request only fill the shape. */
interface Logged {
  readonly rows: readonly {
    readonly request: Active | undefined;
    readonly position: number;
    readonly ids: readonly number[];
  }[];
  readonly tokens: number;
}

export class Conductor {
  readonly #options: ConductorOptions;
  readonly #waiting: Active[] = [];
  readonly #active = new Set<Active>();
  /** Passes that some active request took part in, in order. */
  #log: Logged[] = [];
  /** Those of the log that are still to be repeated. */
  #repeating: Logged[] = [];
  readonly #inFlight = new Map<number, { readonly logged: Logged; readonly sentMs: number }>();
  #dropped: string[] = [];
  #requests = 0;
  #passes = 0;
  #attempt = 0;
  #resetTimer: Cancel | undefined;
  #stallTimer: Cancel | undefined;
  #closed = false;
  #pauseMs = resetPauseMsMin;
  #stallMs = stallMsMin;
  #progressMs = 0;

  constructor(options: ConductorOptions) {
    this.#options = options;
  }

  /** What is kept, for tests and metrics. */
  get load(): { active: number; waiting: number; logged: number; inFlight: number } {
    return {
      active: this.#active.size,
      waiting: this.#waiting.length,
      logged: this.#log.length,
      inFlight: this.#inFlight.size,
    };
  }

  /** Tokens as they are chosen, until the answer ends or the signal aborts. Fails at once if the request cannot be taken. */
  generate(request: TokenRequest, signal: AbortSignal): AsyncGenerator<TokenAnswer> {
    this.#check(request);
    const { prompt, sent, maxTokens } = request;
    const answers = new AnswerQueue();
    const active: Active = {
      ...request,
      key: String(++this.#requests),
      produced: [...sent],
      chooser: new Chooser(request, sent),
      position: 0,
      answers,
    };
    if (sent.length >= maxTokens || prompt.length + sent.length >= this.#options.context)
      answers.push({ tokens: [], finish: "length" });
    else if (!signal.aborted) {
      if (this.#active.size + this.#waiting.length === 0) this.#progressMs = this.#options.world.clock.monotonicMs();
      this.#waiting.push(active);
      this.#schedule();
    }
    return answers.read(signal, () => this.#end(active));
  }

  #check({ prompt, sent }: TokenRequest): void {
    const { context } = this.#options;
    if (this.#closed) fail("unavailable", "the model moves to another PNode: try again");
    if (prompt.length === 0) fail("invalid_argument", "the prompt is empty");
    if (prompt.length >= context)
      fail(
        "invalid_argument",
        `the prompt has ${prompt.length} tokens, the model takes at most ${context - 1}: shorten it`,
      );
    const most = sent.length > 0 ? continuedMax : waitingMax;
    if (this.#waiting.length >= most)
      fail("resource_exhausted", `${this.#waiting.length} requests are waiting already: try again later`);
  }

  /** The reader has its answer, or has gone away. */
  #end(active: Active): void {
    const index = this.#waiting.indexOf(active);
    if (index >= 0) this.#waiting.splice(index, 1);
    if (!this.#active.has(active)) return;
    this.#remove(active);
    this.#schedule();
  }

  #remove(active: Active): void {
    this.#active.delete(active);
    this.#dropped.push(active.key);
    // What no active request took part in will never be repeated.
    this.#log = this.#log.filter((logged) => this.#matters(logged));
  }

  #isActive(request: Active | undefined): request is Active {
    return request !== undefined && this.#active.has(request);
  }

  #matters({ rows }: Logged): boolean {
    return rows.some(({ request }) => this.#isActive(request));
  }

  #schedule(): void {
    while (!this.#closed && !this.#resetTimer) {
      const repeat = this.#repeating[0];
      if (this.#inFlight.size >= (repeat ? repeatsInFlightMax : passesInFlightMax)) return;
      if (repeat) {
        this.#repeating.shift();
        if (this.#matters(repeat)) this.#send(repeat);
        continue;
      }
      const logged = this.#next();
      if (logged === undefined) {
        if (this.#active.size === 0 && this.#dropped.length > 0) this.#sayFarewell();
        return;
      }
      this.#log.push(logged);
      this.#send(logged);
    }
  }

  /** Prompts first: their tokens are awaited most. */
  #next(): Logged | undefined {
    const fresh = this.#active.size < rowsMax ? this.#waiting.shift() : undefined;
    if (fresh) {
      this.#active.add(fresh);
      return { rows: [{ request: fresh, position: 0, ids: fresh.prompt }], tokens: fresh.prompt.length };
    }
    const rows: Logged["rows"][number][] = [];
    for (const request of this.#active) {
      const token = request.produced[request.position - request.prompt.length];
      if (token !== undefined) rows.push({ request, position: request.position, ids: [token] });
    }
    if (rows.length === 0) return undefined;
    const size = batchSizes.find((each) => each >= rows.length) as number;
    while (rows.length < size) rows.push({ request: undefined, position: 0, ids: [0] });
    return { rows, tokens: 1 };
  }

  #send(logged: Logged): void {
    const { world, feed } = this.#options;
    const rows: PassRow[] = logged.rows.map(({ request, position }) => ({
      request: request?.key ?? "",
      position,
      tokens: logged.tokens,
      ghost: !this.#isActive(request),
    }));
    for (const { request, position } of logged.rows) if (request) request.position = position + logged.tokens;
    const pass = this.#pass(rows);
    this.#inFlight.set(pass.id, { logged, sentMs: world.clock.monotonicMs() });
    this.#watchForStall();
    feed(pass, Int32Array.from(logged.rows.flatMap(({ ids }) => ids)), logged.tokens);
  }

  /** Nobody is left whose pass could carry the news: VNodes need not keep caches until somebody comes. */
  #sayFarewell(): void {
    this.#options.feed(this.#pass([]), new Int32Array(0), 1);
  }

  #pass(rows: readonly PassRow[]): Pass {
    const { pnode, epoch } = this.#options;
    const dropped = this.#dropped.splice(0);
    return { id: ++this.#passes, conductor: pnode, epoch, attempt: this.#attempt, rows, plain: false, dropped };
  }

  /** The head is done with a pass: `logits` has a row for each of its rows. */
  logits({ id, attempt }: Pass, logits: Float32Array, classes: number): void {
    const sent = this.#inFlight.get(id);
    if (sent === undefined || attempt !== this.#attempt) return;
    this.#inFlight.delete(id);
    this.#pauseMs = resetPauseMsMin;
    this.#stallMs = stallMsMin;
    this.#progressMs = this.#options.world.clock.monotonicMs();
    const { rows, tokens } = sent.logged;
    for (const [row, { request, position }] of rows.entries())
      if (this.#isActive(request))
        this.#choose(request, position + tokens, logits.subarray(row * classes, (row + 1) * classes));
    this.#schedule();
  }

  /** `position` is where the new token stands. One that is known already is not chosen again. */
  #choose(request: Active, position: number, logits: Float32Array): void {
    const { prompt, produced, chooser, maxTokens } = request;
    const index = position - prompt.length;
    if (index !== produced.length) return;
    const left = Math.min(maxTokens, this.#options.context - prompt.length) - produced.length - 1;
    const choice = this.#chosen(request, () => chooser.choose(logits, { position, prompt, produced, left }));
    if (choice === undefined) return;
    const { token, logprobs, ends } = choice;
    produced.push(token);
    const finish = ends ? "stop" : left <= 0 ? "length" : undefined;
    request.answers.push({
      ...(ends === "before" ? { tokens: [] } : { tokens: [token], ...(logprobs ? { logprobs: [logprobs] } : {}) }),
      ...(finish ? { finish } : {}),
    });
    if (finish) this.#remove(request);
  }

  /** What cannot be chosen ends its own request, and no other. */
  #chosen(request: Active, choose: () => Choice): Choice | undefined {
    try {
      return choose();
    } catch (thrown) {
      request.answers.fail(DcnrError.from(thrown, "internal"));
      this.#remove(request);
      return undefined;
    }
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
    for (const { request } of sent.logged.rows) {
      if (!this.#isActive(request)) continue;
      request.answers.fail(error);
      this.#remove(request);
    }
    this.#schedule();
  }

  /** Part of the network is new: its caches are rebuilt by repeating the passes that matter. */
  reset(): void {
    if (this.#closed || this.#resetTimer) return;
    // A short pause, since several changes often come together; a longer one while a new owner loads.
    this.#pauseMs = Math.min(this.#pauseMs * 2, resetPauseMsMax);
    this.#resetTimer = this.#options.world.timers.after(this.#pauseMs, () => {
      this.#resetTimer = undefined;
      this.#repeat();
    });
  }

  #repeat(): void {
    const waitedMs = this.#options.world.clock.monotonicMs() - this.#progressMs;
    if (this.#active.size > 0 && waitedMs > giveUpMs)
      this.#failAll(`part of the model has been missing for ${Math.round(waitedMs / 1000)} s: try again later`);
    this.#inFlight.clear();
    this.#dropped = [];
    this.#attempt++;
    for (const active of this.#active) active.position = 0;
    this.#repeating = [...this.#log];
    this.#schedule();
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
    this.#active.clear();
    this.#waiting.length = 0;
    this.#log = [];
  }

  /** The head leaves this PNode: whoever waits is told to ask again elsewhere. */
  close(): void {
    this.#closed = true;
    this.#resetTimer?.();
    this.#stallTimer?.();
    this.#failAll("the model moves to another PNode: try again");
  }
}
