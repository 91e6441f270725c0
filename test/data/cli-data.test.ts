// From files to models that answer, and back to files: the data and model commands as people type them, against an
// orchestrator and two PNodes.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { readFixture, writeFixture } from "../../src/models/fixtures.testing.ts";
import { TestNetwork } from "./network.ts";

const source = join(import.meta.dirname, "..", "..", "src");
const llama = join(source, "models", "fixtures", "llama");

interface SessionJson {
  readonly id: string;
  readonly status: string;
  readonly loss: number;
  readonly stepRoot: string;
}
interface Validated {
  readonly loss: number;
  readonly accuracy: number;
  readonly samples: number;
}
type Outputs = Record<string, { readonly shape: number[]; readonly values: number[] }>;

let net: TestNetwork;
before(async () => {
  net = await TestNetwork.start(2);
});
after(() => net.stop());

function furthest(a: readonly number[], b: readonly number[]): number {
  assert.equal(a.length, b.length);
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - (b[i] as number))), 0);
}

/** Stories run side by side, the steps of each one after another. */
const alone = { concurrency: 1 };

describe("data and models on the command line", { concurrency: 3 }, () => {
  describe("from a text to a model that answers", alone, () => {
    it("a file is cut into tokens, a network learns them, and continues a prompt", async () => {
      const text = Array.from({ length: 800 }, (_, i) => `The whale number ${i} swims in the sea of words.\n`).join("");
      writeFileSync(net.path("text.txt"), text);
      writeFileSync(
        net.path("gpt.yaml"),
        readFileSync(join(source, "..", "examples", "gpt-demo.yaml"), "utf8")
          .replace("name: gpt-demo", "name: gpt")
          .replaceAll("vocab_size: 512", "vocab_size: 300"),
      );
      await Promise.all([
        net
          .dcnr("dataset", "add", "text", net.path("text.txt"))
          .then(() => net.dcnr("dataset", "split", "text", "parts")),
        net.dcnr("vocab", "train", "small", net.path("text.txt"), "--size", "300"),
        net.dcnr("network", "create", net.path("gpt.yaml")),
      ]);
      await net.dcnr("dataset", "tokenize", "parts", "tokens", "--vocab", "small");
      const settings = ["gpt", "--dataset", "tokens", "--steps", "4", "--batch", "4", "--validate-every", "4"];
      const created = await net.json<SessionJson>("session", "create", ...settings);
      assert.equal(created.status, "created");
      assert.match(await net.refusal(["dataset", "remove", "tokens"]), /in use by session/);
      const done = await net.json<SessionJson>("session", "start", created.id);
      assert.equal(done.status, "done");
      assert.equal((await net.json<SessionJson>("session", "listen", created.id)).stepRoot, done.stepRoot);
      await net.dcnr("serve", created.id);
      const question = ["The whale", "--max-tokens", "4", "--temperature", "0"];
      const answer = await net.json<{ text: string }>("infer", "gpt", ...question);
      assert.ok(answer.text.length > 0);
      await net.dcnr("model", "export", created.id, net.path("gpt"), "--format", "dcnr");
      await net.dcnr("model", "import", net.path("gpt"), "--name", "gpt-back");
      await net.dcnr("serve", "gpt-back");
      assert.deepEqual(await net.json("infer", "gpt-back", ...question), answer);
      const exported = await net.json<{ family: string }>("model", "export", created.id, net.path("gpt-llama"));
      assert.equal(exported.family, "llama");
      await net.dcnr("model", "import", net.path("gpt-llama"), "--name", "gpt-llama");
      await net.dcnr("serve", "gpt-llama");
      assert.deepEqual(await net.json("infer", "gpt-llama", ...question), answer);
    });

    it("a vocabulary can be looked at, taken away as a file, and brought back", async () => {
      const shown = await net.json<{ pieces: { text: string }[] }>("vocab", "show", "small", "The whale swims");
      assert.equal(shown.pieces.map((piece) => piece.text).join(""), "The whale swims");
      await net.dcnr("vocab", "export", "small", net.path("tokenizer.json"));
      await net.dcnr("vocab", "add", "again", net.path("tokenizer.json"));
      const all = await net.json<{ name: string; hash: string }[]>("vocab", "list");
      assert.equal(new Set(all.map((one) => one.hash)).size, 1);
      await net.dcnr("vocab", "delete", "again");
    });

    it("data or weights that do not fit the network are refused before anything starts", async () => {
      const definition = readFileSync(net.path("gpt.yaml"), "utf8").replaceAll("out_dim: 512", "out_dim: 256");
      writeFileSync(net.path("narrow.yaml"), definition.replace("name: gpt", "name: narrow"));
      writeFileSync(net.path("wide.bin"), Buffer.alloc(4000));
      await Promise.all([
        net.dcnr("network", "create", net.path("narrow.yaml")),
        net.dcnr("dataset", "add", "wide", net.path("wide.bin"), "--format", "tokens", "--vocabulary", "301"),
      ]);
      const refused = (network: string, ...words: string[]) => net.refusal(["train", network, "--dataset", ...words]);
      assert.match(await refused("gpt", "wide", "--split", "all"), /vocabulary of 301.*300/);
      assert.match(await refused("gpt", "text"), /dcnr dataset tokenize/);
      assert.match(
        await refused("narrow", "tokens", "--from", "gpt"),
        /cannot start from gpt: it needs ffn_\w+\.\w+ \[/,
      );
    });

    it("a dataset that goes takes neither the vocabulary nor the trained model's with it", async () => {
      await net.dcnr("dataset", "remove", "tokens");
      assert.match(await net.dcnr("vocab", "export", "small"), /"model"/);
      await net.dcnr("model", "export", "gpt", net.path("without-data"));
      assert.ok(existsSync(net.path("without-data/tokenizer.json")));
    });
  });

  describe("a Hugging Face model", alone, () => {
    const { ids, logits } = JSON.parse(readFileSync(join(llama, "logits.ndjson"), "utf8").split("\n")[0] as string) as {
      ids: number[][];
      logits: number[][][];
    };
    const context = (ids[0] as number[]).length;

    it("is served with Transformers' logits", async () => {
      await net.dcnr("model", "import", llama, "--name", "tiny", "--context", String(context));
      const samples = JSON.stringify({ inputs: ids, labels: ids });
      await net.dcnr("dataset", "add", "prompts", samples, "--inputs-type", "int32", "--labels-type", "int32");
      await net.dcnr("serve", "tiny");
      const found = JSON.parse(
        await net.dcnr("infer", "tiny", "--dataset", "prompts", "--count", String(ids.length)),
      ) as Outputs;
      assert.ok(furthest(found["logits"]?.values ?? [], logits.flat(2)) < 1e-3);
      await net.dcnr("model", "stop", "tiny");
      assert.match(await net.dcnr("model", "list"), /tiny +stopped/);
    });

    it("of each family continues a prompt with Transformers' likeliest token", async () => {
      for (const family of ["llama", "llama-3.1", "qwen2", "gpt2"]) {
        const folder = join(source, "models", "fixtures", family);
        const expected = JSON.parse(readFileSync(join(folder, "logits.ndjson"), "utf8").split("\n")[0] as string);
        await net.dcnr("model", "import", folder, "--name", `my-${family}`);
        await net.dcnr("serve", `my-${family}`);
        const client = net.client();
        const pieces = client.generate(`my-${family}`, expected.ids[0], { maxTokens: 1, temperature: 0 });
        const tokens = (await Array.fromAsync(pieces)).flatMap((piece) => piece.tokens);
        await client.close();
        const last = expected.logits[0].at(-1) as number[];
        assert.deepEqual(tokens, [last.indexOf(Math.max(...last))], family);
        assert.match(await net.refusal(["infer", `my-${family}`, "a text"]), /vocabulary|tokenizer/);
        await net.dcnr("model", "stop", `my-${family}`);
      }
    });

    it("with experts as VNodes, with windows, with ALiBi gives Transformers' greedy tokens across machines", async () => {
      for (const name of ["mixtral", "gemma3", "falcon-alibi"]) {
        const fixture = readFixture(name);
        writeFixture(net.path(name), fixture);
        await net.dcnr("model", "import", net.path(name), "--name", name);
        await net.dcnr("serve", name);
        const client = net.client();
        const pieces = client.generate(name, [...fixture.ids], { maxTokens: 8, temperature: 0 });
        const tokens = (await Array.fromAsync(pieces)).flatMap((piece) => piece.tokens);
        await client.close();
        assert.deepEqual(tokens, fixture.tokens.slice(0, 8), name);
        await net.dcnr("model", "stop", name);
      }
    });

    it("is trained further, exported, imported and cloned without losing a weight", async () => {
      const settings = ["--dataset", "prompts", "--split", "all", "--batch", "2", "--microbatches", "2"];
      const session = await net.json<SessionJson>(
        "train",
        "tiny",
        "--from",
        "tiny",
        ...settings,
        "--steps",
        "6",
        "--rate",
        "0.01",
      );
      assert.equal(session.status, "done");
      const file = net.path("tuned.safetensors");
      await net.dcnr("session", "export", session.id, file);
      await net.dcnr("model", "import", file, "--name", "tuned");
      await net.dcnr("model", "export", "tuned", net.path("tuned"));
      assert.ok(existsSync(net.path("tuned/network.yaml")));
      await net.dcnr("model", "import", net.path("tuned"), "--name", "tuned-again");
      const validate = (name: string) =>
        net.json<Validated>("validate", name, "--dataset", "prompts", "--split", "all", "--batch", "2");
      const before = await validate("tiny");
      const [trained, again] = [await validate(session.id), await validate("tuned-again")];
      assert.equal(trained.samples, ids.length);
      assert.ok(trained.loss < before.loss, `${trained.loss} is below ${before.loss}`);
      assert.equal(again.loss, trained.loss);
      const clone = await net.json<SessionJson>("session", "clone", session.id, "--steps", "1", "--start");
      assert.ok(Math.abs(clone.loss - trained.loss) < 1e-4, "a clone begins where the first one ended");
      assert.match(await net.refusal(["serve", session.id, "--name", "tuned"]), /imported model "tuned"/);
      await net.dcnr("model", "remove", "tuned-again");
      assert.match(await net.refusal(["model", "import", file, "--name", "tuned"]), /there is a model "tuned" already/);
    });
  });

  describe("an ONNX file", alone, () => {
    const fixture = JSON.parse(readFileSync(join(source, "network", "fixtures", "onnx.json"), "utf8"))["images"] as {
      inputs: number[];
      labels: number[];
      outputs: number[];
    };

    it("becomes a network that gives PyTorch's outputs and learns from its weights", async () => {
      await net.dcnr("network", "import-onnx", join(source, "network", "fixtures", "images.onnx"));
      const images = Array.from({ length: 4 }, (_, i) => {
        const rows = fixture.inputs.slice(i * 64, (i + 1) * 64);
        return [Array.from({ length: 8 }, (_, y) => rows.slice(y * 8, (y + 1) * 8))];
      });
      const samples = JSON.stringify({ inputs: images, labels: fixture.labels });
      await net.dcnr("dataset", "add", "images", samples, "--inputs-type", "float32", "--labels-type", "int32");
      await net.dcnr("serve", "images");
      const found = JSON.parse(await net.dcnr("infer", "images", "--dataset", "images", "--count", "4")) as Outputs;
      assert.ok(furthest(found["output"]?.values ?? [], fixture.outputs) < 1e-4);
      const settings = ["--dataset", "images", "--split", "all", "--batch", "4", "--microbatches", "1", "--steps", "8"];
      const session = await net.json<SessionJson>("train", "images", "--from", "images", ...settings, "--rate", "0.01");
      assert.ok(session.loss < 1.6, `the loss of fresh weights, 1.68, falls to ${session.loss}`);
    });

    it("of any kind is served for forward passes, with the names of its classes", async () => {
      const folder = join(source, "network", "fixtures", "exporters");
      const models = JSON.parse(readFileSync(join(folder, "models.json"), "utf8")) as Record<
        string,
        { inputs: number[]; shape: number[]; outputs: number[] }
      >;
      const answer = async (name: string, ...flags: string[]) => {
        const { inputs, shape, outputs } = models[name] as (typeof models)[string];
        await net.dcnr("network", "import-onnx", join(folder, `${name}.onnx`), ...flags);
        await net.dcnr("serve", name);
        const [, width = 0] = shape;
        const rows = Array.from({ length: shape[0] ?? 0 }, (_, i) => inputs.slice(i * width, (i + 1) * width));
        const found = JSON.parse(await net.dcnr("infer", name, "--inputs", JSON.stringify(rows))) as Record<
          string,
          { values: number[]; classes?: string[] }
        >;
        assert.ok(furthest(found["output"]?.values ?? [], outputs) < 1e-4);
        return found["output"]?.classes;
      };
      assert.equal(await answer("tagger", "--fix", "x1=1"), undefined);
      const species = await answer("regression");
      assert.equal(species?.length, 6);
      assert.ok(species.every((name) => ["setosa", "versicolor", "virginica"].includes(name)));
      await net.dcnr("model", "remove", "tagger");
      await net.dcnr("model", "remove", "regression");
    });

    it("with an operator that nobody knows is refused by its name", async () => {
      const file = readFileSync(join(source, "graph", "fixtures", "cnn.onnx"));
      const strange = Buffer.from(file.toString("latin1").replace('"\x04Conv', '"\x04Konv'), "latin1");
      writeFileSync(net.path("strange.onnx"), strange);
      assert.match(await net.refusal(["network", "import-onnx", net.path("strange.onnx")]), /Konv/);
      writeFileSync(net.path("cut.onnx"), file.subarray(0, 200));
      assert.match(await net.refusal(["network", "import-onnx", net.path("cut.onnx")]), /truncated/);
    });
  });
});
