// A first-time walk of how-tos: blocks marked `sh` run in their order and give what the page says; a block `yaml NAME` is the file
// that the reader writes. In a folder of its own, which has the examples and a small table of flowers.

import assert from "node:assert/strict";
import { symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { codeBlocks } from "../markdown.ts";
import { bringUp, root, run } from "./walk.ts";

const pages = ["define-a-network", "data-pipelines", "give-rights", "jobs", "monitor", "trust"];

/** Three kinds that are easily told apart. */
const flowers = Array.from({ length: 90 }, (_, row) => {
  const [kind, size] = [
    ["setosa", 1],
    ["versicolor", 3],
    ["virginica", 5],
  ][row % 3] as [string, number];
  return `${[0.1, 0.2, 0.3, 0.4].map((part) => (size + part + row / 1_000).toFixed(3)).join(",")},${kind}`;
});

describe("how-tos", () => {
  let folder: string;
  let network: Awaited<ReturnType<typeof bringUp>>;
  const remembered = new Map<string, string>();
  const fill = (text: string) =>
    [...remembered].reduce((filled, [name, value]) => filled.replaceAll(new RegExp(`\\b${name}\\b`, "g"), value), text);

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "dcnr-how-to-"));
    symlinkSync(join(root, "examples"), join(folder, "examples"));
    writeFileSync(join(folder, "iris.csv"), ["a,b,c,d,species", ...flowers].join("\n"));
    network = await bringUp("npx dcnr up --pnodes 1", folder);
  });

  after(async () => {
    await network?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  for (const page of pages)
    for (const [index, block] of codeBlocks(join(root, `docs/how-to/${page}.md`)).entries()) {
      const [kind, name] = block.info.split(" ");
      if (kind === "yaml" && name)
        test(`${page}, ${name} as the page has it`, () => writeFileSync(join(folder, name), block.code));
      if (kind !== "sh") continue;
      test(`${page}, block ${index + 1}: ${block.code.split("\n")[0]}`, async () => {
        let output = "";
        for (const command of block.code.split("\n")) {
          const ran = await run(fill(command), network.environment, folder);
          assert.equal(ran.code, 0, `${fill(command)}\n${ran.output}`);
          output += ran.output;
        }
        if (block.expect === undefined) return;
        const found = new RegExp(fill(block.expect)).exec(output);
        assert.ok(found, `expected ${fill(block.expect)} in:\n${output}`);
        for (const [what, value] of Object.entries(found.groups ?? {})) remembered.set(what, value);
      });
    }
});
