// The conductor on the stages of conductor.testing.ts: answers are what they would be alone, whatever is lost, and all who wait hear
// something.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Constraint } from "../../models/choosing.ts";
import { hashesOfRows, rootOf } from "./answer-rows.ts";
import {
  alone,
  answerTo,
  chanceOf,
  classes,
  context,
  draftThat,
  isOver,
  logitsOf,
  type Reader,
  read,
  requestOf,
  Stages,
  stagesCount,
  tensorOf,
  valuesOf,
} from "./conductor.testing.ts";
import type { ConductorOptions, TokenRequest } from "./conductor-options.ts";
import { rowsMax } from "./pass.ts";

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
      const names = new Map<TokenRequest, string>();
      const disturb = () => {
        if (readers.length < 60 && chance() < 0.1) {
          const left = new AbortController();
          // Some ask alike: their prompts begin with the same tokens.
          const kind = 1 + (readers.length % 3 === 0 ? 0 : readers.length);
          const request = { ...requestOf(kind, 1 + Math.floor(chance() * 70), 1 + Math.floor(chance() * 30)) };
          const reader = read(stages.conductor, request, left.signal, (name) => names.set(request, name));
          readers.push({ reader, request, left, leaves: chance() < 0.2 });
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
        if (reader.tokens.length > 0) checkRows(stages, names.get(request) as string, request.prompt, reader.tokens);
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

/** Whatever was lost, guessed wrongly or shared on the way, every stage remembers what follows from the tokens, and nothing else. */
function checkRows({ stages }: Stages, name: string, prompt: readonly number[], answer: readonly number[]): void {
  const tokens = [...prompt, ...answer].slice(0, -1);
  const first = prompt.length - 1;
  const values = valuesOf(tokens);
  const chosenFrom = (values.pop() as string[]).slice(first);
  const data = Float32Array.from(chosenFrom.flatMap(logitsOf));
  const logits: Tensor = { dtype: "float32", shape: [chosenFrom.length, classes], data };
  for (const [index, came] of values.entries()) {
    const told = stages[index]?.rows.roots(name, (passage) => (passage === "sent logits" ? first : 0), tokens.length);
    assert.equal(told?.get("got values"), rootFrom(tensorOf(came)), `answer ${name}, stage ${index}`);
    if (index === stagesCount - 1) assert.equal(told?.get("sent logits"), rootFrom(logits), `answer ${name}`);
  }
}

function rootFrom(tensor: Tensor): string | undefined {
  const rows = tensor.shape[0] ?? 0;
  return rootOf(hashesOfRows(tensor, rows), 0, rows);
}
