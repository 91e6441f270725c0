import assert from "node:assert/strict";
import { test } from "node:test";
import { expandedName } from "./ways-in.ts";

test("addresses in numbers and on this machine stand for themselves", async () => {
  const key = "rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa";
  for (const address of [
    "192.168.1.20:7700",
    `192.168.1.20:7700#${key}`,
    "[fd00::1]:7700",
    "127.0.0.1:7700",
    "localhost:7700",
  ])
    assert.deepEqual(await expandedName(address), [address]);
});

test("a name that nobody knows is kept as it was written, with the usual port", async () => {
  assert.deepEqual(await expandedName("nobody.invalid:7800"), ["nobody.invalid:7800"]);
  assert.deepEqual(await expandedName("nobody.invalid"), ["nobody.invalid:7700"]);
});
