// Decides what runs next in a served network, beside its head: new requests get a pass for their whole prompt, all
// others that wait for a token share a pass. If part of the network is lost, passes are repeated in the shapes they
// first had, with the tokens that are known already; what was sent never changes.

import { DcnrError } from "../../core/errors.ts";
import type { Cancel, World } from "../../core/world.ts";
import { type SamplingSettings, sampleToken } from "../../models/sampling.ts";
import type { Pass, PassRow } from "./pass.ts";

export interface TokenRequest {
  readonly id: string;
  readonly prompt: readonly number[];
  /** Tokens that an earlier conductor has sent: repeated, not chosen again. */
  readonly sent: readonly number[];
  readonly maxTokens: number;
  readonly sampling: SamplingSettings;
  readonly endTokens: ReadonlySet<number>;
}

export interface TokenAnswer {
  readonly tokens: readonly number[];
  readonly finish?: "stop" | "length";
}

export interface ConductorOptions {
  readonly pnode: string;
  readonly context: number;
  readonly world: World;
  /** Sends token ids to the VNodes that take them. */
  readonly feed: (pass: Pass, ids: Int32Array, tokens: number) => void;
}

/** Rows of one pass; more would make each of them wait too long. */
const rowsMax = 16;
const waitingMax = 128;
/** Several passes keep several PNodes busy; each request is in one of them at most. */
const passesInFlightMax = 2;
/** A pass that takes longer is taken for lost. */
const stallMs = 20_000;
const resetPauseMsMin = 25;
const resetPauseMsMax = 800;

interface Active extends TokenRequest {
  /** Chosen or repeated tokens, in order. */
  readonly produced: number[];
  /** Positions that passes have been sent for. */
  position: number;
  /** How many of `produced` were handed to the consumer. */
  delivered: number;
  inFlight: boolean;
  finish: "stop" | "length" | undefined;
  readonly consumer: (answer: TokenAnswer) => void;
  readonly failed: (error: DcnrError) => void;
}

interface Logged {
  readonly rows: readonly { readonly request: Active; readonly position: number; readonly ids: readonly number[] }[];
  readonly tokens: number;
}

export class Conductor {
  readonly #options: ConductorOptions;
  readonly #waiting: Active[] = [];
  readonly #active = new Map<string, Active>();
  #log: Logged[] = [];
  readonly #inFlight = new Map<number, { logged: Logged; replayed: boolean; sentMs: number }>();
  #dropped: string[] = [];
  #nextPass = 1;
  #attempt = 0;
  #resetTimer: Cancel | undefined;
  #stallTimer: Cancel | undefined;
  #closed = false;
  #pauseMs = resetPauseMsMin;

  constructor(options: ConductorOptions) {
    this.#options = options;
  }

  get busy(): number {
    return this.#active.size + this.#waiting.length;
  }

  /** Tokens as they are chosen, until the answer ends or the signal aborts. */
  generate(request: TokenRequest, signal: AbortSignal): AsyncIterable<TokenAnswer> {
    const answers: TokenAnswer[] = [];
    let wake: (() => void) | undefined;
    let failure: DcnrError | undefined;
    const active: Active = {
      ...request,
      produced: [...request.sent],
      position: 0,
      delivered: request.sent.length,
      inFlight: false,
      finish: undefined,
      consumer: (answer) => {
        answers.push(answer);
        wake?.();
      },
      failed: (error) => {
        failure = error;
        wake?.();
      },
    };
    this.#admit(active);
    const stop = () => {
      this.#end(active);
      wake?.();
    };
    signal.addEventListener("abort", stop, { once: true });
    const conductor = this;
    return {
      async *[Symbol.asyncIterator]() {
        try {
          for (;;) {
            const answer = answers.shift();
            if (answer) {
              yield answer;
              if (answer.finish) return;
            } else if (failure) throw failure;
            else if (signal.aborted) return;
            else
              await new Promise<void>((resolve) => {
                wake = resolve;
              });
          }
        } finally {
          signal.removeEventListener("abort", stop);
          conductor.#end(active);
        }
      },
    };
  }

  #admit(active: Active): void {
    const { context } = this.#options;
    if (this.#closed) throw new DcnrError("unavailable", "the model moves to another PNode: try again");
    if (active.prompt.length === 0) throw new DcnrError("invalid_argument", "the prompt is empty");
    if (active.prompt.length >= context)
      throw new DcnrError(
        "invalid_argument",
        `the prompt has ${active.prompt.length} tokens, the model's context ${context} with room for an answer`,
      );
    if (this.#waiting.length >= waitingMax)
      throw new DcnrError("resource_exhausted", `${waitingMax} requests are waiting already: try again later`);
    this.#waiting.push(active);
    this.#schedule();
  }

  #end(active: Active): void {
    const index = this.#waiting.indexOf(active);
    if (index >= 0) this.#waiting.splice(index, 1);
    if (this.#active.get(active.id) !== active) return;
    this.#active.delete(active.id);
    this.#dropped.push(this.#keyOf(active));
    active.finish ??= "stop";
    // What no active request took part in will never be repeated.
    this.#log = this.#log.filter(({ rows }) => rows.some(({ request }) => this.#active.get(request.id) === request));
    this.#schedule();
  }

  #keyOf(active: Active): string {
    return `${active.id}#${this.#attempt}`;
  }

