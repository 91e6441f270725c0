// Real processes that serve a model, of which one chooses other words than the model does: it is found by a question of the
// network's own before anybody read a word of it, and what people read is what honest machines answer.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { dcnr, finish, prepare, withNetwork } from "../e2e/world.ts";
import { fromSources } from "./from-sources.ts";

const prompt = "Call me";
const wanted = { maxTokens: 12, temperature: 0.8, seed: 3 };

test(
  "a machine that answers something else than the model is found before it has answered anybody",
  {
    timeout: 280_000,
  },
  () =>
    withNetwork(0, async (network) => {
      const { client, local, directory } = network;
      const { address, key } = local.orchestrator;
      const machines: Child[] = [];
      const enter = async (name: string, flags: readonly string[] = []) => {
        const at = key === undefined ? address : withKey(address, key);
        const own = ["--name", name, "--owner", name, "--dir", join(directory, name), "--cpus", "1", "--unconfined"];
        const given = { environment: flags.length === 0 ? process.env : fromSources, flags };
        machines.push(await startChild(name, ["join", at, ...own, "--log-level", "error", "--wait"], {}, given));
      };
      const ask = async (model: string) => {
        const tokens: number[] = [];
        for await (const piece of client.generate(model, prompt, wanted)) tokens.push(...piece.tokens);
        return tokens;
      };
      try {
        await enter("liar", ["--import", join(import.meta.dirname, "lying-answers.ts")]);
        const id = await prepare(network, readFileSync("examples/gpt-demo.yaml", "utf8"), "moby-dick");
        const settings = { network: id, dataset: "moby-dick", steps: 2n, batch: 4, microbatches: 1, seed: 1n };
        const learningRate = { base: 0.004, schedule: "constant" };
        const session = await finish(client, { ...settings, checkpointEvery: 2, learningRate });
        assert.equal(session.status, "done", session.reason);
        // The only machine that is there gets all of the model.
        await client.models.serve(session.id, { name: "audited", audit: "on" });
        await Promise.all(["one", "two", "three"].map((name) => enter(name)));
        const standingOf = async (name: string) => (await client.trust.standings()).find((one) => one.name === name);
        for (let tries = 0; (await standingOf("liar"))?.standing !== "quarantined"; tries++) {
          assert.ok(tries < 1_000, "waited in vain until the liar is found");
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        const read = await ask("audited");
        await client.models.serve(session.id, { name: "plain", audit: "off" });
        assert.deepEqual(read, await ask("plain"), "what honest machines say");

        const standings = await client.trust.standings();
        const liar = standings.find(({ name }) => name === "liar");
        assert.equal(liar?.standing, "quarantined", liar?.reason);
        assert.match(liar?.reason ?? "", /chose something else than follows from what came in/);
        for (const one of standings) if (one.name !== "liar") assert.deepEqual(one.faults, [], one.name);
        const { checks } = (await client.models.list()).find(({ name }) => name === "audited") ?? {};
        assert.equal(checks?.wrong, 1n);
        // How many more there were depends on where the model went: over all three machines nobody is left to repeat any.
        assert.ok((checks?.canaries ?? 0n) >= 1n, "the question that found it was the network's own");

        // Anybody who has the store and the blobs repeats what was found, without any process of the network.
        const [, ...words] = liar?.faults[0]?.command.split(" ") ?? [];
        const repeated = await dcnr([...words, "--dir", directory, "--json"]);
        assert.equal(repeated.code, 1, repeated.err);
        const { right, answered, repeated: tokens } = JSON.parse(repeated.out);
        assert.equal(right, false);
        assert.notDeepEqual(answered, tokens);
      } finally {
        await Promise.all(machines.map((child) => stopChild(child, 3_000)));
      }
    }),
);
