import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fail } from "../../core/errors.ts";
import { readPooling } from "./pooling-files.ts";
import { pullModel } from "./pull.ts";

const scratch = mkdtempSync(join(tmpdir(), "pull-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

/** A hub that has these files, and counts what it sends. */
function hubWith(files: Readonly<Record<string, string>>, tag = "") {
  const sent: string[] = [];
  return {
    sent,
    hub: "https://hub.example",
    revision: "main",
    fetch: async (url: string) => {
      const file = url.replace("https://hub.example/owner/small/resolve/main/", "");
      const content = files[file] ?? fail("not_found", `${url} does not exist`);
      async function* body() {
        sent.push(file);
        yield Buffer.from(content.slice(0, 3));
        yield Buffer.from(content.slice(3));
      }
      return { bytes: Buffer.byteLength(content), tag, body: body() };
    },
  };
}

describe("pulling a model", () => {
  const index = JSON.stringify({ weight_map: { a: "model-2.safetensors", b: "model-1.safetensors" } });
  const files = { "config.json": "{}", "tokenizer.json": "{ }", "model.safetensors.index.json": index };

  it("fetches what import reads, every shard included, and a second time no shard again", async () => {
    const folder = join(scratch, "whole");
    const hub = hubWith({ ...files, "model-1.safetensors": "first", "model-2.safetensors": "second" });
    const names = await pullModel("owner/small", folder, hub);
    assert.deepEqual(readdirSync(folder).sort(), [".pulled.json", ...names].sort());
    assert.equal(readFileSync(join(folder, "model-2.safetensors"), "utf8"), "second");
    assert.equal(names.length, 5);
    await pullModel("owner/small", folder, { ...hub, onProgress: ({ file }) => assert.fail(`${file} came again`) });
  });

  it("fetches what is as long as before and not the same", async () => {
    const folder = join(scratch, "revisions");
    const old = { "config.json": "{}", "model.safetensors": "weights of step 1" };
    await pullModel("owner/small", folder, hubWith(old, "1"));
    await pullModel("owner/small", folder, hubWith({ ...old, "model.safetensors": "weights of step 2" }, "2"));
    assert.equal(readFileSync(join(folder, "model.safetensors"), "utf8"), "weights of step 2");
  });

  it("fetches what says how texts become vectors", async () => {
    const folder = join(scratch, "vectors");
    const modules = [{ type: "sentence_transformers.models.Pooling", path: "1_Pooling" }];
    const told = {
      "modules.json": JSON.stringify(modules),
      "1_Pooling/config.json": '{"pooling_mode_lasttoken": true}',
    };
    await pullModel("owner/small", folder, hubWith({ "config.json": "{}", "model.safetensors": "weights", ...told }));
    assert.equal(await readPooling(folder), "last");
  });

  it("says what is missing: the model, its safetensors files, a shard", async () => {
    const at = (name: string) => join(scratch, name);
    await assert.rejects(pullModel("owner/small", at("none"), hubWith({})), /has no model "owner\/small"/);
    const bare = hubWith({ "config.json": "{}" });
    await assert.rejects(pullModel("owner/small", at("bare"), bare), /no model.safetensors: only models with/);
    await assert.rejects(pullModel("owner/small", at("shard"), hubWith(files)), /no model-1.safetensors/);
  });

  it("refuses names that lead elsewhere, and a hub that names files outside of the folder", async () => {
    for (const name of ["../etc", "a/b/c", "https://x", ""])
      await assert.rejects(pullModel(name, join(scratch, "bad"), hubWith(files)), /is no name of a model/);
    const sly = hubWith({
      ...files,
      "model.safetensors.index.json": JSON.stringify({ weight_map: { a: "../x.safetensors" } }),
    });
    await assert.rejects(pullModel("owner/small", join(scratch, "sly"), sly), { code: "permission_denied" });
  });

  it("leaves no half file behind when the hub stops in the middle", async () => {
    const folder = join(scratch, "half");
    const hub = hubWith({ "config.json": "{}", "model.safetensors": "weights" });
    const fetch = async (url: string) => {
      const answer = await hub.fetch(url);
      return url.endsWith("model.safetensors") ? { ...answer, bytes: 1_000 } : answer;
    };
    await assert.rejects(pullModel("owner/small", folder, { ...hub, fetch }), /ended after 7 of 1000 bytes/);
    assert.deepEqual(readdirSync(folder).sort(), [".pulled.json", "config.json"]);
  });
});
