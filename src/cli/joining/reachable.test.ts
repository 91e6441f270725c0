import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { it } from "node:test";
import { isLoopback, isUnspecified, parseAddress } from "../../protocol/routes/address.ts";
import { reachableAddress } from "./reachable.ts";

const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));

it("a server on one interface is reached there", async () => {
  for (const bound of ["127.0.0.1:5", "10.1.2.3:5", "[::1]:5", "lab.example:5"])
    assert.equal(await reachableAddress(bound, "127.0.0.1:7700"), bound);
});

it("a server on all interfaces is reached at an address that this machine has", async () => {
  // Documentation addresses: a route is looked up, nothing is sent.
  for (const bound of ["0.0.0.0:5", "[::]:5"])
    for (const towards of [undefined, "127.0.0.1:7700", "192.0.2.1:7700", "[2001:db8::1]:7700"]) {
      const { host, port } = parseAddress(await reachableAddress(bound, towards));
      assert.equal(port, 5);
      assert.ok(!isUnspecified(host));
      assert.ok(isLoopback(host) || own.includes(host), host);
    }
});

it("all zeros mean nobody, in either family", () => {
  assert.deepEqual(["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::1", "10.0.0.0", "127.0.0.1", "o.test"].map(isUnspecified), [
    true,
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
});
