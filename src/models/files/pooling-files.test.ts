import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readPooling } from "./pooling-files.ts";

const scratch = mkdtempSync(join(tmpdir(), "pooling-"));
after(() => rmSync(scratch, { recursive: true, force: true }));
let count = 0;

function folderWith(files: Readonly<Record<string, unknown>>): string {
  const folder = join(scratch, String(count++));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), typeof content === "string" ? content : JSON.stringify(content));
  }
  return folder;
}

const modules = [
  { idx: 0, name: "0", path: "", type: "sentence_transformers.models.Transformer" },
  { idx: 1, name: "1", path: "1_Pooling", type: "sentence_transformers.models.Pooling" },
  { idx: 2, name: "2", path: "2_Normalize", type: "sentence_transformers.models.Normalize" },
];
const pooled = (config: object) => folderWith({ "modules.json": modules, "1_Pooling/config.json": config });

test("a folder of sentence-transformers says which hidden states stand for a text", async () => {
  assert.equal(await readPooling(folderWith({ "config.json": {} })), undefined);
  const flags = { word_embedding_dimension: 8, pooling_mode_cls_token: false, pooling_mode_mean_tokens: true };
  assert.equal(await readPooling(pooled(flags)), "mean");
  const last = { ...flags, pooling_mode_mean_tokens: false, pooling_mode_lasttoken: true };
  assert.equal(await readPooling(pooled(last)), "last");
  assert.equal(await readPooling(pooled({ pooling_mode: "lasttoken" })), "last");
});

test("what would give other vectors than the model's own is refused by name", async () => {
  await assert.rejects(readPooling(pooled({ pooling_mode_cls_token: true })), /pooling_mode_cls_token/);
  const two = { pooling_mode_mean_tokens: true, pooling_mode_lasttoken: true };
  await assert.rejects(readPooling(pooled(two)), /pooling_mode_mean_tokens and pooling_mode_lasttoken/);
  await assert.rejects(readPooling(pooled({})), /no pooling/);
  const dense = [...modules, { path: "3_Dense", type: "sentence_transformers.models.Dense" }];
  const all = { "modules.json": dense, "1_Pooling/config.json": { pooling_mode: "mean" } };
  await assert.rejects(readPooling(folderWith(all)), /models\.Dense/);
  await assert.rejects(readPooling(folderWith({ "modules.json": modules })), /there is no 1_Pooling\/config\.json/);
  await assert.rejects(readPooling(folderWith({ "modules.json": "{" })), /no JSON/);
  const outside = [{ path: "../1_Pooling", type: "Pooling" }];
  await assert.rejects(readPooling(folderWith({ "modules.json": outside })), /names a folder/);
});
