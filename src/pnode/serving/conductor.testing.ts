// A network that is too simple to be wrong, for tests of the conductor: three stages whose values depend on all tokens of a request so
// far and on nothing else, and that lose their memory when chance says so. What an answer must be is computed without them.

import assert from "node:assert/strict";
import { setImmediate as settled } from "node:timers/promises";
import { sha256 } from "../../core/hash.ts";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import type { Tensor } from "../../core/tensor.ts";
import { silentLog, type World } from "../../core/world.ts";
import { Chooser } from "../../models/choosing.ts";
import { greedy } from "../../models/sampling.ts";
import { AnswerRows } from "./answer-rows.ts";
import { Conductor } from "./conductor.ts";
import type { ConductorOptions, TokenRequest } from "./conductor-options.ts";
import { type Drafter, type DrafterOptions, ModelDrafter } from "./drafter.ts";
import { isLater, type Pass, passTokensMax, rowsMax, type Turn, tokensIn } from "./pass.ts";

export const classes = 7;
export const context = 96;
export const stagesCount = 3;

interface Message {
  readonly pass: Pass;
  /** For each row of the pass a value for each of its tokens. */
  readonly values: readonly (readonly string[])[];
}

class Stage {
  /** Of each request a value for each position, made of all before it. */
  caches = new Map<string, string[]>();
  queue: Message[] = [];
  turn: Turn = { epoch: -1, attempt: 0 };
  /** What came in, and at the last one what was chosen from. */
  readonly rows = new AnswerRows(1 << 20);

  /** Undefined if it cannot take part; otherwise what goes on. */
  run({ pass, values }: Message): Message | "old" | undefined {
    if (isLater(this.turn, pass)) return "old";
    if (isLater(pass, this.turn)) this.caches.clear();
    this.turn = pass;
    for (const request of pass.dropped) this.caches.delete(request);
    this.rows.record(pass.epoch, pass.rows, "got values", tensorOf(values.flat()));
    const results: string[][] = [];
    for (const [row, { request, position, shared }] of pass.rows.entries()) {
      if (shared) {
        const other = this.caches.get(shared.request);
        if (other === undefined || other.length < shared.positions) return undefined;
        this.caches.set(request, other.slice(0, shared.positions));
      }
      const known = this.caches.get(request) ?? [];
      if (known.length < position) return undefined;
      const cache = known.slice(0, position);
      for (const value of values[row] ?? []) cache.push(sha256(`${cache.at(-1)}|${value}`));
      this.caches.set(request, cache);
      results.push(cache.slice(position));
    }
    return { pass, values: results };
  }

  forget(): void {
    this.caches.clear();
    this.queue = [];
    this.turn = { epoch: -1, attempt: 0 };
  }
}

/** A row for each value. */
export function tensorOf(values: readonly string[]): Tensor {
  const data = Int32Array.from(values, (value) => Number.parseInt(sha256(value).slice(0, 7), 16));
  return { dtype: "int32", shape: [data.length, 1], data };
}

export function logitsOf(value: string): number[] {
  return Array.from({ length: classes }, (_, i) => Number.parseInt(value.slice(i, i + 4), 16));
}

/** What comes into each stage for each of these tokens, and what the last one makes of them. */
export function valuesOf(tokens: readonly number[]): string[][] {
  const values = [tokens.map(String)];
  while (values.length <= stagesCount) {
    const made: string[] = [];
    for (const value of values.at(-1) as string[]) made.push(sha256(`${made.at(-1)}|${value}`));
    values.push(made);
  }
  return values;
}

/** The answer to a request, without any conductor: each token from all before it. */
export function answerTo(request: TokenRequest): number[] {
  const stages = Array.from({ length: stagesCount }, () => [] as string[]);
  const logitsAfter = (token: number): number[] => {
    let value = String(token);
    for (const cache of stages) {
      value = sha256(`${cache.at(-1)}|${value}`);
      cache.push(value);
    }
    return logitsOf(value);
  };
  const { prompt, maxTokens } = request;
  const chooser = new Chooser(request);
  let logits = prompt.map(logitsAfter).at(-1) as number[];
  const produced: number[] = [];
  while (produced.length < Math.min(maxTokens, context - prompt.length)) {
    const place = { position: prompt.length + produced.length, prompt, produced, left: 1 };
    const { token } = chooser.choose(Float32Array.from(logits), place);
    produced.push(token);
    logits = logitsAfter(token);
  }
  return produced;
}

