// A small model beside the head that says what an answer may say next. It reads what it has not read yet of each answer and goes on
// token by token, all who ask in one pass. What it says is a guess: the large model's own choice decides, so nothing here can change an answer.

import { messageOf } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import type { ChainRow } from "../../vnode/serving/chain.ts";
import { passTokensMax, rowsMax } from "./pass.ts";
import { type HeadRows, rowsAt } from "./taking.ts";

export interface DraftAsk {
  /** The request. */
  readonly key: string;
  /** Its prompt and its answer so far. */
  readonly tokens: readonly number[];
  /** Guesses that are wanted; 0: it is only to be read. */
  readonly count: number;
  /** What is chosen from the small model's logits behind these tokens; undefined: nothing is worth saying. */
  readonly choose: (logits: Float32Array, tokens: readonly number[]) => number | undefined;
}

export interface Drafter {
  /** What one guess takes, 0 before it was measured; undefined while it cannot be asked. */
  readonly tokenMs: number | undefined;
  /** How much it has to read before it can guess; undefined where it cannot take so many, or such, tokens. */
  unread(key: string, tokens: readonly number[]): number | undefined;
  /** What may follow, as far as it can tell. Never fails. */
  guess(ask: DraftAsk): Promise<readonly number[]>;
  /** The request is over. */
  drop(key: string): void;
}

export interface DrafterOptions {
  readonly world: World;
  /** Positions of one request, and of all together. */
  readonly context: number;
  readonly positionsMax: number;
  /** Tokens that both models know; 0 if nobody can say. */
  readonly vocabulary: number;
  /** Rows of the small model. The logits of those that want them are `take`'s until it returns. */
  readonly run: (rows: readonly ChainRow[], ids: Int32Array, take: (logits: HeadRows) => void) => Promise<void>;
  readonly drop: (requests: readonly string[]) => void;
  /** It cannot go on; it is closed. */
  readonly onFailure: (error: unknown) => void;
}

/** How much a new measurement counts: one that is shorter more, since others had the machine while the longer ones waited. */
const shares = { shorter: 0.5, longer: 0.05 };
/** Before anybody asks, so often: the first runs of a graph take longer. */
const probes = 4;
/** A pass that reads more says nothing of how long a guess takes. */
const measuredTokensMax = 64;

/** No request is called so. */
const probeName = "probe";

interface Asked extends DraftAsk {
  /** With what was guessed. */
  readonly all: number[];
  readonly done: (guesses: readonly number[]) => void;
}

export class ModelDrafter implements Drafter {
  readonly #options: DrafterOptions;
  /** What caches hold, by request. */
  readonly #read = new Map<string, readonly number[]>();
  #asked: Asked[] = [];
  #isRunning = false;
  #closed = false;
  #tokenMs = 0;

  constructor(options: DrafterOptions) {
    this.#options = options;
  }

  get tokenMs(): number | undefined {
    return this.#closed ? undefined : this.#tokenMs;
  }

  /** Whether it pays is known before it is asked. Fails where it cannot compute. */
  async measure(): Promise<void> {
    const { world, run, drop } = this.#options;
    for (let probe = 0; probe < probes; probe++) {
      const startedMs = world.clock.monotonicMs();
      await run([{ request: probeName, position: 0, tokens: 1, logits: 1 }], Int32Array.of(0), () => {});
      this.#observe(world.clock.monotonicMs() - startedMs);
    }
    drop([probeName]);
  }

