// The gateway with PNodes that are a page long: they answer by counting, break off, are full or gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError, fail } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import { silentLog, type World } from "../../core/world.ts";
import { greedy } from "../../models/sampling.ts";
import type { GenerateTokensRequest, GenerateTokensResponse } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { Network } from "../../protocol/network.ts";
import { withoutKey } from "../../protocol/routes/address.ts";
import type { GivenAnswer } from "../answers/given.ts";
import { Gateway, type GatewayNeeds } from "./gateway.ts";
import type { TextRequest } from "./text.ts";
import { tinyPlan as plan } from "./tiny-plan.testing.ts";

type Answer = (
  request: GenerateTokensRequest,
  signal: AbortSignal,
) => AsyncIterable<Pick<GenerateTokensResponse, "tokens" | "finish" | "logprobs">>;

/** Counts on from what was sent. */
async function* counting({ sent, maxTokens }: GenerateTokensRequest, until = maxTokens) {
  for (let index = sent.length; index < until; index++)
    yield { tokens: [index], logprobs: [], finish: index + 1 === maxTokens ? "length" : "" };
}

function scene(replicas: readonly string[], status = "running") {
  let nowMs = 0;
  let draws = 0;
  const calls: { address: string; sent: number[] }[] = [];
  const pnodes = new Map<string, Answer>();
  const records = new Map<string, { status: string; reason: string; identity: object; vnodes: string[] }>();
  for (const id of replicas) records.set(`replica/${id}`, { status, reason: "", identity: {}, vnodes: [] });
  const model = { name: "m", replicas: [...replicas], context: 32, vocabulary: 100, tokenizer: "", states: {} };
  const mirror = {
    get: (key: string) => records.get(key),
    read: async (key: string) => (key === "model/m" ? { ...model } : records.get(key)),
  };
  const world: World = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (delayMs, callback) => {
        nowMs += delayMs;
        const timer = setImmediate(callback);
        return () => clearImmediate(timer);
      },
    },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => (draws++ % 10) / 10 },
    log: silentLog,
  };
  /** By replica, where its head is now. */
  const heads = new Map(replicas.map((id) => [id, `${id}-a:1`]));
  const needs = {
    context: { world, mirror },
    compiled: { plan: async () => plan },
    assignments: {
      locations: (record: object) => {
        const id = replicas.find((each) => records.get(`replica/${each}`) === record) as string;
        return heads.has(id) ? [{ routes: [heads.get(id)], pnode: "key" }] : [];
      },
    },
  };
  const hindrances: (string | undefined)[] = [];
  const network = {
    watch: (keyed: string, _: unknown, request: GenerateTokensRequest, { signal }: { signal: AbortSignal }) => {
      assert.ok(keyed.endsWith("#key"), "nobody but the PNode itself is asked");
      const address = withoutKey(keyed);
      calls.push({ address, sent: [...request.sent] });
      const answer = pnodes.get(address);
      return answer ? answer(request, signal) : fail("unavailable", `nothing answers at ${address}`);
    },
  } as unknown as Network;
  const given: GivenAnswer[] = [];
  const checking = {
    answers: { begin: async () => undefined, given: (answer: GivenAnswer) => void given.push(answer) },
    canaries: { hindrance: async () => hindrances.shift() },
  };
  const wake = async (model: unknown) => model;
  return {
    gateway: new Gateway({ ...needs, ...checking, network, wake } as unknown as GatewayNeeds),
    given,
    hindrances,
    pnodes,
    heads,
    calls,
    records,
    model,
  };
}

const request: TextRequest = {
  model: "m",
  prompt: [1, 2, 3],
  maxTokens: 8,
  sampling: { ...greedy, seed: 1 },
  stop: [],
};

async function tokensOf(gateway: Gateway, asked = request, signal = new AbortController().signal): Promise<number[]> {
  const tokens: number[] = [];
  for await (const piece of gateway.generate(asked, signal)) tokens.push(...piece.tokens);
  return tokens;
}

