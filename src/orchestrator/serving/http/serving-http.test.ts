import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Aside, asideHere } from "../../../core/aside.ts";
import { silentLog, type World } from "../../../core/world.ts";
import { ManualTimers } from "../../../protocol/connections/timers.testing.ts";
import { type Caller, type Counted, uncounted } from "../../../protocol/network.ts";
import { openMemoryStore } from "../../../store/memory.ts";
import { openAside } from "../../../system/threads/aside.ts";
import { ApiKeys } from "../../rights/keys.ts";
import { Echo } from "./echo.testing.ts";
import { openAiHandler } from "./openai.ts";
import { textsMax } from "./works.ts";

/** The front end, asked without a wire. */
function scene(aside: Aside = asideHere) {
  const timers = new ManualTimers();
  const world: World = {
    ...{ timers, log: silentLog, clock: { wallMs: () => 0, monotonicMs: () => 0 } },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0 },
  };
  const echo = new Echo();
  const keys = new ApiKeys(openMemoryStore(), world, true);
  const handler = openAiHandler({
    ...{ world, aside, keys, generator: echo, checkModel: async () => {} },
    identify: async (caller: Caller) => caller,
  });
  const handle = (body: BodyInit, { counted = uncounted, headers = {}, address = "127.0.0.1" }: Wishes = {}) => {
    const init = { method: "POST", body, headers, duplex: "half" } as RequestInit;
    return handler(new Request("http://localhost/v1/embeddings", init), address, counted);
  };
  const ask = async (body: BodyInit, wishes?: Wishes) => {
    const answer = await handle(body, wishes);
    return { status: answer?.status, said: JSON.parse((await answer?.text()) ?? "") as Said };
  };
  return { ask, handle, echo, keys, timers };
}

interface Wishes {
  readonly counted?: Counted;
  readonly headers?: Record<string, string>;
  readonly address?: string;
}

interface Said {
  readonly data?: readonly { readonly index: number; readonly embedding: readonly number[] }[];
  readonly error?: { readonly code: string; readonly message: string; readonly param: string | null };
}

const asked = (input: unknown) => JSON.stringify({ model: "echo", input });

describe("a request for answers", () => {
  it("counts for the API key that it shows, and what it sends as its memory; beyond its share it may come again later", async () => {
    const { ask, keys, echo } = scene();
    const { key, secret } = await keys.create({ name: "mine", scopes: ["generate"] });
    const body = asked("x".repeat(1_000));
    const holders: (string | undefined)[] = [];
    let room = body.length + 12;
    const counted = {
      hold: (bytes: number) => {
        room -= bytes;
        return room >= 0;
      },
      countFor: (holder: string | undefined) => void holders.push(holder),
    };
    const wishes = { counted, headers: { authorization: `Bearer ${secret}` }, address: "8.8.8.8" };
    assert.equal((await ask(body, wishes)).status, 200);
    assert.deepEqual(holders, [key.id]);
    assert.equal(room, 0, "the body and a vector of three");
    const refused = await ask(body, wishes);
    assert.deepEqual([refused.status, refused.said.error?.code], [429, "rate_limit_exceeded"]);
    assert.equal(echo.embedded.length, 1);
  });

  it("has so long to come as its size says, however steadily it drips", async () => {
    const { ask, timers } = scene();
    const drip = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode("{")),
    });
    const answer = ask(drip, { headers: { "content-length": String(1 << 20) } });
    let isOver = false;
    answer.then(
      () => (isOver = true),
      () => (isOver = true),
    );
    await settled();
    timers.advance(60_000);
    await settled();
    assert.equal(isOver, false, "a megabyte may take a minute");
    timers.advance(3_000);
    const { status, said } = await answer;
    assert.deepEqual([status, said.error?.message], [504, "the request took too long to come"]);
  });
});

describe("many texts in one request", () => {
  const long = Array.from({ length: textsMax }, (_, i) => `${"a whale ".repeat(100)}${i}`);

  it("are answered alike wherever they are read", async () => {
    const aside = openAside();
    try {
      const { ask, echo } = scene(aside);
      const inputs: unknown[] = [long, "x".repeat(600 << 10), Array.from({ length: 300_000 }, () => 1), [[1], [2, 3]]];
      for (const input of inputs) {
        echo.embedded = [];
        const { status, said } = await ask(asked(input));
        assert.equal(status, 200, said.error?.message);
        const texts = Array.isArray(input) && typeof input[0] !== "number" ? input : [input];
        assert.deepEqual(new Set<unknown>(echo.embedded.map(({ prompt }) => prompt)), new Set(texts));
        assert.deepEqual(
          said.data?.map(({ index }) => index),
          texts.map((_, index) => index),
        );
      }
    } finally {
      await aside.close();
    }
  });

  it("that are none are refused by the name of the parameter, wherever they are read", async () => {
    const { ask } = scene();
    const odd = { model: "echo", input: 7, more: "x".repeat(600 << 10) };
    for (const [body, param] of [
      [asked(["x".repeat(600 << 10), 1]), "input"],
      [asked(Array.from({ length: 300_000 }, () => 1.5)), "input"],
      [asked(Array.from({ length: 300_000 }, () => "")), "input"],
      [JSON.stringify({ ...odd, input: "x" }), null],
      [`{"input":${"[".repeat(600 << 10)}`, null],
    ] as const) {
      const { status, said } = await ask(body);
      assert.deepEqual([status, said.error?.code, said.error?.param], [400, "invalid_value", param], body.slice(0, 40));
    }
  });

  it("hold nobody else up while they are read", async () => {
    const aside = openAside();
    try {
      const { ask } = scene(aside);
      let turns = 0;
      const counter = setInterval(() => turns++, 1);
      const { status } = await ask(`{"model":"echo","input":[${"{},".repeat(4 << 20)}{}]}`);
      clearInterval(counter);
      assert.equal(status, 400);
      assert.ok(turns > 20, `${turns} turns of others`);
    } finally {
      await aside.close();
    }
  });

  it("get vectors that are written in pieces, with turns of others between them", async () => {
    const { handle, echo } = scene();
    const embed = echo.embed.bind(echo);
    const vector = Array.from({ length: 768 }, (_, i) => Math.fround(i / 7));
    echo.embed = async (request, signal) => ({ ...(await embed(request, signal)), vector });
    const answer = await handle(asked(long.map((text) => text.slice(-9))));
    let turns = 0;
    const look = () => {
      turns++;
      looking = setImmediate(look);
    };
    let looking = setImmediate(look);
    const pieces = await Array.fromAsync(answer?.body ?? []);
    clearImmediate(looking);
    assert.ok(pieces.length > 100 && pieces.every(({ byteLength }) => byteLength < 128 << 10));
    assert.ok(turns >= pieces.length - 1, `${turns} turns of others between ${pieces.length} pieces`);
    const { data = [] } = JSON.parse(Buffer.concat(pieces).toString()) as Said;
    assert.equal(data.length, textsMax);
    assert.deepEqual(data.at(-1)?.embedding, vector);
  });
});

/** Until nothing is under way but what waits for a timer. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
}