  unread(key: string, tokens: readonly number[]): number | undefined {
    if (tokens.length >= this.#options.context || tokens.some((token) => !this.#knows(token))) return undefined;
    return tokens.length - sameBeginning(this.#read.get(key) ?? [], tokens);
  }

  #knows(token: number): boolean {
    const { vocabulary } = this.#options;
    return vocabulary === 0 || token < vocabulary;
  }

  guess(ask: DraftAsk): Promise<readonly number[]> {
    if (this.#closed || this.unread(ask.key, ask.tokens) === undefined) return Promise.resolve([]);
    return new Promise((done) => {
      this.#asked.push({ ...ask, all: [...ask.tokens], done });
      void this.#work();
    });
  }

  drop(key: string): void {
    for (const asked of this.#asked) if (asked.key === key) this.#answer(asked);
    if (this.#read.delete(key)) this.#options.drop([key]);
  }

  close(): void {
    this.#closed = true;
    for (const asked of this.#asked) this.#answer(asked);
  }

  #answer(asked: Asked): void {
    this.#asked = this.#asked.filter((one) => one !== asked);
    asked.done(asked.all.slice(asked.tokens.length));
  }

  /** One pass after the other as long as somebody asks. */
  async #work(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      while (this.#asked.length > 0) await this.#pass();
    } catch (error) {
      this.#options.world.log("warn", `the draft cannot go on: ${messageOf(error)}`);
      this.close();
      this.#options.onFailure(error);
    } finally {
      this.#isRunning = false;
    }
  }

  async #pass(): Promise<void> {
    const { world, run, drop } = this.#options;
    const parts = this.#parts();
    if (parts.length === 0) return;
    const startedMs = world.clock.monotonicMs();
    const ids = Int32Array.from(parts.flatMap((part) => part.ids));
    const rows = parts.map(({ asked, position, ids: own, logits }) => ({
      ...{ request: asked.key, position, tokens: own.length, logits },
    }));
    for (const { asked, position, ids: own } of parts)
      this.#read.set(asked.key, [...asked.all.slice(0, position), ...own]);
    await run(rows, ids, (logits) => {
      let row = 0;
      for (const part of parts) {
        this.#take(part, rowsAt(logits, row, part.logits).values);
        row += part.logits;
      }
    });
    if (ids.length <= measuredTokensMax) this.#observe(world.clock.monotonicMs() - startedMs);
    // Whoever left meanwhile has caches again.
    const left = parts.filter(({ asked }) => !this.#read.has(asked.key)).map(({ asked }) => asked.key);
    if (left.length > 0) drop(left);
  }

  /** What goes into the next pass: of each request what is unread, as far as there is room. */
  #parts(): Part[] {
    const parts = new Map<string, Part>();
    let left = passTokensMax;
    for (const asked of this.#asked) {
      if (parts.size >= rowsMax || left < 1) break;
      if (parts.has(asked.key)) continue;
      const read = sameBeginning(this.#read.get(asked.key) ?? [], asked.all);
      if (asked.count === 0 && read === asked.all.length) {
        this.#answer(asked);
        continue;
      }
      // The last token is always computed: its logits are wanted.
      const position = Math.min(read, asked.all.length - 1);
      const ids = asked.all.slice(position, position + left);
      if (!this.#hasRoom(asked.key, position + ids.length)) {
        this.#answer(asked);
        continue;
      }
      const isLast = position + ids.length === asked.all.length;
      parts.set(asked.key, { asked, position, ids, logits: isLast && asked.count > 0 ? 1 : 0 });
      left -= ids.length;
    }
    return [...parts.values()];
  }

  #hasRoom(key: string, positions: number): boolean {
    let sum = positions;
    for (const [other, tokens] of this.#read) if (other !== key) sum += tokens.length;
    return sum <= this.#options.positionsMax;
  }

  #take({ asked, logits: wanted }: Part, logits: Float32Array): void {
    if (wanted === 0 || !this.#asked.includes(asked)) return;
    const token = asked.choose(logits, asked.all);
    if (token !== undefined && this.#knows(token)) asked.all.push(token);
    else {
      this.#answer(asked);
      return;
    }
    const isEnough = asked.all.length - asked.tokens.length >= asked.count;
    if (isEnough || asked.all.length >= this.#options.context) this.#answer(asked);
  }

  #observe(tookMs: number): void {
    if (this.#tokenMs === 0) this.#tokenMs = tookMs;
    this.#tokenMs += (tookMs < this.#tokenMs ? shares.shorter : shares.longer) * (tookMs - this.#tokenMs);
  }
}

interface Part {
  readonly asked: Asked;
  readonly position: number;
  readonly ids: readonly number[];
  readonly logits: number;
}

function sameBeginning(one: readonly number[], other: readonly number[]): number {
  const most = Math.min(one.length, other.length);
  let same = 0;
  while (same < most && one[same] === other[same]) same++;
  return same;
}