test("an answer goes on at the next PNode, which is told what was sent", async () => {
  const { gateway, pnodes, heads, calls } = scene(["s"]);
  pnodes.set("s-a:1", async function* (asked) {
    yield* counting(asked, 3);
    heads.set("s", "s-b:1");
    throw new DcnrError("unavailable", "the stream broke");
  });
  pnodes.set("s-b:1", (asked) => counting(asked));
  assert.deepEqual(await tokensOf(gateway), [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(
    calls.map(({ address, sent }) => [address, sent.length]),
    [
      ["s-a:1", 0],
      ["s-b:1", 3],
    ],
  );
});

test("for a reader who went away while the model woke up, nothing is computed", async () => {
  const { gateway, pnodes, calls } = scene(["s"]);
  pnodes.set("s-a:1", (asked) => counting(asked));
  assert.deepEqual(await tokensOf(gateway, request, AbortSignal.abort()), []);
  assert.deepEqual(calls, []);
});

test("a PNode that falls silent in the middle is asked again; signs of one that thinks are nothing to read", async () => {
  const { gateway, pnodes, calls } = scene(["s"]);
  pnodes.set("s-a:1", async function* (asked) {
    yield* counting(asked, asked.sent.length + 1);
    if (calls.length < 3) await new Promise(() => {});
    yield { tokens: [], logprobs: [], finish: "" };
    yield* counting(asked);
  });
  assert.deepEqual(await tokensOf(gateway, { ...request, maxTokens: 4 }), [0, 1, 2, 3]);
  assert.deepEqual(
    calls.map(({ sent }) => sent),
    [[], [0], [0, 1]],
  );
});

test("a model that is being placed is waited for, one that never comes is given up", async () => {
  const { gateway, pnodes, heads, calls } = scene(["s"]);
  pnodes.set("s-b:1", (asked) => counting(asked));
  setImmediate(() => heads.set("s", "s-b:1"));
  assert.equal((await tokensOf(gateway)).length, 8);
  heads.delete("s");
  await assert.rejects(tokensOf(gateway), /model m is being placed/);
  assert.ok(calls.length > 1);
});

test("a full replica is passed over for another; when all are full the caller hears it", async () => {
  const { gateway, pnodes, calls } = scene(["s", "t"]);
  const full: Answer = () => fail("resource_exhausted", "128 requests are waiting already");
  pnodes.set("s-a:1", full);
  pnodes.set("t-a:1", (asked) => counting(asked));
  for (let i = 0; i < 5; i++) assert.equal((await tokensOf(gateway)).length, 8);
  assert.ok(calls.some(({ address }) => address === "s-a:1"));
  pnodes.set("t-a:1", full);
  await assert.rejects(tokensOf(gateway), /128 requests are waiting/);
});

test("a replica that was replaced before it said anything is followed by the one that came; in the middle it is told", async () => {
  const { gateway, pnodes, records, model } = scene(["s", "t"]);
  model.replicas = ["s"];
  records.delete("replica/s");
  pnodes.set("t-a:1", (asked) => counting(asked));
  const find = records.get.bind(records);
  records.get = (key) => {
    if (key === "replica/s") model.replicas = ["t"];
    return find(key);
  };
  assert.equal((await tokensOf(gateway)).length, 8);
  pnodes.set("t-a:1", async function* (asked) {
    yield* counting(asked, 3);
    records.delete("replica/t");
    model.replicas = ["u"];
    throw new DcnrError("unavailable", "the stream broke");
  });
  await assert.rejects(tokensOf(gateway), { code: "aborted", message: /replaced while it answered/ });
});

test("errors that another try would not change come through at once", async () => {
  const { gateway, pnodes, calls, records } = scene(["s"]);
  pnodes.set("s-a:1", () => fail("data_loss", "the model cannot go on"));
  await assert.rejects(tokensOf(gateway), /cannot go on/);
  assert.equal(calls.length, 1);
  records.delete("replica/s");
  await assert.rejects(tokensOf(gateway), /stopped or replaced/);
  await assert.rejects(tokensOf(gateway, { ...request, prompt: Array(32).fill(1) }), /takes at most 31/);
  await assert.rejects(tokensOf(gateway, { ...request, prompt: [100] }), /outside the model's vocabulary/);
  await assert.rejects(tokensOf(gateway, { ...request, maxTokens: 1_000_000 }), /at most 65536/);
  await assert.rejects(tokensOf(gateway, { ...request, prompt: "text" }), /no tokenizer/);
});

test("a reader who stops early ends the work of the PNode", async () => {
  const { gateway, pnodes } = scene(["s" as SessionId]);
  let stopped = 0;
  pnodes.set("s-a:1", async function* (asked, signal) {
    signal.addEventListener("abort", () => stopped++);
    yield* counting(asked);
  });
  for await (const _ of gateway.generate(request, new AbortController().signal)) break;
  assert.equal(stopped, 1, "by leaving the loop");
  const left = new AbortController();
  for await (const piece of gateway.generate(request, left.signal)) if (piece.generatedTokens === 2) left.abort();
  assert.equal(stopped, 2, "by its signal");
});

test("what was answered is told to whoever checks it, and replicas that have to prove themselves are waited for", async () => {
  const { gateway, pnodes, given, hindrances, heads, calls } = scene(["s"]);
  hindrances.push("its machines are new", "its machines are new");
  pnodes.set("s-a:1", (asked) => counting(asked));
  assert.equal((await tokensOf(gateway)).length, 8);
  assert.equal(calls.length, 1, "nobody was asked before");
  assert.deepEqual(
    given.map(({ answer, replica }) => [answer.length, replica]),
    [[8, "s"]],
  );
  for await (const { generatedTokens } of gateway.generate(request, new AbortController().signal))
    if (generatedTokens === 2) break;
  assert.equal(given[1]?.answer.length, 2, "as much as was read");
  pnodes.set("s-a:1", async function* (asked) {
    yield* counting(asked, 3);
    heads.set("s", "s-b:1");
    throw new DcnrError("unavailable", "the stream broke");
  });
  pnodes.set("s-b:1", (asked) => counting(asked));
  assert.equal((await tokensOf(gateway)).length, 8);
  assert.equal(given[2]?.answer.length, 8, "once, with what both said");
});
