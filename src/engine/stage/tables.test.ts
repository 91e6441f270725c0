// Tables outside of memory against the same units with their tables in memory: the same bits, row by row.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../../core/errors.ts";
import { fillNormal, randomKey } from "../../core/numbers/random.ts";
import { bytesOf, float32, type Tensor } from "../../core/tensor.ts";
import type { WeightBits } from "../../graph/quantise.ts";
import { anyRows } from "../../graph/rows.ts";
import type { UnitPlan } from "../../graph/unit.ts";
import { openReferenceEngine } from "../reference.ts";
import { Stages } from "./stage.ts";
import type { OpenTable } from "./tables.ts";

/** Large enough for a file, also in four bits. */
const [rows, width] = [2_048, 1_024];

function unit(readsTwice = false): UnitPlan {
  const table = { name: "table", dtype: "float32" as const, shape: [rows, width] };
  const ids = { name: "ids", dtype: "int32" as const, shape: [anyRows, 1] };
  const value = (name: string) => ({ name, dtype: "float32" as const, shape: [anyRows, 1, width] });
  const gather = { op: "Gather", name: "rows", inputs: ["table", "ids"], outputs: ["found"], attributes: {} };
  const nodes = [
    gather,
    { op: "Add", name: "twice", inputs: ["found", "found"], outputs: ["sum"], attributes: {} },
    ...(readsTwice ? [{ ...gather, name: "again", outputs: ["other"] }] : []),
  ];
  const outputs = [value("found"), value("sum"), ...(readsTwice ? [value("other")] : [])];
  const graph = { name: "looks up", inputs: [table, ids], outputs, nodes, constants: {} };
  return {
    ...{ name: "u", inputs: [ids], outputs },
    steps: [{ kind: "graph", graph, weights: ["table"], rows: "all" }],
  };
}

function weights(): { table: Tensor } {
  const data = new Float32Array(rows * width);
  fillNormal(data, randomKey("table", "weights"), 1);
  return { table: float32([rows, width], data) };
}

/** A disk that is none. */
function remembered() {
  const files: { bytes: Uint8Array; isOpen: boolean }[] = [];
  const open: OpenTable = (bytes, content) => {
    const places = new Set<ArrayBufferLike>();
    const chunks = Array.from(content, (chunk) => {
      places.add(chunk.buffer);
      return chunk.slice();
    });
    assert.equal(places.size, 1, "a table of any size takes the memory of one chunk");
    const file = { bytes: Buffer.concat(chunks) as Uint8Array, isOpen: true };
    assert.equal(file.bytes.length, bytes);
    files.push(file);
    return {
      read: (from, into) => into.set(file.bytes.subarray(from, from + into.length)),
      close: () => {
        file.isOpen = false;
      },
    };
  };
  return { files, open };
}

async function found(stages: Stages, ids: readonly number[]): Promise<Uint8Array[]> {
  const wanted = ["found", "sum"].map((output) => ({ unit: "u", output }));
  const pass = {
    ...{ units: ["u"], edges: [], wanted, selected: [], hidden: [] },
    entries: [{ request: "r", position: 0, tokens: ids.length }],
  };
  const tensors = await stages.run(pass, [{ unit: "u", input: "ids", data: Int32Array.from(ids) }]);
  stages.drop("u", "all");
  return tensors.map(bytesOf);
}

for (const bits of [undefined, 8, 4] as const)
  test(`a table of ${bits ?? 32} bits in a file gives the rows that it would give in memory`, async () => {
    const [near, far] = [new Stages(openReferenceEngine()), remembered()];
    const stages = new Stages(openReferenceEngine(), far.open);
    for (const each of [near, stages]) await each.load(unit(), "u", weights(), bits as WeightBits | undefined);
    assert.equal(far.files.length, 1);
    for (const ids of [[0], [rows - 1, 17, 17, 3], Array.from({ length: 33 }, (_, i) => (i * 997) % rows)])
      assert.deepEqual(await found(stages, ids), await found(near, ids));
    await assert.rejects(found(stages, [rows]), (error) => hasCode(error, "out_of_range"));
    await assert.rejects(found(stages, [-1]), (error) => hasCode(error, "out_of_range"));
    await stages.unload("u");
    assert.equal(far.files[0]?.isOpen, false);
  });

test("a table that two nodes read, or for which there is no room, stays in memory", async () => {
  const far = remembered();
  const shared = new Stages(openReferenceEngine(), far.open);
  await shared.load(unit(true), "u", weights());
  assert.equal(far.files.length, 0);
  const full = new Stages(openReferenceEngine(), () => undefined);
  await full.load(unit(), "u", weights());
  assert.deepEqual(await found(full, [5, 6]), await found(shared, [5, 6]));
});
