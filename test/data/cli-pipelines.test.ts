// Data pipelines as people run them: against an orchestrator and a PNode, killed in the middle, and through models that are served.

import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { TestNetwork } from "./network.ts";

const root = join(import.meta.dirname, "..", "..");

let net: TestNetwork;
before(async () => {
  net = await TestNetwork.start(1);
  for (const folder of ["pipelines", "jobs"])
    cpSync(join(root, "examples", folder), net.path(folder), { recursive: true });
});
after(() => net.stop());

interface Saved {
  readonly name: string;
  readonly hash: string;
  readonly samples: string;
}
interface Descent {
  readonly dataset: string;
  readonly steps: readonly { readonly name: string; readonly operation: string; readonly records: number }[];
  readonly parents: readonly Descent[];
}

describe("data pipelines on the command line", { concurrency: 1 }, () => {
  it("the example makes datasets with splits, whose lineage goes back to the files", async () => {
    await net.dcnr("vocab", "train", "small", net.path("pipelines/notes.txt"), "--size", "300");
    assert.match(await net.dcnr("data", net.path("pipelines/corpus.yaml"), "--check"), /packed +pack +tokens/);
    const made = await net.json<Saved[]>("data", net.path("pipelines/corpus.yaml"));
    assert.deepEqual(
      made.map(({ name }) => name),
      ["corpus", "corpus-tokens"],
    );
    assert.equal(Number(made[0]?.samples), 50, "ten pages and forty notes: one was a near copy, one short, one German");
    assert.deepEqual(await net.json("data", net.path("pipelines/corpus.yaml")), made);
    const descent = await net.json<Descent>("dataset", "show", "corpus-tokens", "--lineage");
    const operations = descent.steps.map(({ operation }) => operation);
    assert.deepEqual(operations.slice(-2), ["tokenise", "pack"]);
    assert.ok(operations.includes("files") && operations.includes("deduplicate"));
    assert.match(await net.dcnr("dataset", "show", "corpus-tokens", "--lineage"), /pages: files .*pages\.jsonl/);
  });

  it("as a job it waits its turn, says for whom it stands still, and a worker beside the files makes the same datasets", async () => {
    const undisturbed = await net.json<Saved[]>("data", net.path("pipelines/corpus.yaml"));
    const [job] = await net.json<{ id: string }[]>("job", "submit", net.path("jobs/corpus.yaml"));
    const shown = () =>
      net.json<{ status: string; reason: string; result: Record<string, string> }>("job", "show", job?.id ?? "");
    while ((await shown()).status === "pending") await sleep(200);
    assert.match((await shown()).reason, /dcnr data work/);
    await net.dcnr("data", "work", "--once", "--from", net.path("pipelines"), "--dir", net.path("work-job"));
    while ((await shown()).status === "running") await sleep(200);
    const { status, result } = await shown();
    assert.equal(status, "done");
    assert.deepEqual(result, Object.fromEntries(undisturbed.map(({ name, hash }) => [name, hash])));
    assert.match(await net.dcnr("data", "work", "--once"), /^$/);
  });

  it("a dataset that was made of others leads on to theirs", async () => {
    await net.dcnr("dataset", "split", "corpus", "corpus-again", "--by", "tail");
    const pipeline = { steps: { c: { dataset: "corpus-again" }, s: { from: "c", shuffle: {} } }, save: { drawn: "s" } };
    writeFileSync(net.path("drawn.yaml"), JSON.stringify(pipeline));
    await net.dcnr("data", net.path("drawn.yaml"));
    const { parents } = await net.json<Descent>("dataset", "show", "drawn", "--lineage");
    assert.equal(parents[0]?.dataset, "corpus-again");
    assert.equal(parents[0]?.parents[0]?.dataset, "corpus");
  });

  it("killed again and again it makes the dataset that it makes undisturbed, in little memory", async () => {
    const word = (i: number) => ["sea", "whale", "boat", "storm", "harbour", "sail"][i % 6] as string;
    const line = (i: number) =>
      JSON.stringify({
        text: Array.from({ length: 60 }, (_, k) => `${word(i * k + k)}${(i * 31 + k) % 97}`).join(" "),
        i,
      });
    writeFileSync(net.path("big.jsonl"), Array.from({ length: 10_000 }, (_, i) => `${line(i)}\n`).join(""));
    const steps = {
      big: { files: "big.jsonl" },
      kept: { from: "big", filter: "int(i) % 10 != 3" },
      once: { from: "kept", deduplicate: "exact" },
      drawn: { from: "once", shuffle: { seed: 1 } },
      parts: { from: "drawn", split: { parts: { train: 0.9, validation: 0.1 } } },
    };
    const file = (save: string) => {
      writeFileSync(net.path(`${save}.yaml`), JSON.stringify({ steps, save: { [save]: "parts" } }));
      return ["data", net.path(`${save}.yaml`), "--json", "--dir", net.path(`work-${save}`)];
    };
    const calm = await net.run(file("calm"));
    assert.equal(calm.code, 0, calm.error);
    assert.ok(calm.residentBytesMax < 500e6, `${calm.residentBytesMax} bytes`);
    const words = file("troubled");
    const work = net.path("work-troubled");
    const kept = () => (existsSync(work) ? readdirSync(work, { recursive: true }).length : 0);
    let kills = 0;
    for (;;) {
      const before = kept();
      const { child, ended } = net.spawn(words);
      const running = ended.finally(() => clearInterval(watch));
      // As soon as it has something on disk that it had not before, on a machine of any speed; the fifth comes to its end.
      const watch = setInterval(() => {
        if (kills < 4 && kept() > before) child.kill("SIGKILL");
      }, 2);
      const { code, out, error } = await running;
      if (code === 0) {
        assert.equal((JSON.parse(out) as Saved[])[0]?.hash, (JSON.parse(calm.out) as Saved[])[0]?.hash);
        break;
      }
      assert.equal(code, null, error);
      kills++;
    }
    assert.ok(kills > 1, `${kills} kills`);
  });

  it("rows go through a served model, once each", async () => {
    writeFileSync(
      net.path("gpt.yaml"),
      readFileSync(join(root, "examples", "gpt-demo.yaml"), "utf8").replaceAll("vocab_size: 512", "vocab_size: 300"),
    );
    await net.dcnr("network", "create", net.path("gpt.yaml"));
    const settings = ["--dataset", "corpus-long", "--split", "all", "--steps", "1", "--batch", "2"];
    const steps = { n: { files: { paths: "pipelines/notes.txt" } }, t: { from: "n", tokenise: "small" } };
    writeFileSync(net.path("long.yaml"), JSON.stringify({ steps, save: { "corpus-long": "t" } }));
    await net.dcnr("data", net.path("long.yaml"));
    assert.match(await net.refusal(["data", net.path("pipelines/label.yaml")]), /the model gpt-demo is not served/);
    const { id } = await net.json<{ id: string }>("train", "gpt-demo", ...settings);
    await net.dcnr("serve", id);
    await net.dcnr("data", net.path("pipelines/label.yaml"));
    const written = () => readFileSync(net.path("pipelines/judged.jsonl"), "utf8");
    const rows = written()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { next: string; likely: number });
    assert.equal(rows.length, 40);
    assert.ok(rows.every(({ next, likely }) => typeof next === "string" && likely < 0 && likely > -10));
    const before = written();
    await net.dcnr("data", net.path("pipelines/label.yaml"), "--fresh");
    assert.equal(written(), before, "asked again, it says the same");
  });

  it("a job asks the same model about a dataset, and answers with a dataset", async () => {
    const steps = { notes: { files: { paths: "pipelines/notes.txt", documents: "lines" } } };
    writeFileSync(net.path("notes.yaml"), JSON.stringify({ steps, save: { notes: "notes" } }));
    await net.dcnr("data", net.path("notes.yaml"));
    await net.dcnr("job", "submit", net.path("jobs/continue.yaml"), "--watch");
    const said = await net.json<{ samples: { text: string }[] }>("dataset", "show", "continued", "--count", "100");
    const rows = readFileSync(net.path("pipelines/judged.jsonl"), "utf8").trimEnd().split("\n");
    assert.deepEqual(
      said.samples.map(({ text }) => text),
      rows.map((line) => (JSON.parse(line) as { next: string }).next),
    );
    const { steps: made, parents } = await net.json<Descent>("dataset", "show", "continued", "--lineage");
    assert.equal(made.at(-1)?.operation, "map");
    assert.equal(parents[0]?.dataset, "notes");
    const refused = async (change: object) => {
      const map = { dataset: "notes", model: "gpt-demo", save: "x", prompt: "{text}", "max-tokens": 2, ...change };
      writeFileSync(net.path("wrong.yaml"), JSON.stringify({ kind: "map", map }));
      return net.refusal(["job", "submit", net.path("wrong.yaml")]);
    };
    assert.match(await refused({ dataset: "gone" }), /there is no dataset gone/);
    assert.match(await refused({ model: "gone" }), /no model "gone"/);
    assert.match(await refused({ dataset: "corpus-tokens" }), /holds tokens/);
    assert.match(
      await refused({ give: "score", prompt: undefined, "max-tokens": undefined }),
      /`max-tokens` is for|gives text/,
    );
  });

  it("numbers go through a network that takes them", async () => {
    const folder = join(root, "src", "network", "fixtures", "exporters");
    const models = JSON.parse(readFileSync(join(folder, "models.json"), "utf8")) as Record<
      string,
      { inputs: number[]; shape: number[]; outputs: number[] }
    >;
    const { inputs, shape, outputs } = models["regression"] as (typeof models)[string];
    await net.dcnr("network", "import-onnx", join(folder, "regression.onnx"));
    await net.dcnr("serve", "regression");
    const [count = 0, width = 0] = shape;
    const rows = Array.from({ length: count }, (_, i) => ({ inputs: inputs.slice(i * width, (i + 1) * width) }));
    writeFileSync(net.path("numbers.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const steps = {
      n: { files: "numbers.jsonl" },
      o: { from: "n", map: { model: "regression", give: "outputs" } },
      l: { from: "o", map: { model: "regression", give: "label", into: "labels" } },
    };
    writeFileSync(
      net.path("numbers.yaml"),
      JSON.stringify({ steps, save: { labelled: "l" }, write: { "numbers.out": "l" } }),
    );
    await net.dcnr("data", net.path("numbers.yaml"));
    const answered = readFileSync(net.path("numbers.out"), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { outputs: number[]; labels: number });
    const classes = outputs.length / count;
    for (const [i, { outputs: found, labels }] of answered.entries()) {
      const expected = outputs.slice(i * classes, (i + 1) * classes);
      for (const [k, value] of expected.entries()) assert.ok(Math.abs(value - (found[k] as number)) < 1e-4);
      assert.equal(labels, expected.indexOf(Math.max(...expected)));
    }
    assert.match(await net.dcnr("dataset", "show", "labelled"), /labels int32/);
  });
});