  #schedule(): void {
    if (this.#closed || this.#resetTimer) return;
    while (this.#inFlight.size < passesInFlightMax) {
      const logged = this.#next();
      if (logged === undefined) return;
      this.#log.push(logged);
      this.#send(logged, false);
    }
  }

  /** Prompts first: their tokens are awaited most. */
  #next(): Logged | undefined {
    const fresh = this.#active.size < rowsMax ? this.#waiting.shift() : undefined;
    if (fresh) {
      this.#active.set(fresh.id, fresh);
      return { rows: [{ request: fresh, position: 0, ids: fresh.prompt }], tokens: fresh.prompt.length };
    }
    const ready = [...this.#active.values()].filter((active) => !active.inFlight && active.finish === undefined);
    if (ready.length === 0) return undefined;
    return {
      rows: ready.map((request) => ({
        request,
        position: request.position,
        ids: [request.produced[request.position - request.prompt.length] as number],
      })),
      tokens: 1,
    };
  }

  #send(logged: Logged, replayed: boolean): void {
    const { pnode, world, feed } = this.#options;
    const id = this.#nextPass++;
    const rows: PassRow[] = logged.rows.map(({ request, position }) => ({
      request: this.#keyOf(request),
      position,
      tokens: logged.tokens,
      ghost: this.#active.get(request.id) !== request,
    }));
    for (const { request, position } of logged.rows) {
      request.position = position + logged.tokens;
      request.inFlight = true;
    }
    this.#inFlight.set(id, { logged, replayed, sentMs: world.clock.monotonicMs() });
    const dropped = this.#dropped.splice(0);
    feed(
      { id, conductor: pnode, rows, plain: false, dropped },
      Int32Array.from(logged.rows.flatMap(({ ids }) => ids)),
      logged.tokens,
    );
    this.#watchForStall();
  }

  /** The head is done with a pass: `logits` has a row for each of its rows. */
  logits(pass: number, logits: Float32Array, classes: number): void {
    const sent = this.#inFlight.get(pass);
    if (sent === undefined) return;
    this.#inFlight.delete(pass);
    this.#pauseMs = resetPauseMsMin;
    for (const [row, { request, position }] of sent.logged.rows.entries()) {
      if (this.#active.get(request.id) !== request) continue;
      // Of several repeated passes of a request, only the last one leaves it free.
      if (request.position === position + sent.logged.tokens) request.inFlight = false;
      this.#choose(request, position + sent.logged.tokens, logits.subarray(row * classes, (row + 1) * classes));
    }
    this.#schedule();
  }

  #choose(request: Active, position: number, logits: Float32Array): void {
    const index = position - request.prompt.length;
    if (index === request.produced.length) {
      const history = [...request.prompt, ...request.produced];
      request.produced.push(sampleToken(logits, history, request.sampling, position));
    }
    this.#deliver(request, index);
  }

  /** Hands over what is new up to `index`; the consumer has seen the rest. */
  #deliver(request: Active, index: number): void {
    const { context } = this.#options;
    if (index < request.delivered) return;
    const token = request.produced[index] as number;
    request.delivered = index + 1;
    const ended = request.endTokens.has(token);
    const full = index + 1 >= request.maxTokens || request.prompt.length + index + 1 >= context;
    if (ended) request.finish = "stop";
    else if (full) request.finish = "length";
    request.consumer({ tokens: ended ? [] : [token], ...(request.finish ? { finish: request.finish } : {}) });
    if (request.finish) this.#end(request);
  }

  /** A pass cannot be finished. One that is no longer under way was repeated already. */
  lost(pass: number): void {
    if (this.#inFlight.has(pass)) this.reset();
  }

  /** Part of the network is new: its caches are rebuilt by repeating the passes that matter. */
  reset(): void {
    if (this.#closed || this.#resetTimer) return;
    // A short pause, since several changes often come together; a longer one while a new owner loads.
    this.#pauseMs = Math.min(this.#pauseMs * 2, resetPauseMsMax);
    this.#resetTimer = this.#options.world.timers.after(this.#pauseMs, () => {
      this.#resetTimer = undefined;
      this.#replay();
    });
  }

  #replay(): void {
    this.#inFlight.clear();
    this.#dropped = [];
    this.#attempt++;
    for (const active of this.#active.values()) {
      active.position = 0;
      active.inFlight = false;
    }
    for (const logged of this.#log) this.#send(logged, true);
    this.#schedule();
  }

  #watchForStall(): void {
    if (this.#stallTimer) return;
    const { world } = this.#options;
    this.#stallTimer = world.timers.after(stallMs / 4, () => {
      this.#stallTimer = undefined;
      const oldest = Math.min(...[...this.#inFlight.values()].map(({ sentMs }) => sentMs));
      if (world.clock.monotonicMs() - oldest > stallMs) this.reset();
      else if (this.#inFlight.size > 0) this.#watchForStall();
    });
  }

  /** The head leaves this PNode: whoever waits is told to ask again elsewhere. */
  close(): void {
    this.#closed = true;
    this.#resetTimer?.();
    this.#stallTimer?.();
    const error = new DcnrError("unavailable", "the model moves to another PNode: try again");
    for (const active of [...this.#active.values(), ...this.#waiting]) active.failed(error);
    this.#active.clear();
    this.#waiting.length = 0;
  }
}
