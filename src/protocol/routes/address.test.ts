import assert from "node:assert/strict";
import { test } from "node:test";
import { areOnlyHere } from "./address.ts";

test("addresses that lead others to themselves are told from those that lead here", () => {
  for (const here of ["127.0.0.1:7700", "localhost:7700", "[::1]:7700", "wss://127.0.0.1"])
    assert.equal(areOnlyHere([here]), true, here);
  for (const there of ["192.168.1.20:7700", "lab.example", "wss://lab.example:443"])
    assert.equal(areOnlyHere([there, "127.0.0.1:7700"]), false, there);
});
