// The conductor on a network that is too simple to be wrong: three stages whose values depend on all tokens of a request so
// far and on nothing else, and that lose their memory when chance says so. What an answer must be is computed without them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import { silentLog, type World } from "../../core/world.ts";
import { Chooser, type Constraint } from "../../models/choosing.ts";
import { greedy } from "../../models/sampling.ts";
import { Conductor, type ConductorOptions, type TokenRequest } from "./conductor.ts";
import { type Drafter, type DrafterOptions, ModelDrafter } from "./drafter.ts";
import { isLater, type Pass, passTokensMax, rowsMax, type Turn, tokensIn } from "./pass.ts";

const classes = 7;
const context = 96;
const stagesCount = 3;

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

  /** Undefined if it cannot take part; otherwise what goes on. */
  run({ pass, values }: Message): Message | "old" | undefined {
    if (isLater(this.turn, pass)) return "old";
    if (isLater(pass, this.turn)) this.caches.clear();
    this.turn = pass;
    for (const request of pass.dropped) this.caches.delete(request);
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

function logitsOf(value: string): number[] {
  return Array.from({ length: classes }, (_, i) => Number.parseInt(value.slice(i, i + 4), 16));
}

/** The answer to a request, without any conductor: each token from all before it. */
function answerTo(request: TokenRequest): number[] {
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

class Stages {
  readonly stages = Array.from({ length: stagesCount }, () => new Stage());
  readonly conductor: Conductor;
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
      for (let i = 0; i < this.thinks && this.busy.length === 0; i++)
        await new Promise((resolve) => setImmediate(resolve));
      const { busy } = this;
      const stage = busy[Math.floor(chance() * busy.length)];
      if (stage) this.step(stage);
      else this.passTime();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

function chanceOf(seed: number): () => number {
  let count = 0;
  return () => uniformAt(randomKey("conductor", seed), count++);
}

function requestOf(seed: number, promptLength: number, maxTokens: number, sent: readonly number[] = []): TokenRequest {
  return {
    prompt: Array.from({ length: promptLength }, (_, i) => (i * seed) % classes),
    sent,
    maxTokens,
    sampling: { ...greedy, temperature: 9_000, seed },
    endTokens: new Set(),
  };
}

interface Reader {
  readonly tokens: number[];
  finish: string;
  error: unknown;
}

function read(conductor: Conductor, request: TokenRequest, signal = new AbortController().signal): Reader {
  const reader: Reader = { tokens: [], finish: "", error: undefined };
  const answers = conductor.generate(request, signal);
  void (async () => {
    try {
      for await (const { tokens, finish } of answers) {
        reader.tokens.push(...tokens);
        if (finish) reader.finish = finish;
      }
      reader.finish ||= "aborted";
    } catch (error) {
      reader.error = error;
    }
  })();
  return reader;
}

const isOver = (reader: Reader) => reader.finish !== "" || reader.error !== undefined;

async function alone(
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
function draftThat(agrees: number, fails = 0): () => Drafter {
  const chance = chanceOf(77);
  const caches = new Map<string, number[]>();
  const run: DrafterOptions["run"] = async (rows, ids, take) => {
    await new Promise((resolve) => setImmediate(resolve));
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

const settings: Readonly<Record<string, Partial<ConductorOptions>>> = {
  "as it is": {},
  "without guesses": { without: ["drafts"] },
  "without shared beginnings": { without: ["prefixes"] },
  "without either": { without: ["drafts", "prefixes"] },
  "far from the other machines": { stageMs: () => 0.01 },
  "with a draft": { stageMs: () => 0.01, drafter: draftThat(0.8) },
  "with a draft that is always wrong": { stageMs: () => 0.01, drafter: draftThat(0) },
  "with a draft that fails": { stageMs: () => 0.01, drafter: draftThat(0.9, 0.05) },
};

for (const [what, options] of Object.entries(settings))
  test(`a request alone gives its answer whatever is lost on the way, ${what}`, async () => {
    let losses = 0;
    for (let seed = 1; seed <= 12; seed++) {
      const request = requestOf(seed, 1 + 5 * seed, 30);
      const chance = chanceOf(seed + 1000);
      const disturb = ({ stages, conductor }: Stages) => {
        if (chance() > 0.08) return;
        losses++;
        stages[Math.floor(chance() * stagesCount)]?.forget();
        if (chance() < 0.5) conductor.reset();
      };
      const { reader } = await alone(request, chance, disturb, options);
      assert.deepEqual(reader, { tokens: answerTo(request), finish: "length", error: undefined }, `seed ${seed}`);
    }
    assert.ok(losses > 12, `${losses} losses`);
  });

/** Odd tokens behind even ones and the other way round, from an even one on. */
function alternating(): Constraint {
  let parity = 0;
  return {
    allowed: () => Uint32Array.of(parity === 0 ? 0b1010101 : 0b0101010),
    accept: (token) => {
      assert.equal(token % 2, parity, "what was chosen fits");
      parity = 1 - parity;
    },
    ...{ mayEnd: false, isOver: false },
  };
}

for (const [what, options] of Object.entries(settings))
  test(`an answer that must fit something fits it whatever is lost, also where another conductor goes on, ${what}`, async () => {
    for (let seed = 1; seed <= 6; seed++) {
      const request = requestOf(seed, 1 + 3 * seed, 24);
      const expected = answerTo({ ...request, constraint: alternating() });
      const chance = chanceOf(seed + 2000);
      const disturb = ({ stages }: Stages) => {
        if (chance() < 0.03) stages[Math.floor(chance() * stagesCount)]?.forget();
      };
      for (const known of [0, seed]) {
        const wish = { ...request, constraint: alternating(), sent: expected.slice(0, known) };
        const { reader } = await alone(wish, chance, disturb, options);
        assert.deepEqual(reader, { tokens: expected.slice(known), finish: "length", error: undefined }, `seed ${seed}`);
      }
    }
  });

test("another conductor goes on where one was lost, with the same tokens", async () => {
  const request = requestOf(5, 4, 16);
  const answer = answerTo(request);
  for (const known of [1, 7, 15]) {
    const { reader } = await alone({ ...request, sent: answer.slice(0, known) }, chanceOf(2));
    assert.deepEqual(reader.tokens, answer.slice(known));
    assert.equal(reader.finish, "length");
  }
  const { reader: nothingLeft } = await alone({ ...request, sent: answer }, chanceOf(3));
  assert.deepEqual(nothingLeft, { tokens: [], finish: "length", error: undefined });
});

for (const [what, options] of Object.entries(settings))
  test(`many requests with losses, readers that leave and resets: all get their answers, memory is bounded, ${what}`, async () => {
    for (let seed = 1; seed <= 4; seed++) {
      const chance = chanceOf(seed);
      const stages = new Stages(options);
      const readers: { reader: Reader; request: TokenRequest; left: AbortController; leaves: boolean }[] = [];
      const disturb = () => {
        if (readers.length < 60 && chance() < 0.1) {
          const left = new AbortController();
          // Some ask alike: their prompts begin with the same tokens.
          const kind = 1 + (readers.length % 3 === 0 ? 0 : readers.length);
          const request = { ...requestOf(kind, 1 + Math.floor(chance() * 70), 1 + Math.floor(chance() * 30)) };
          readers.push({ reader: read(stages.conductor, request, left.signal), request, left, leaves: chance() < 0.2 });
        }
        if (chance() < 0.01) stages.stages[Math.floor(chance() * stagesCount)]?.forget();
        if (chance() < 0.005) stages.conductor.reset();
        const leaver = readers.find(({ leaves, left }) => leaves && !left.signal.aborted);
        if (leaver && chance() < 0.02) leaver.left.abort();
      };
      await stages.drive(() => readers.length === 60 && readers.every(({ reader }) => isOver(reader)), chance, disturb);
      for (const { reader, request, left } of readers) {
        assert.equal(reader.error, undefined);
        const answer = answerTo(request);
        assert.deepEqual(reader.tokens, left.signal.aborted ? answer.slice(0, reader.tokens.length) : answer);
      }
      assert.ok(stages.mostCaches <= rowsMax + 64 + 8, `${stages.mostCaches} caches`);
      assert.ok(stages.mostInFlight <= 9);
      // A reset may still be due.
      stages.passTime();
      await stages.drive(() => stages.busy.length === 0, chance);
      const { active, waiting, guesses, sharedPositions } = stages.conductor.load;
      const { guessed: drafted, right: accepted } = guesses.text;
      assert.deepEqual({ active, waiting }, { active: 0, waiting: 0 });
      assert.equal(drafted > 0 && accepted > 0, !options.without?.includes("drafts"), `${drafted} ${accepted}`);
      assert.equal(sharedPositions > 0, !options.without?.includes("prefixes"), `${sharedPositions} shared`);
      if (options.without?.includes("prefixes"))
        assert.deepEqual(
          stages.stages.map(({ caches }) => caches.size),
          [0, 0, 0],
          "nothing is kept for anybody",
        );
    }
  });

test("after a loss what is known is read again in one go, not token by token", async () => {
  const request = requestOf(3, 10, 60);
  const { reader, stages } = await alone(request, chanceOf(1), undefined, { without: ["drafts"] });
  const calm = stages.passes;
  let lostAt = -1;
  const again = await alone(
    request,
    chanceOf(1),
    ({ stages: all, passes, conductor }) => {
      if (passes < 50 || lostAt >= 0) return;
      lostAt = passes;
      for (const stage of all) stage.forget();
      conductor.reset();
    },
    { without: ["drafts"] },
  );
  assert.deepEqual(again.reader.tokens, reader.tokens);
  assert.ok(again.stages.passes <= calm + 3, `${again.stages.passes} passes, ${calm} without a loss`);
});

test("a long prompt comes in pieces, and those who wait for their next token wait for one of them at most", async () => {
  const stages = new Stages({ context: 2_000, positionsMax: 8_000, without: ["drafts"] });
  const short = read(stages.conductor, requestOf(2, 3, 40));
  await stages.drive(() => short.tokens.length > 5, chanceOf(1));
  const long = read(stages.conductor, requestOf(3, 1_500, 2));
  const [before, said] = [stages.passes, short.tokens.length];
  await stages.drive(() => isOver(long), chanceOf(1));
  const share = (short.tokens.length - said) / (stages.passes - before);
  assert.ok(share > 0.4, `${short.tokens.length - said} tokens in ${stages.passes - before} passes`);
});

test("what an answer repeats comes several tokens at a time, and costs no more passes than needed", async () => {
  // A model that says the same ten tokens again and again.
  const stages = new Stages({ context: 400, positionsMax: 4_000, stageMs: () => 0.01 });
  const request = { ...requestOf(1, 30, 200), prompt: Array.from({ length: 30 }, (_, i) => i % 5) };
  const reader = read(stages.conductor, { ...request, sampling: { ...greedy, logitBias: { 0: 1e6 } } });
  await stages.drive(() => isOver(reader), chanceOf(1));
  assert.deepEqual(new Set(reader.tokens), new Set([0]));
  assert.ok(stages.passes < 60, `${stages.passes} passes for 200 tokens`);
});

/** One sequence that no text repeats, and nothing else; what comes next is told. */
function fixed(length: number): Constraint {
  const sequence = Array.from({ length }, (_, i) => (i * i + (i >> 2)) % 7);
  let at = 0;
  return {
    allowed: () => Uint32Array.of(1 << (sequence[at] as number)),
    guess: (count) => sequence.slice(at, at + count),
    accept: (token) => assert.equal(token, sequence[at++]),
    ...{ mayEnd: false, isOver: false },
  };
}

test("new text comes several tokens at a time with a draft that agrees, and what it guessed is counted", async () => {
  const request = requestOf(3, 10, 80);
  const passes: number[] = [];
  for (const drafter of [undefined, draftThat(0), draftThat(1)]) {
    const { reader, stages } = await alone(request, chanceOf(1), undefined, {
      ...{ stageMs: () => 0.01, ...(drafter && { drafter }) },
    });
    assert.deepEqual(reader.tokens, answerTo(request));
    passes.push(stages.passes);
    const { guessed, right } = stages.conductor.load.guesses.draft;
    if (drafter === undefined) assert.equal(guessed, 0);
    else assert.ok(guessed > 0 && right <= guessed);
  }
  const [plain, wrong, agreed] = passes as [number, number, number];
  assert.ok(agreed < plain / 2, `${agreed} passes, ${plain} without a draft`);
  assert.ok(wrong <= plain, "a draft that is wrong costs no passes");
});

test("what an answer must fit tells tokens in advance: they come several at a time, and are the same", async () => {
  const found: { passes: number; text: string }[] = [];
  for (const without of [[], ["drafts"]] as const) {
    const stages = new Stages({ context: 400, positionsMax: 4_000, stageMs: () => 0.01, without });
    const reader = read(stages.conductor, { ...requestOf(1, 5, 120), constraint: fixed(140) });
    await stages.drive(() => isOver(reader), chanceOf(1));
    assert.equal(reader.tokens.length, 120);
    found.push({ passes: stages.passes, text: reader.tokens.join() });
  }
  const [guessed, plain] = found as [(typeof found)[0], (typeof found)[0]];
  assert.equal(guessed.text, plain.text);
  assert.ok(2 * guessed.passes < plain.passes, `${guessed.passes} passes with guesses, ${plain.passes} without`);
});

for (const hopMs of [1, 20, 100])
  test(`${hopMs} ms between machines: what repeats itself comes more than twice as fast with guesses, and is the same`, async () => {
    const tookMs: number[] = [];
    const texts: string[] = [];
    for (const without of [[], ["drafts"]] as const) {
      const stages = new Stages({ context: 400, positionsMax: 4_000, stageMs: () => 1, without });
      stages.hopMs = hopMs;
      const prompt = Array.from({ length: 30 }, (_, i) => i % 5);
      const sampling = { ...greedy, logitBias: { 0: 1e6 } };
      const reader = read(stages.conductor, { ...requestOf(1, 30, 200), prompt, sampling });
      await stages.drive(() => isOver(reader), chanceOf(1));
      tookMs.push(stages.nowMs);
      texts.push(reader.tokens.join());
    }
    const [guessed, plain] = tookMs as [number, number];
    assert.equal(texts[0], texts[1]);
    assert.ok(plain >= 2 * guessed, `${guessed} ms with guesses, ${plain} ms without`);
  });

test("two hundred at once: some wait, the rest is refused at once, and all who were let in are answered", async () => {
  const stages = new Stages();
  const readers: Reader[] = [];
  let refused = 0;
  for (let i = 0; i < 200; i++) {
    try {
      readers.push(read(stages.conductor, requestOf(i + 1, 3, 4)));
    } catch (error) {
      assert.ok(error instanceof DcnrError && error.code === "resource_exhausted");
      refused++;
    }
  }
  assert.ok(refused > 0 && readers.length >= 128, `${refused} refused`);
  await stages.drive(() => readers.every(isOver), chanceOf(1));
  assert.ok(readers.every(({ tokens, finish }) => tokens.length === 4 && finish === "length"));
});

test("a pass that cannot be computed ends its requests with a reason, the others go on", async () => {
  const stages = new Stages();
  stages.broken = "1";
  const bad = read(stages.conductor, requestOf(1, 3, 8));
  const good = read(stages.conductor, requestOf(2, 3, 8));
  await stages.drive(() => isOver(bad) && isOver(good), chanceOf(1));
  assert.match(String(bad.error), /cannot go on: it has NaN/);
  assert.equal(good.tokens.length, 8);
});

test("what does not fit is refused, and a conductor that closes says so", async () => {
  const stages = new Stages();
  const { conductor } = stages;
  assert.throws(() => conductor.generate(requestOf(1, context, 1), new AbortController().signal), /at most 95/);
  assert.throws(() => conductor.generate(requestOf(1, 0, 1), new AbortController().signal), /empty/);
  const full = read(conductor, requestOf(3, context - 2, 1_000));
  await stages.drive(() => isOver(full), chanceOf(1));
  assert.deepEqual({ tokens: full.tokens.length, finish: full.finish }, { tokens: 2, finish: "length" });
  const waiting = read(conductor, requestOf(1, 3, 8));
  conductor.close();
  await stages.drive(() => isOver(waiting), chanceOf(1));
  assert.match(String(waiting.error), /another PNode/);
  assert.throws(() => conductor.generate(requestOf(1, 3, 1), new AbortController().signal), /another PNode/);
});

test("a model whose part stays away does not keep anybody waiting for ever", async () => {
  const { reader } = await alone(requestOf(1, 3, 8), chanceOf(1), ({ stages }) => stages[1]?.forget());
  assert.match(String(reader.error), /missing for \d+ s/);
});

/** The vector of a prompt, without any conductor: what the last stage makes of all its tokens, or of the last. */
function vectorOf(prompt: readonly number[], pooling: "mean" | "last"): Float32Array {
  const stages = Array.from({ length: stagesCount }, () => "undefined");
  const sums = new Array<number>(classes).fill(0);
  for (const [position, token] of prompt.entries()) {
    let value = String(token);
    for (const [stage, before] of stages.entries()) {
      value = sha256(`${before}|${value}`);
      stages[stage] = value;
    }
    if (pooling === "last" && position < prompt.length - 1) continue;
    for (const [i, state] of logitsOf(value).entries()) sums[i] = (sums[i] as number) + Math.fround(state);
  }
  const length = Math.sqrt(sums.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(sums, (value) => value / length);
}

for (const pooling of ["mean", "last"] as const)
  test(`a text's vector (${pooling}) is the same whatever else runs, is lost or goes away`, async () => {
    let losses = 0;
    for (let seed = 1; seed <= 6; seed++) {
      const chance = chanceOf(seed + 3000);
      const stages = new Stages();
      const signal = new AbortController().signal;
      const readers = Array.from({ length: 6 }, (_, i) => read(stages.conductor, requestOf(i + 1, 30 + i, 20)));
      // One of the readers' prompts too: what is shared has no hidden states.
      const prompts = [1, 2, context - 1, context].map((length) => requestOf(seed, length, 1).prompt);
      prompts.push(requestOf(1, 30, 1).prompt);
      const found: (Float32Array | undefined)[] = prompts.map(() => undefined);
      for (const [i, prompt] of prompts.entries())
        void stages.conductor.embed({ prompt, pooling }, signal).then((vector) => {
          found[i] = vector;
        });
      const disturb = () => {
        if (chance() > 0.02) return;
        losses++;
        stages.stages[Math.floor(chance() * stagesCount)]?.forget();
      };
      await stages.drive(() => found.every(Boolean) && readers.every(isOver), chance, disturb);
      for (const [i, prompt] of prompts.entries())
        assert.deepEqual(found[i], vectorOf(prompt, pooling), `seed ${seed}, ${prompt.length} tokens`);
      for (const [i, { tokens }] of readers.entries())
        assert.deepEqual(tokens, answerTo(requestOf(i + 1, 30 + i, 20)), "answers beside it are what they are alone");
    }
    assert.ok(losses > 6, `${losses} losses`);
  });

test("texts that do not fit, are empty, or that nobody waits for get no vector", async () => {
  const { conductor } = new Stages();
  const signal = new AbortController().signal;
  const asked = (length: number) =>
    conductor.embed({ prompt: requestOf(1, length, 1).prompt, pooling: "mean" }, signal);
  await assert.rejects(asked(context + 1), /has 97 tokens, the model takes at most 96/);
  await assert.rejects(asked(0), /empty/);
  await assert.rejects(conductor.embed({ prompt: [1], pooling: "mean" }, AbortSignal.abort()), /nobody waits/);
});
