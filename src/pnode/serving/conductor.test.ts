// The conductor on a network that is too simple to be wrong: three stages whose values depend on everything that may
// matter to bits, the shapes of passes included, and that lose their memory when chance says so.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import { silentLog, type World } from "../../core/world.ts";
import { greedy } from "../../models/sampling.ts";
import { Conductor, type TokenRequest } from "./conductor.ts";
import { isLater, type Pass, rowsMax, type Turn } from "./pass.ts";

const classes = 7;
const context = 96;
const stagesCount = 3;

interface Message {
  readonly pass: Pass;
  /** One value for each row, and the ids that the first stage takes. */
  readonly values: readonly string[];
}

class Stage {
  caches = new Map<string, { length: number; state: string }>();
  queue: Message[] = [];
  turn: Turn = { epoch: -1, attempt: 0 };

  /** Undefined if it cannot take part; otherwise what goes on. */
  run({ pass, values }: Message): Message | "old" | undefined {
    if (isLater(this.turn, pass)) return "old";
    if (isLater(pass, this.turn)) this.caches.clear();
    this.turn = pass;
    for (const request of pass.dropped) this.caches.delete(request);
    const shape = `${pass.rows.length}x${pass.rows[0]?.tokens}+${Math.max(...pass.rows.map((row) => row.position))}`;
    const results: string[] = [];
    for (const [row, { request, position, tokens, ghost }] of pass.rows.entries()) {
      if (!ghost && position === 0) this.caches.delete(request);
      const known = this.caches.get(request) ?? { length: 0, state: "" };
      if (!ghost && known.length !== position) return undefined;
      const state = sha256(`${known.state}|${values[row]}|${shape}`);
      if (!ghost) this.caches.set(request, { length: position + tokens, state });
      results.push(state);
    }
    return { pass, values: results };
  }

  forget(): void {
    this.caches.clear();
    this.queue = [];
    this.turn = { epoch: -1, attempt: 0 };
  }
}

class Stages {
  readonly stages = Array.from({ length: stagesCount }, () => new Stage());
  readonly conductor: Conductor;
  readonly #timers: { atMs: number; callback: () => void }[] = [];
  #nowMs = 0;
  /** Logits by request and position: a repeated pass must give the same. */
  readonly seen = new Map<string, string>();
  mostCaches = 0;
  mostInFlight = 0;
  broken = "";

  constructor() {
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
      ...{ pnode: "p", epoch: 1, context, world },
      feed: (pass, ids, tokens) => {
        const values = pass.rows.map((_, row) => [...ids.subarray(row * tokens, (row + 1) * tokens)].join());
        this.stages[0]?.queue.push({ pass, values });
      },
    });
  }

  get busy(): Stage[] {
    return this.stages.filter((stage) => stage.queue.length > 0);
  }

  step(stage: Stage): void {
    const message = stage.queue.shift() as Message;
    const { pass } = message;
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
    for (const [row, { request, position, tokens, ghost }] of pass.rows.entries()) {
      const name = `${request}@${position + tokens}`;
      if (ghost) continue;
      assert.equal(this.seen.get(name) ?? values[row], values[row], `${name} has the same logits each time`);
      this.seen.set(name, values[row] as string);
    }
    const logits = Float32Array.from(
      values.flatMap((value) => Array.from({ length: classes }, (_, i) => Number.parseInt(value.slice(i, i + 4), 16))),
    );
    if (pass.rows.length > 0) this.conductor.logits(pass, logits, classes);
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

async function alone(request: TokenRequest, chance: () => number, disturb?: (stages: Stages) => void) {
  const stages = new Stages();
  const reader = read(stages.conductor, request);
  await stages.drive(
    () => isOver(reader),
    chance,
    () => disturb?.(stages),
  );
  return { reader, stages };
}

test("a request alone gives the same answer whatever is lost on the way", async () => {
  let losses = 0;
  for (let seed = 1; seed <= 12; seed++) {
    const request = requestOf(seed, 1 + seed, 20);
    const { reader: calm } = await alone(request, chanceOf(seed));
    assert.equal(calm.tokens.length, 20);
    const chance = chanceOf(seed + 1000);
    const { reader } = await alone(request, chance, ({ stages, conductor }) => {
      if (chance() > 0.03) return;
      losses++;
      stages[Math.floor(chance() * stagesCount)]?.forget();
      if (chance() < 0.5) conductor.reset();
    });
    assert.deepEqual(reader, calm, `seed ${seed}`);
  }
  assert.ok(losses > 12, `${losses} losses`);
});

test("another conductor goes on where one was lost, with the same tokens", async () => {
  const request = requestOf(5, 4, 16);
  const { reader: calm } = await alone(request, chanceOf(1));
  for (const known of [1, 7, 15]) {
    const { reader } = await alone({ ...request, sent: calm.tokens.slice(0, known) }, chanceOf(2));
    assert.deepEqual(reader.tokens, calm.tokens.slice(known));
    assert.equal(reader.finish, "length");
  }
  const { reader: nothingLeft } = await alone({ ...request, sent: calm.tokens }, chanceOf(3));
  assert.deepEqual(nothingLeft, { tokens: [], finish: "length", error: undefined });
});

test("many requests with losses, readers that leave, and resets: repeated passes give the same, memory is bounded", async () => {
  for (let seed = 1; seed <= 8; seed++) {
    const chance = chanceOf(seed);
    const stages = new Stages();
    const readers: { reader: Reader; wanted: number; left: AbortController; leaves: boolean }[] = [];
    const disturb = () => {
      if (readers.length < 40 && chance() < 0.1) {
        const wanted = 1 + Math.floor(chance() * 30);
        const left = new AbortController();
        const request = requestOf(readers.length + 1, 1 + Math.floor(chance() * 40), wanted);
        readers.push({ reader: read(stages.conductor, request, left.signal), wanted, left, leaves: chance() < 0.2 });
      }
      if (chance() < 0.01) stages.stages[Math.floor(chance() * stagesCount)]?.forget();
      if (chance() < 0.005) stages.conductor.reset();
      const leaver = readers.find(({ leaves, left }) => leaves && !left.signal.aborted);
      if (leaver && chance() < 0.02) leaver.left.abort();
    };
    await stages.drive(() => readers.length === 40 && readers.every(({ reader }) => isOver(reader)), chance, disturb);
    for (const { reader, wanted, left } of readers) {
      assert.equal(reader.error, undefined);
      if (!left.signal.aborted) assert.equal(reader.tokens.length, wanted);
    }
    assert.ok(stages.mostCaches <= rowsMax + 8, `${stages.mostCaches} caches`);
    assert.ok(stages.mostInFlight <= 8);
    await stages.drive(() => stages.busy.length === 0, chance);
    assert.deepEqual(stages.conductor.load, {
      active: 0,
      waiting: 0,
      logged: 0,
      inFlight: stages.conductor.load.inFlight,
    });
    const kept = stages.stages.map(({ caches }) => caches.size);
    assert.deepEqual(kept, [0, 0, 0], "nothing is kept for anybody");
  }
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
