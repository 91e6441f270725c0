import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { compileText } from "../network/compile.ts";
import { openMemoryBlobs } from "../store/memory.ts";
import { readCheckpoint } from "../vnode/checkpoint.ts";
import { importHuggingFace } from "./huggingface.ts";
import { openWeights } from "./safetensors.ts";
import { storeStates } from "./states.ts";

test("an imported model becomes one state for each VNode, which hold its weights and can be read by anyone", async () => {
  const blobs = openMemoryBlobs();
  const model = await importHuggingFace(fileURLToPath(new URL("./fixtures/qwen2", import.meta.url)));
  const seen: number[] = [];
  const states = await storeStates(model, { blobs, onProgress: ({ vnodes }) => seen.push(vnodes) });
  const plan = compileText(model.definition);
  assert.deepEqual(
    [...states.keys()],
    plan.vnodes.map((vnode) => vnode.id),
  );
  assert.equal(seen.at(-1), plan.vnodes.length);
  const folder = mkdtempSync(join(tmpdir(), "states-"));
  try {
    for (const vnode of plan.vnodes) {
      const { hash, bytes } = states.get(vnode.id)!;
      const content = await blobs.get(hash);
      assert.equal(content.byteLength, bytes);
      const { metadata, tensors } = readCheckpoint(content, "the state");
      assert.deepEqual(metadata, { format: "dcnr-vnode-1", vnode: vnode.id, step: "0" });
      assert.deepEqual(
        [...tensors.keys()],
        vnode.parameters.map((one) => one.name),
      );
      for (const { name } of vnode.parameters) assert.deepEqual(tensors.get(name)!.data, (await model.load(name)).data);
      writeFileSync(join(folder, "model.safetensors"), content);
      const again = await openWeights(folder);
      for (const { name } of vnode.parameters) assert.deepEqual(await again.load(name), await model.load(name));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
