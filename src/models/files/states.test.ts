import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { compileText } from "../../network/compile.ts";
import { readStateManifest } from "../../states/manifest.ts";
import { StateReader } from "../../states/reader.ts";
import { openMemoryBlobs } from "../../store/memory.ts";
import { importHuggingFace } from "./huggingface.ts";
import { storeStates } from "./states.ts";

test("an imported model becomes one state for each VNode, which holds its weights", async () => {
  const blobs = openMemoryBlobs().states;
  const model = await importHuggingFace(fileURLToPath(new URL("../fixtures/qwen2", import.meta.url)));
  const seen: number[] = [];
  const states = await storeStates(model, { blobs, onProgress: ({ vnodes }) => seen.push(vnodes) });
  const plan = compileText(model.definition);
  assert.deepEqual(
    [...states.keys()],
    plan.vnodes.map((vnode) => vnode.id),
  );
  assert.equal(seen.at(-1), plan.vnodes.length);
  for (const vnode of plan.vnodes) {
    const { hash, bytes } = states.get(vnode.id)!;
    const manifest = readStateManifest(await blobs.get(hash), "the state");
    assert.equal(manifest.bytes, bytes);
    assert.deepEqual(manifest.metadata, { vnode: vnode.id, step: "0" });
    assert.deepEqual(
      manifest.tensors.map(({ name, shape }) => ({ name, shape })),
      vnode.parameters.map(({ name, shape }) => ({ name, shape })),
    );
    const fetchPart = async (part: typeof hash, into: Uint8Array) => into.set(await blobs.get(part));
    const reader = new StateReader({ manifest, fetchPart, clock: { monotonicMs: () => 0 }, what: "the state" });
    const weights = await reader.read(vnode.parameters);
    for (const { name } of vnode.parameters) assert.deepEqual(weights.get(name)!.data, (await model.load(name)).data);
  }
});
