// `dcnr data work` runs pipelines that an orchestrator tells it, with the rights of whoever started it. A false orchestrator, or somebody
// with a copy of that person's API key, must not get at files beside those that the worker was started for, nor overwrite any.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import type { CommandContext } from "../../src/cli/command.ts";
import { lookAhead } from "../../src/cli/content/making.ts";
import type { Client } from "../../src/client/client.ts";
import { readPipeline } from "../../src/pipeline/definition.ts";
import { realWorld } from "../../src/system/world.ts";
import { refused } from "./lab.ts";

const home = mkdtempSync(join(tmpdir(), "dcnr-worker-"));
after(() => rmSync(home, { recursive: true, force: true }));
const corpora = join(home, "corpora");
mkdirSync(corpora);
const secret = join(home, "private.txt");
writeFileSync(secret, "nobody's business\n");
writeFileSync(join(home, "tokenizer.json"), "{}");
writeFileSync(join(corpora, "open.txt"), "for everybody\n");
symlinkSync(secret, join(corpora, "link.txt"));
symlinkSync(home, join(corpora, "out"));

/** What a worker does with a job before it runs anything. */
function told(spec: object, folders: readonly string[] = []) {
  return lookAhead({
    ...{ client: {} as Client, world: realWorld({ logFormat: "none" }), folder: corpora, isForeign: true },
    context: { flags: { texts: () => folders } } as unknown as CommandContext,
    pipeline: readPipeline(spec, "the job"),
    signal: new AbortController().signal,
  });
}

const reading = (paths: string) => ({ steps: { a: { files: paths } }, save: { stolen: "a" } });
const writing = (path: string) => ({ steps: { a: { files: "open.txt" } }, write: { [path]: "a" } });

describe("a worker for data jobs", () => {
  it("reads and writes where it was started", async () => {
    await told(reading("open.txt"));
    await told(reading("o*.txt"));
    await told(writing("rows.jsonl"));
  });

  for (const path of [secret, "../private.txt", "link.txt", "out/private.txt", `file://${secret}`, "../*.txt"])
    it(`reads nothing else: ${path.replace(home, "HOME")}`, () =>
      refused(told(reading(path)), "permission_denied", /outside the folders/));

  it("reads no vocabulary elsewhere", () =>
    refused(
      told({ steps: { a: { files: "open.txt" }, b: { from: "a", tokenise: "../tokenizer.json" } }, save: { s: "b" } }),
      "permission_denied",
      /outside the folders/,
    ));

  it("reads no bucket that was not named, though it may have the keys to it", async () => {
    await refused(told(reading("s3://private/x.txt")), "permission_denied", /no bucket that may be read/);
    const named = told(reading("s3://private-too/x.txt"), ["s3://private/"]);
    await refused(named, "permission_denied", /no bucket that may be read/);
  });

  for (const path of [join(home, "rows.jsonl"), "../rows.jsonl", "out/rows.jsonl"])
    it(`writes nothing else: ${path.replace(home, "HOME")}`, async () => {
      const before = readdirSync(home);
      await refused(told(writing(path)), "permission_denied", /outside the folders/);
      assert.deepEqual(readdirSync(home), before);
    });

  it("does not even tell what others are called", async () => {
    for (const pattern of ["../*.txt", "out/p*.txt", `${home}/*/../*.txt`])
      await assert.rejects(told(reading(pattern)), ({ message }: Error) => !message.includes("private.txt"));
  });

  it("reads what its owner names besides", async () => {
    await told(reading("../private.txt"), [home]);
    await told(reading("../p*.txt"), [home]);
  });
});
