import { strict as assert } from "node:assert";
import { test } from "node:test";
import { Holders } from "./holders.ts";

test("a tensor goes back when each of its holders has given it back, however they look at it", () => {
  const holders = new Holders();
  const memory = new SharedArrayBuffer(64);
  const floats = { data: new Float32Array(memory, 32, 4) };
  const bytes = { data: new Uint8Array(memory, 32, 16) };
  const neighbour = { data: new Float32Array(memory, 0, 4) };
  holders.add(floats.data);
  holders.add(bytes.data);
  assert.deepEqual(holders.last([floats, neighbour]), [neighbour], "two others hold it");
  assert.deepEqual(holders.last([bytes]), []);
  assert.deepEqual(holders.last([floats]), [floats]);
  assert.deepEqual(holders.last([floats]), [floats], "what has one holder is not counted");
});
