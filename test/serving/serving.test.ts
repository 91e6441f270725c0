// A trained model that answers, on real processes: streams, bad requests, crowds, and PNodes that die in the middle
// of an answer.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import OpenAI from "openai";
import { hasCode } from "../../src/core/errors.ts";
import { DataType } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import { dcnr, finish, prepare, type TestNetwork, withNetwork } from "../e2e/world.ts";

const model = "gpt-demo";
const prompt = "Call me";
const wanted = { maxTokens: 50, temperature: 0.8, seed: 3 };

let network: TestNetwork;
let openai: OpenAI;
let trained = "";
let calm: Answer;
test("a trained model is served", (t) =>
  withNetwork(3, async (opened) => {
    network = opened;
    openai = new OpenAI({ baseURL: `http://${network.local.orchestrator.address}/v1`, apiKey: "none", maxRetries: 0 });
    trained = await train("examples/gpt-demo.yaml", "moby-dick");
    await network.client.models.serve(trained, { spread: 2 });
    for (const [sentence, run] of scenes) await t.test(sentence, run);
  }));

const scenes: [string, () => Promise<void>][] = [];
const scene = (sentence: string, run: () => Promise<void>) => scenes.push([sentence, run]);

async function train(definition: string, dataset: string): Promise<string> {
  const id = await prepare(network, readFileSync(definition, "utf8"), dataset);
  const settings = { network: id, dataset, steps: 6n, batch: 16, microbatches: 2, seed: 1n, checkpointEvery: 3 };
  const session = await finish(network.client, { ...settings, learningRate: { base: 0.004, schedule: "constant" } });
  assert.equal(session.status, "done", session.reason);
  return session.id;
}

interface Answer {
  text: string;
  tokens: number[];
  finish: string;
}

async function ask(
  options: Parameters<TestNetwork["client"]["generate"]>[2],
  onPiece: (answer: Answer) => void = () => {},
): Promise<Answer> {
  const answer: Answer = { text: "", tokens: [], finish: "" };
  for await (const piece of network.client.generate(model, prompt, options)) {
    answer.text += piece.text;
    answer.tokens.push(...piece.tokens);
    answer.finish = piece.finish;
    onPiece(answer);
  }
  return answer;
}

/** The PNode of each VNode that answers. */
async function hosts(): Promise<Map<string, string>> {
  const served = (await network.client.models.list()).find(({ name }) => name === model);
  const vnodes = await network.client.fleet.vnodes(served?.sessions[0]);
  return new Map(vnodes.map(({ id, pnode }) => [id, pnode]));
}

scene("texts have vectors, the same beside answers and alone, however they are asked for", async () => {
  const text = "Call me Ishmael.";
  const { data, usage } = await openai.embeddings.create({ model, input: [text, "The whale"] });
  assert.equal(data[0]?.embedding.length, 128);
  const length = Math.hypot(...(data[0]?.embedding ?? []));
  assert.ok(Math.abs(length - 1) < 1e-6, `${length}`);
  assert.notDeepEqual(data[0]?.embedding, data[1]?.embedding);
  assert.ok(usage.prompt_tokens > 3);
  const [{ values }] = await Promise.all([network.client.embed(model, text), ask(wanted), ask({ ...wanted, seed: 9 })]);
  assert.deepEqual(values, data[0]?.embedding);
});

scene("two PNodes answer together, the same seed gives the same answer, over gRPC and OpenAI's API alike", async () => {
  calm = await ask(wanted);
  assert.equal(calm.tokens.length, 50);
  assert.equal(calm.finish, "length");
  assert.equal(new Set((await hosts()).values()).size, 2, "two PNodes take part");
  const stream = await openai.completions.create({
    ...{ model, prompt, max_tokens: 50, temperature: 0.8, seed: 3 },
    stream: true,
  });
  let text = "";
  let pieces = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? "";
    pieces++;
  }
  assert.equal(text, calm.text);
  assert.ok(pieces > 10, "it came piece by piece");
  const chat = await openai.chat.completions.create({
    ...{ model, max_tokens: 20, temperature: 0.8, seed: 3, stop: ["e"] },
    messages: [{ role: "user", content: prompt }],
  });
  assert.equal(chat.choices[0]?.message.content, calm.text.slice(0, calm.text.indexOf("e")));
  assert.equal(chat.choices[0]?.finish_reason, "stop");
  const several = { model, prompt: [prompt, "The whale"], n: 2, max_tokens: 50, temperature: 0.8, seed: 3 };
  const [once, again] = [await openai.completions.create(several), await openai.completions.create(several)];
  assert.equal(once.choices[0]?.text, calm.text, "the first of several is what one alone gets");
  assert.equal(new Set(once.choices.map(({ text }) => text)).size, 4, "each has a seed of its own");
  assert.deepEqual(again.choices, once.choices);
  const first = calm.tokens[0] as number;
  const biased = await ask({ ...wanted, maxTokens: 8, logitBias: { [first]: 100 } });
  assert.deepEqual(biased.tokens, Array(8).fill(first), "a bias forces a token");
  const banned = await ask({ ...wanted, logitBias: { [first]: -100 } });
  assert.ok(!banned.tokens.includes(first), "or forbids it");
});

