// An adapter's whole way on real processes: trained beside weights that stay, served, merged, taken elsewhere and back, and side by side with another.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import OpenAI from "openai";
import { dcnr, finish, prepare, withNetwork } from "../e2e/world.ts";

test("an adapter is trained, served, merged, exported as PEFT does, imported again, and joined with another to share passes", () =>
  withNetwork(2, async (network) => {
    const { client, directory, local } = network;
    const environment = { DCNR_ORCHESTRATOR: local.orchestrator.address };
    const run = async (...words: string[]) => {
      const ran = await dcnr(words, environment);
      assert.equal(ran.code, 0, `dcnr ${words.join(" ")}: ${ran.err}`);
      return ran.out;
    };
    const dataset = "moby-dick";
    const id = await prepare(network, readFileSync("examples/gpt-demo.yaml", "utf8"), dataset);
    const settings = { network: id, dataset, steps: 2n, batch: 8, microbatches: 2, seed: 1n };
    const base = await finish(client, { ...settings, learningRate: { base: 0.004, schedule: "constant" } });
    assert.equal(base.status, "done", base.reason);

    const wish = ["--adapter", "4", "--adapter-alpha", "8", "--dataset", dataset, "--steps", "4", "--batch", "8"];
    const trained = JSON.parse(await run("train", id, "--from", base.id, ...wish, "--rate", "0.02", "--json"));
    assert.equal(trained.status, "done", trained.reason);
    const bytesOf = async (source: string) =>
      (await client.models.describe(source)).states.reduce((sum, { blob }) => sum + Number(blob?.bytes ?? 0), 0);
    assert.ok((await bytesOf(trained.id)) < 0.6 * (await bytesOf(base.id)), "no moments of what does not learn");

    await run("model", "merge", trained.id, "--name", "merged");
    const folder = join(directory, "adapter");
    assert.match(await run("model", "export", trained.id, folder), /as an adapter of PEFT/);
    await run("model", "import", folder, "--onto", base.id, "--name", "again");
    await client.models.serve(base.id, { name: "base" });
    await client.models.serve(trained.id, { name: "adapted" });
    for (const name of ["merged", "again"]) await client.models.serve(name, { name });
    const vectorOf = async (model: string) => (await client.embed(model, "Call me Ishmael.")).values;
    const [plain, adapted] = [await vectorOf("base"), await vectorOf("adapted")];
    const apart = (one: readonly number[], other: readonly number[]) =>
      Math.max(...one.map((value, i) => Math.abs(value - (other[i] as number))));
    assert.ok(apart(plain, adapted) > 1e-4, `it learned something: ${apart(plain, adapted)}`);
    for (const name of ["merged", "again"]) {
      const far = apart(adapted, await vectorOf(name));
      assert.ok(far < 1e-5, `${name} is ${far} from it`);
    }
    for (const name of ["base", "adapted", "merged"]) await client.models.stop(name);
    await client.models.stop("again");

    const other = JSON.parse(await run("train", id, "--from", base.id, ...wish, "--seed", "9", "--json"));
    assert.equal(other.status, "done", other.reason);
    const adapters = ["--adapter", `first=${trained.id}`, "--adapter", `second=${other.id}`];
    await run("model", "join", base.id, "--name", "all", ...adapters);
    assert.match(await run("serve", "all", "--spread", "2"), /all also answers as all:first, all:second/);
    const listed = (await (await fetch(`http://${local.orchestrator.address}/v1/models`)).json()) as {
      data: { id: string }[];
    };
    assert.deepEqual(
      listed.data.map((one) => one.id),
      ["all", "all:first", "all:second"],
    );
    assert.ok(apart(plain, await vectorOf("all")) < 1e-5);
    assert.ok(apart(adapted, await vectorOf("all:first")) < 1e-5);
    assert.ok(apart(adapted, await vectorOf("all:second")) > 1e-4);
    const ask = async (model: string) => {
      const tokens: number[] = [];
      for await (const piece of client.generate(model, "Call me", { maxTokens: 24, temperature: 0.9, seed: 5 }))
        tokens.push(...piece.tokens);
      return tokens;
    };
    const names = ["all", "all:first", "all:second"];
    const alone = [];
    for (const name of names) alone.push(await ask(name));
    assert.deepEqual(await Promise.all([...names, ...names].map(ask)), [...alone, ...alone], "together as alone");
    assert.equal(new Set(alone.map(String)).size, 3, "each says something else");
    const openai = new OpenAI({ baseURL: `http://${local.orchestrator.address}/v1`, apiKey: "none", maxRetries: 0 });
    const messages = [{ role: "user" as const, content: "Call me" }];
    const said = async (model: string) =>
      (await openai.chat.completions.create({ model, messages, max_tokens: 12, seed: 5 })).choices[0]?.message.content;
    assert.notEqual(await said("all:first"), await said("all:second"));
    await assert.rejects(said("all:third"), OpenAI.NotFoundError);
    await assert.rejects(ask("all:third"), /has no adapter "third": it has first, second/);
  }));
