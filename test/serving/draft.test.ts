// A smaller model that guesses beside the head, on real processes: the same text with it and without it, whoever dies.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import OpenAI from "openai";
import { hasCode } from "../../src/core/errors.ts";
import { dcnr, finish, prepare, type TestNetwork, withNetwork } from "../e2e/world.ts";

const prompt = "Call me";

async function train(network: TestNetwork, definition: string, dataset: string): Promise<string> {
  const id = await prepare(network, definition, dataset);
  const settings = { network: id, dataset, steps: 6n, batch: 16, microbatches: 2, seed: 1n, checkpointEvery: 3 };
  const session = await finish(network.client, { ...settings, learningRate: { base: 0.004, schedule: "constant" } });
  assert.equal(session.status, "done", session.reason);
  return session.id;
}

test("a model with a draft beside its head says what it says without one", (t) =>
  withNetwork(3, async (network) => {
    const { client, local } = network;
    const environment = { DCNR_ORCHESTRATOR: local.orchestrator.address };
    const definition = readFileSync("examples/gpt-demo.yaml", "utf8");
    const trained = await train(network, definition, "moby-dick");
    const ask = async (model: string, temperature: number, onToken: (count: number) => void = () => {}) => {
      const tokens: number[] = [];
      for await (const piece of client.generate(model, prompt, { maxTokens: 50, temperature, seed: 3 })) {
        tokens.push(...piece.tokens);
        onToken(tokens.length);
      }
      return tokens;
    };
    await client.models.serve(trained, { name: "alone", spread: 2 });
    const calm = new Map<number, number[]>();
    for (const temperature of [0, 0.8]) calm.set(temperature, await ask("alone", temperature));
    await client.models.stop("alone");

    await t.test("at any temperature, told by the list and by OpenAI's API", async () => {
      const ran = await dcnr(
        ["serve", trained, "--name", "pair", "--spread", "2", "--draft", trained, "--draft-weights", "4bit"],
        environment,
      );
      assert.equal(ran.code, 0, ran.err);
      for (const [temperature, tokens] of calm) assert.deepEqual(await ask("pair", temperature), tokens);
      const openai = new OpenAI({ baseURL: `http://${local.orchestrator.address}/v1`, apiKey: "none", maxRetries: 0 });
      const shown = (await openai.models.retrieve("pair")) as OpenAI.Model & { draft?: string; draft_weights?: string };
      assert.deepEqual([shown.draft, shown.draft_weights], [trained, "4bit"]);
      assert.match((await dcnr(["model", "list"], environment)).out, new RegExp(`pair: .*${trained} in 4bit`));
    });

    await t.test("also when the machine of the head, with the draft, dies in the middle", async () => {
      const served = (await client.models.list()).find(({ name }) => name === "pair");
      const head = (await client.fleet.vnodes(served?.sessions[0])).find(({ id }) => id === "head")?.pnode;
      const victim = local.pnodes.find(({ id }) => id === head);
      assert.ok(victim, "there is one to kill");
      let killed = 0;
      const tokens = await ask("pair", 0.8, (count) => {
        if (count < 10 || killed > 0) return;
        killed = count;
        victim.kill("SIGKILL");
      });
      assert.ok(killed >= 10 && killed < 50, "it died on the way");
      assert.deepEqual(tokens, calm.get(0.8));
      assert.deepEqual(await ask("pair", 0), calm.get(0));
    });

    await t.test("and what does not write text is refused as one", async () => {
      const pictures = await train(network, readFileSync("examples/mlp.yaml", "utf8"), "mnist");
      await assert.rejects(client.models.serve(trained, { draft: pictures }), (error) => {
        assert.ok(hasCode(error, "failed_precondition"));
        assert.match(String(error), /does not generate text: there is nothing to guess/);
        return true;
      });
    });
  }));