scene("what cannot be answered is refused in a sentence", async () => {
  const long = "whale ".repeat(200);
  await assert.rejects(openai.completions.create({ model, prompt: long }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.match(error.message, /the prompt has \d+ tokens, model gpt-demo takes at most 63: shorten it/);
    assert.equal(error.code, "context_length_exceeded");
    return true;
  });
  await assert.rejects(openai.completions.create({ model, prompt, max_tokens: 1_000_000 }), OpenAI.BadRequestError);
  await assert.rejects(ask({ maxTokens: 1_000_000 }), (error) => hasCode(error, "invalid_argument"));
  await assert.rejects(openai.completions.create({ model, prompt: [99_999] }), /outside the model's vocabulary/);
  await assert.rejects(openai.completions.create({ model: "none", prompt }), OpenAI.NotFoundError);
  await assert.rejects(
    openai.completions.create({ model, prompt, logit_bias: { 99999: 1 } }),
    /logit_bias: token 99999 is outside the model's vocabulary/,
  );
});

scene("two hundred at once: each is answered or told to come back, and nobody else suffers", async () => {
  const results = await Promise.allSettled(
    Array.from({ length: 200 }, (_, i) => openai.completions.create({ model, prompt, max_tokens: 6, seed: i })),
  );
  const answered = results.filter((result) => result.status === "fulfilled");
  const refused = results.filter((result) => result.status === "rejected");
  for (const { reason } of refused) assert.ok(reason instanceof OpenAI.RateLimitError, String(reason));
  for (const { value } of answered) assert.equal(value.usage?.completion_tokens, 6);
  assert.ok(answered.length >= 100, `${answered.length} answered`);
  assert.deepEqual(await ask(wanted), calm, "afterwards all is as before");
});

scene("readers that leave in the middle leave nothing behind", async () => {
  await Promise.all(
    Array.from({ length: 30 }, async (_, i) => {
      const stream = await openai.completions.create({ model, prompt, max_tokens: 60, seed: i, stream: true });
      for await (const _ of stream) break;
    }),
  );
  assert.deepEqual(await ask(wanted), calm);
});

scene("a PNode that dies in the middle changes nothing about the answer, wherever the head is", async () => {
  for (const ofHead of [false, true]) {
    const places = await hosts();
    const head = places.get("head") as string;
    const chosen = ofHead ? head : [...places.values()].find((pnode) => pnode !== head);
    const victim = network.local.pnodes.find(({ id }) => id === chosen);
    assert.ok(victim, "there is one to kill");
    let killed = 0;
    const answer = await ask(wanted, ({ tokens }) => {
      if (tokens.length < 10 || killed > 0) return;
      killed = tokens.length;
      victim.kill("SIGKILL");
    });
    assert.ok(killed >= 10 && killed < 50, "it died on the way");
    assert.deepEqual(answer, calm);
    assert.ok(![...(await hosts()).values()].includes(victim.id));
  }
});

scene("tensors go through a network as they are, or as samples of a dataset", async () => {
  await network.client.models.serve(await train("examples/mlp.yaml", "mnist"));
  const environment = { DCNR_ORCHESTRATOR: network.local.orchestrator.address };
  const ran = await dcnr(["infer", "mlp", "--dataset", "mnist", "--count", "3", "--json"], environment);
  assert.equal(ran.code, 0, ran.err);
  const [printed] = Object.values(JSON.parse(ran.out) as Record<string, { shape: number[]; values: number[] }>);
  assert.deepEqual(printed?.shape, [3, 10]);
  const manifest = await network.client.datasets.samples("mnist", 0, 3);
  const pixels = manifest.map(({ fields }) => fields["inputs"]?.data as Uint8Array);
  const data = Buffer.concat(pixels);
  const inputs = { inputs: { dtype: DataType.FLOAT32, shape: [3, data.byteLength / 12], data } };
  const { outputs } = await network.client.models.forward("mlp", { inputs });
  const [output] = Object.values(outputs);
  const values = output?.data.slice() as Uint8Array;
  assert.deepEqual([...new Float32Array(values.buffer)], printed?.values);
  await assert.rejects(
    network.client.models.forward("mlp", { inputs: { inputs: { ...inputs.inputs, shape: [3, 7] } } }),
    (error) => hasCode(error, "invalid_argument"),
  );
});

scene("what weights in few bits lost is told to whoever serves them, by the list and by OpenAI's API", async () => {
  const environment = { DCNR_ORCHESTRATOR: network.local.orchestrator.address };
  const lost = async (weights: string): Promise<number> => {
    const ran = await dcnr(["serve", trained, "--name", "few", "--weights", weights], environment);
    assert.equal(ran.code, 0, ran.err);
    const percent = new RegExp(`few keeps weights in ${weights}: their mean relative error is ([\\d.]+) %`).exec(
      ran.out,
    )?.[1];
    assert.ok(percent, ran.out + ran.err);
    const shown = (await openai.models.retrieve("few")) as OpenAI.Model & { weight_error?: number };
    assert.equal((100 * (shown.weight_error ?? Number.NaN)).toFixed(2), percent);
    assert.ok((await dcnr(["model", "list"], environment)).out.includes(`in ${weights}: their mean relative error`));
    await network.client.models.stop("few");
    return Number(percent);
  };
  const [eight, four] = [await lost("8bit"), await lost("4bit")];
  assert.ok(eight > 0 && eight < 2 && four > 4 * eight && four < 25, `${eight} % and ${four} %`);
});

scene("a model that is served again with more replicas goes on, and one that is stopped leaves no VNodes", async () => {
  const { client } = network;
  assert.equal((await client.models.serve(trained, { replicas: 2 })).replicas, 2);
  assert.equal((await ask(wanted)).text, calm.text);
  const sessions = (await client.sessions.list()).map(({ id }) => id);
  for (const { sessions: replicas } of await client.models.list())
    for (const replica of replicas) assert.ok(!sessions.includes(replica), "a replica is no session");
  await client.models.stop(model);
  await client.models.stop("mlp");
  await assert.rejects(ask(wanted), (error) => hasCode(error, "not_found"));
  assert.deepEqual(await client.models.list(), []);
});
