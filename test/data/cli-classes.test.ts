// From a table of flowers to a model that answers with their names: the commands of the documentation, as they stand
// there, against an orchestrator and a PNode.

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { codeBlocks } from "../markdown.ts";
import { TestNetwork } from "./network.ts";

const pages = join(import.meta.dirname, "..", "..", "docs", "how-to");

/** Flowers of our own: four measures around the middle of each species, drawn by a small congruential generator. */
const middles = {
  versicolor: [6, 2.8, 4.3, 1.3],
  setosa: [5, 3.4, 1.5, 0.2],
  virginica: [6.6, 3, 5.6, 2.1],
};
const classes = Object.keys(middles).sort();

function flowersCsv(each: number): string {
  let state = 1;
  const draw = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647 - 0.5;
  };
  const rows = Array.from({ length: each }, () =>
    Object.entries(middles).map(([name, middle]) =>
      [...middle.map((value) => (value + draw() * 0.4).toFixed(1)), name].join(","),
    ),
  );
  return ["sepal_length,sepal_width,petal_length,petal_width,species", ...rows.flat(), ""].join("\n");
}

interface Shown {
  readonly dataset: { readonly hash: string };
  readonly classes?: readonly string[];
  readonly samples: readonly { readonly fields: Record<string, number[]> }[];
}

let net: TestNetwork;
before(async () => {
  net = await TestNetwork.start(1);
  writeFileSync(net.path("iris.csv"), flowersCsv(50));
});
after(() => net.stop());

/** The words of each documented command; files lie in the network's folder. */
function commandsOf(page: string, pattern: RegExp): string[][] {
  const lines = codeBlocks(join(pages, page)).flatMap(({ code }) => code.split("\n"));
  const found = lines.filter((line) => line.startsWith("npx dcnr ") && pattern.test(line));
  assert.ok(found.length > 0, `${page} shows such a command`);
  return found.map((line) =>
    (line.replace(/ +#.*$/, "").match(/'[^']*'|\S+/g) ?? [])
      .slice(2)
      .map((word) => word.replaceAll("'", ""))
      .map((word) => (/\.(csv|yaml|parquet)$/.test(word) ? net.path(word) : word)),
  );
}

describe("a table with names for labels", () => {
  it("is added as the documentation shows, and tells its classes", async () => {
    const [add = []] = commandsOf("bring-data.md", /iris\.csv/);
    assert.match(await net.dcnr(...add), /150 samples[^\n]*\n3 classes: setosa, versicolor, virginica\n/);
    const shown = await net.dcnr("dataset", "show", "flowers", "--count", "3");
    assert.match(shown, /^3 classes: setosa, versicolor, virginica$/m);
    assert.deepEqual(
      [...shown.matchAll(/labels int32 \[\]: (\d) \((\w+)\)/g)].map(([, number, name]) => [
        classes[Number(number)],
        name,
      ]),
      Object.keys(middles).map((name) => [name, name]),
    );
    // The same table again, from elsewhere, is the same dataset: other content would be refused.
    const again = await net.run(["dataset", "add", "flowers", "-", "--format", "csv", "--json"], flowersCsv(50));
    assert.equal(again.code, 0, again.error);
    const { dataset } = await net.json<Shown>("dataset", "show", "flowers");
    assert.equal((JSON.parse(again.out) as { hash: string }).hash, dataset.hash);
  });

  it("and folders of images and Parquet files are added as the documentation shows", async () => {
    const files = join(import.meta.dirname, "..", "..", "src", "data", "fixtures", "files");
    for (const [kind, name] of Object.entries({ cat: "colour.png", dog: "half.jpg" })) {
      mkdirSync(net.path(`photos/${kind}`), { recursive: true });
      copyFileSync(join(files, name), net.path(`photos/${kind}/${name}`));
    }
    copyFileSync(join(files, "snappy.parquet"), net.path("flowers.parquet"));
    const [pets = []] = commandsOf("bring-data.md", / photos /);
    const inFolder = pets.map((word) => (word === "photos" ? net.path(word) : word));
    assert.match(await net.dcnr(...inFolder), /2 samples[^\n]*\n2 classes: cat, dog\n/);
    const [measures = []] = commandsOf("bring-data.md", /\.parquet/);
    assert.match(await net.dcnr(...measures), /50 samples[^\n]*\n3 classes: setosa, versicolor, virginica\n/);
  });

  it("trains the documented network, which answers with names", async () => {
    const [definition] = codeBlocks(join(pages, "define-a-network.md")).filter(
      ({ info }) => info.split(" ")[0] === "yaml",
    );
    writeFileSync(net.path("tiny.yaml"), definition?.code ?? "");
    let session = "";
    for (const words of commandsOf("define-a-network.md", / (network|dataset|train|serve) /)) {
      const filled = words.map((word) => (word === "SESSION" ? session : word));
      if (words[0] === "train") session = (await net.json<{ id: string }>(...filled)).id;
      else await net.dcnr(...filled);
    }
    assert.deepEqual((await net.json<Shown>("dataset", "show", "flowers-split")).classes, classes);
    const [infer = []] = commandsOf("define-a-network.md", / infer /);
    const answer = async (...words: string[]) =>
      (JSON.parse(await net.dcnr(...words)) as { logits: { classes?: string[] } }).logits.classes;
    assert.deepEqual(await answer(...infer), ["setosa"]);
    const one = JSON.stringify(Object.values(middles));
    assert.deepEqual(await answer("infer", "flowers", "--inputs", one), Object.keys(middles));
  });

  it("is refused by its line when its labels are not all of one kind", async () => {
    const damaged = flowersCsv(2).replace("setosa", "7");
    assert.match(
      await net.refusal(["dataset", "add", "x", "-", "--format", "csv"], damaged),
      /line 3 of standard input: the label 7 is no text like those of other rows/,
    );
  });
});
