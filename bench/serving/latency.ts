// Answers over machines that are far from each other, in virtual time: a real conductor, and stages that are nothing but the time they take. What
// is measured is what scheduling and guessing make of distance; no clock of this machine has a part in it.

import { setImmediate as othersTurn } from "node:timers/promises";
import { sha256 } from "../../src/core/hash.ts";
import { silentLog, type World } from "../../src/core/world.ts";
import { greedy } from "../../src/models/sampling.ts";
import { Conductor } from "../../src/pnode/serving/conductor.ts";
import { ModelDrafter } from "../../src/pnode/serving/drafter.ts";
import { type Pass, tokensIn } from "../../src/pnode/serving/pass.ts";

/** As 4 bit weights of a small model take on one core, and what a row more adds. */
const [stageMs, rowMs] = [10, 1.5];
const stages = 2;
const [promptTokens, answerTokens, vocabulary] = [160, 96, 512];
export const hops = [1, 20, 100];
export const crowds = [1, 8, 32];

/** How much of an answer is taken from the prompt, in phrases of a few words: nothing, half as in summaries, nearly all as in edits of a text. */
const quoted = { "new text": 0, "half quoted": 0.5, "nearly all quoted": 0.95 };

/** How often a draft says what the model says: a small model of the same family, the model itself in fewer bits. */
const agreements = [0.6, 0.8, 0.95];
/** What a draft takes for a pass and for each row more, on the head's machine, which does nothing else meanwhile. */
const [draftMs, draftRowMs] = [2, 0.3];

/** Prompt and answer as one sequence, drawn from a name. */
function textOf(name: string, share: number): number[] {
  let drawn = 0;
  const draw = (below: number) => Number.parseInt(sha256(`${name} ${drawn++}`).slice(0, 8), 16) % below;
  const text = Array.from({ length: promptTokens }, () => draw(vocabulary));
  while (text.length < promptTokens + answerTokens) {
    const length = 6 + draw(12);
    const from = draw(promptTokens - length);
    const isQuoted = draw(1_000) < 1_000 * share;
    for (let i = 0; i < length; i++) text.push(isQuoted ? (text[from + i] as number) : draw(vocabulary));
  }
  return text.slice(0, promptTokens + answerTokens);
}

/** What happens at some time, in order. */
class VirtualTime {
  nowMs = 0;
  readonly #events: { atMs: number; happen: () => void }[] = [];

  after(delayMs: number, happen: () => void): () => void {
    const event = { atMs: this.nowMs + delayMs, happen };
    this.#events.push(event);
    return () => void this.#events.splice(this.#events.indexOf(event) >>> 0, 1);
  }

