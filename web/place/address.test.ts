import assert from "node:assert/strict";
import { test } from "node:test";
import { formatAddress, parseAddress } from "./address.ts";

test("an address that was made is read again, whatever the item's name is", () => {
  for (const item of ["", "mlp-0123", "a,b", "a/b", "50 %", "<script>", "ü"])
    for (const page of ["", "runs", "sessions"])
      if (page !== "" || item === "") assert.deepEqual(parseAddress(formatAddress({ page, item })), { page, item });
});

test("what a person typed comes to a page, never to an error", () => {
  assert.deepEqual(parseAddress(""), { page: "", item: "" });
  assert.deepEqual(parseAddress("#"), { page: "", item: "" });
  assert.deepEqual(parseAddress("#runs"), { page: "runs", item: "" });
  assert.deepEqual(parseAddress("#/runs/%E0%A4%A"), { page: "runs", item: "%E0%A4%A" });
});

test("compared runs stand in the address as they are called", () => {
  assert.equal(formatAddress({ page: "runs", item: "a,b" }), "#/runs/a,b");
});