export class Stages {
  readonly stages = Array.from({ length: stagesCount }, () => new Stage());
  readonly conductor: Conductor;
  #requests = 0;
  readonly #timers: { atMs: number; callback: () => void }[] = [];
  #nowMs = 0;
  mostCaches = 0;
  mostInFlight = 0;
  /** What one stage and the way to the next take. */
  hopMs = 1;
  passes = 0;
  tokens = 0;
  broken = "";
  /** Turns of this process that a draft may take for its guesses. */
  readonly thinks: number;

  constructor(options: Partial<ConductorOptions> = {}) {
    this.thinks = options.drafter ? 40 : 0;
    const world: World = {
      clock: { wallMs: () => this.#nowMs, monotonicMs: () => this.#nowMs },
      timers: {
        after: (delayMs, callback) => {
          const timer = { atMs: this.#nowMs + delayMs, callback };
          this.#timers.push(timer);
          return () => void this.#timers.splice(this.#timers.indexOf(timer) >>> 0, 1);
        },
      },
      chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
      log: silentLog,
    };
    this.conductor = new Conductor({
      ...{ pnode: "p", epoch: 1, context, world, positionsMax: 16 * context, stageMs: () => 1 },
      nextRequest: () => ++this.#requests,
      onLogits: (row, logits) => {
        const shape = [row.tokens, classes];
        this.stages.at(-1)?.rows.chose(1, row, { dtype: "float32", shape, data: logits });
      },
      ...options,
      feed: (pass, ids) => {
        assert.ok(pass.rows.length <= rowsMax && tokensIn(pass) <= passTokensMax);
        assert.equal(tokensIn(pass), ids.length);
        this.passes++;
        this.tokens += ids.length;
        let at = 0;
        const values = pass.rows.map(({ tokens }) => {
          at += tokens;
          return [...ids.subarray(at - tokens, at)].map(String);
        });
        this.stages[0]?.queue.push({ pass, values });
      },
    });
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get busy(): Stage[] {
    return this.stages.filter((stage) => stage.queue.length > 0);
  }

  step(stage: Stage): void {
    const message = stage.queue.shift() as Message;
    const { pass } = message;
    this.#nowMs += this.hopMs;
    if (this.broken !== "" && pass.rows.some(({ request }) => request === this.broken)) {
      this.conductor.failed(pass, "it has NaN");
      return;
    }
    const result = stage.run(message);
    this.mostCaches = Math.max(this.mostCaches, stage.caches.size);
    this.mostInFlight = Math.max(this.mostInFlight, this.conductor.load.inFlight);
    if (result === undefined) this.conductor.lost(pass);
    else if (result !== "old") {
      const next = this.stages[this.stages.indexOf(stage) + 1];
      if (next) next.queue.push(result);
      else this.#finish(result);
    }
  }

  #finish({ pass, values }: Message): void {
    const wanted = pass.rows.flatMap(({ logits }, row) => (logits === 0 ? [] : (values[row] ?? []).slice(-logits)));
    const states = pass.rows.flatMap(({ hidden = 0 }, row) => (hidden === 0 ? [] : (values[row] ?? []).slice(-hidden)));
    const rowsOf = (found: readonly string[]) => ({
      values: Float32Array.from(found.flatMap(logitsOf)),
      width: classes,
    });
    if (pass.rows.length > 0) this.conductor.finished(pass, rowsOf(wanted), rowsOf(states));
  }

  passTime(): void {
    const [next] = this.#timers.sort((a, b) => a.atMs - b.atMs);
    if (!next) return;
    this.#timers.shift();
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    next.callback();
  }

  /** Works until `isDone`; `disturb` may do anything between two steps. */
  async drive(isDone: () => boolean, chance: () => number, disturb: () => void = () => {}): Promise<void> {
    for (let turns = 0; !isDone(); turns++) {
      assert.ok(turns < 200_000, "it comes to an end");
      disturb();
      // A draft thinks for no time of this world.
      for (let i = 0; i < this.thinks && this.busy.length === 0; i++) await settled();
      const { busy } = this;
      const stage = busy[Math.floor(chance() * busy.length)];
      if (stage) this.step(stage);
      else this.passTime();
      await settled();
    }
  }
}

export function chanceOf(seed: number): () => number {
  let count = 0;
  return () => uniformAt(randomKey("conductor", seed), count++);
}

export function requestOf(
  seed: number,
  promptLength: number,
  maxTokens: number,
  sent: readonly number[] = [],
): TokenRequest {
  return {
    prompt: Array.from({ length: promptLength }, (_, i) => (i * seed) % classes),
    sent,
    maxTokens,
    sampling: { ...greedy, temperature: 9_000, seed },
    endTokens: new Set(),
  };
}

export interface Reader {
  readonly tokens: number[];
  finish: string;
  error: unknown;
}

/** `onName` hears what stages call the answer. */
export function read(
  conductor: Conductor,
  request: TokenRequest,
  signal = new AbortController().signal,
  onName: (name: string) => void = () => {},
): Reader {
  const reader: Reader = { tokens: [], finish: "", error: undefined };
  const answers = conductor.generate(request, signal);
  void (async () => {
    try {
      for await (const { tokens, request: name, finish } of answers) {
        reader.tokens.push(...tokens);
        if (name !== undefined) onName(name);
        if (finish) reader.finish = finish;
      }
      reader.finish ||= "aborted";
    } catch (error) {
      reader.error = error;
    }
  })();
  return reader;
}

export const isOver = (reader: Reader) => reader.finish !== "" || reader.error !== undefined;

export async function alone(
  request: TokenRequest,
  chance: () => number,
  disturb?: (stages: Stages) => void,
  options?: Partial<ConductorOptions>,
) {
  const stages = new Stages(options);
  const reader = read(stages.conductor, request);
  await stages.drive(
    () => isOver(reader),
    chance,
    () => disturb?.(stages),
  );
  return { reader, stages };
}

/** A model that says what the large one would, as often as it agrees; now and then its machine fails, and it begins anew. */
export function draftThat(agrees: number, fails = 0): () => Drafter {
  const chance = chanceOf(77);
  const caches = new Map<string, number[]>();
  const run: DrafterOptions["run"] = async (rows, ids, take) => {
    await settled();
    if (chance() < fails) throw new Error("its machine fails");
    let at = 0;
    const values: number[] = [];
    for (const { request, position, tokens, logits } of rows) {
      const known = caches.get(request) ?? [];
      assert.ok(known.length >= position, "nothing is left out");
      caches.set(request, [...known.slice(0, position), ...ids.subarray(at, at + tokens)]);
      at += tokens;
      if (logits > 0) values.push(...logitsAfter(chance() < agrees ? (caches.get(request) as number[]) : [at]));
    }
    take({ values: Float32Array.from(values), width: classes });
  };
  let drafter: ModelDrafter | undefined;
  const open = () => {
    caches.clear();
    return new ModelDrafter({
      ...{ context, positionsMax: 8 * context, vocabulary: classes, run },
      world: worldAt(() => 0),
      drop: (requests) => {
        for (const request of requests) caches.delete(request);
      },
      onFailure: () => {
        drafter = undefined;
      },
    });
  };
  return () => {
    drafter ??= open();
    return drafter;
  };
}

function worldAt(nowMs: () => number): World {
  return {
    clock: { wallMs: nowMs, monotonicMs: nowMs },
    timers: { after: () => () => {} },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
    log: silentLog,
  };
}

/** What all stages make of these tokens. */
function logitsAfter(tokens: readonly number[]): number[] {
  const stages = Array.from({ length: stagesCount }, () => "undefined");
  for (const token of tokens) {
    let value = String(token);
    for (const [i, last] of stages.entries()) value = stages[i] = sha256(`${last}|${value}`);
  }
  return logitsOf(stages.at(-1) as string);
}