  /** False if nothing will ever happen. */
  next(): boolean {
    let first = 0;
    for (const [i, { atMs }] of this.#events.entries()) if (atMs < (this.#events[first]?.atMs ?? 0)) first = i;
    const [event] = this.#events.splice(first, 1);
    if (event === undefined) return false;
    this.nowMs = Math.max(this.nowMs, event.atMs);
    event.happen();
    return true;
  }
}

/** What is read: prompts and answers as one sequence each, the first for the first reader. */
export interface Scene {
  readonly texts: readonly (readonly number[])[];
  readonly promptTokens: number;
  /** What a draft says at a place of a text; absent: there is none. */
  readonly draft?: ((text: number, place: number) => number) | undefined;
}

/** Drawn texts; a draft that agrees so often, whether it does is drawn from the place. */
function drawnScene(crowd: number, share: number, agrees?: number): Scene {
  const texts = Array.from({ length: crowd }, (_, i) => textOf(`text ${i}`, share));
  const draft = (text: number, place: number) => {
    const isRight = Number.parseInt(sha256(`${text + 1} ${place}`).slice(0, 8), 16) < (agrees as number) * 2 ** 32;
    const right = texts[text]?.[place] ?? 0;
    return isRight ? right : (right + 1) % vocabulary;
  };
  return { texts, promptTokens, draft: agrees === undefined ? undefined : draft };
}

/** Tokens per second of all answers together; `guesses`: from the text, and from the scene's draft if it has one. */
export async function tokensPerSecond(hopMs: number, scene: Scene, guesses: boolean): Promise<number> {
  const { texts, promptTokens } = scene;
  const time = new VirtualTime();
  const world: World = {
    clock: { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs },
    timers: { after: (delayMs, callback) => time.after(delayMs, callback) },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
    log: silentLog,
  };
  const freeAtMs = Array.from({ length: stages }, () => 0);
  let lastMs = 0;
  /** One thing after the other on each machine. */
  const occupy = (stage: number, tookMs: number, done: () => void): void => {
    freeAtMs[stage] = Math.max(time.nowMs, freeAtMs[stage] as number) + tookMs;
    time.after((freeAtMs[stage] as number) - time.nowMs, done);
  };
  const busy = (tookMs: number) => new Promise<void>((done) => occupy(stages - 1, tookMs, done));
  const enter = (pass: Pass, stage: number): void => {
    const tookMs = stageMs + rowMs * Math.max(0, tokensIn(pass) - 1);
    occupy(stage, tookMs, () => {
      lastMs = tookMs;
      if (stage + 1 < stages) time.after(hopMs, () => enter(pass, stage + 1));
      else if (pass.rows.length > 0) conductor.finished(pass, { values: logitsOf(pass, texts), width: vocabulary });
    });
  };
  const drafter = guesses && scene.draft ? draftOf(scene.draft, world, busy) : undefined;
  let requests = 0;
  const conductor = new Conductor({
    nextRequest: () => ++requests,
    ...{ pnode: "p", epoch: 1, context: 1_024, positionsMax: 64 * 1_024, world, stageMs: () => lastMs },
    ...(guesses ? {} : { without: ["drafts" as const] }),
    ...(drafter && { drafter: () => drafter }),
    // Beside the head, so the first machine is as far away as the second.
    feed: (pass) => void time.after(hopMs, () => enter(pass, 0)),
  });
  let isMeasured = drafter === undefined;
  void drafter?.measure().then(() => {
    isMeasured = true;
  });
  while (!isMeasured) {
    time.next();
    await othersTurn();
  }
  const beganMs = time.nowMs;
  let open = texts.length;
  for (const text of texts) {
    const prompt = text.slice(0, promptTokens);
    const maxTokens = text.length - promptTokens;
    const wish = { prompt, sent: [], maxTokens, sampling: greedy, endTokens: new Set<number>() };
    const answers = conductor.generate(wish, new AbortController().signal);
    void (async () => {
      const tokens: number[] = [];
      for await (const answer of answers) tokens.push(...answer.tokens);
      if (tokens.join() !== text.slice(promptTokens).join()) throw new Error("guesses have changed an answer");
      open--;
    })();
  }
  while (open > 0) {
    if (!time.next()) throw new Error("the answers stand still");
    await othersTurn();
  }
  const answered = texts.reduce((sum, { length }) => sum + length - promptTokens, 0);
  return (answered * 1_000) / (time.nowMs - beganMs);
}

function draftOf(
  says: (text: number, place: number) => number,
  world: World,
  busy: (tookMs: number) => Promise<void>,
): ModelDrafter {
  return new ModelDrafter({
    ...{ world, context: 1_024, positionsMax: 64 * 1_024, vocabulary, drop: () => {} },
    onFailure: (error) => {
      throw error;
    },
    run: async (rows, ids, take) => {
      await busy(draftMs + draftRowMs * (ids.length - 1));
      const values = rows.flatMap(({ request, position, tokens, logits }) => {
        if (logits === 0) return [];
        const row = Array<number>(vocabulary).fill(0);
        row[says(Number(request) - 1, position + tokens)] = 1;
        return row;
      });
      take({ values: Float32Array.from(values), width: vocabulary });
    },
  });
}

/** After each token of a request the next one of its text is certain. */
function logitsOf({ rows }: Pass, texts: readonly (readonly number[])[]): Float32Array {
  const wanted = rows.flatMap(({ request, position, tokens, logits }) =>
    Array.from({ length: logits }, (_, i) => texts[Number(request) - 1]?.[position + tokens - logits + i + 1] ?? 0),
  );
  const values = new Float32Array(wanted.length * vocabulary);
  for (const [row, token] of wanted.entries()) values[row * vocabulary + token] = 1;
  return values;
}

/** The cells of one crowd. */
export async function latencyCells(hopMs: number, scene: Scene): Promise<string> {
  const [plain, guessing] = [await tokensPerSecond(hopMs, scene, false), await tokensPerSecond(hopMs, scene, true)];
  return `${plain.toFixed(1)} | ${guessing.toFixed(1)} | ${(guessing / plain).toFixed(2)}`;
}

export async function latencyTable(log: (line: string) => void): Promise<string> {
  const lines: string[] = [];
  const row = async (name: string, hopMs: number, share: number, agrees?: number) => {
    const cells: string[] = [];
    for (const crowd of crowds) {
      cells.push(await latencyCells(hopMs, drawnScene(crowd, share, agrees)));
      log(`${name}, ${hopMs} ms, ${crowd}: ${cells.at(-1)}`);
    }
    lines.push(`| ${name} | ${hopMs} ms | ${cells.join(" | ")} |`);
  };
  for (const [kind, share] of Object.entries(quoted)) for (const hopMs of hops) await row(kind, hopMs, share);
  for (const agrees of agreements)
    for (const hopMs of hops) await row(`new text, a draft that agrees in ${100 * agrees} %`, hopMs, 0, agrees);
  for (const hopMs of hops) await row("half quoted, a draft that agrees in 80 %", hopMs, quoted["half quoted"], 0.8);
  const heads = crowds.map((crowd) => `${crowd} at once, tokens/s | with guesses | times`);
  return [
    `Virtual time: ${stages} machines, ${stageMs} ms a pass on each and ${rowMs} ms for each row more, prompts of ${promptTokens} tokens, answers of ${answerTokens}. Guesses come from the text itself, and where it is said from a draft on the head's machine, which takes ${draftMs} ms of it for a pass and ${draftRowMs} ms for each row more; every answer is the same with and without them (>= 2 times at 100 ms for one reader).`,
    "",
    `| answers | between machines | ${heads.join(" | ")} |`,
    `|---|---|${crowds.map(() => "---|---|---|").join("")}`,
    ...lines,
  ].join("\n");
}
