import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { KeyId, PNodeId } from "../../core/ids.ts";
import { formatRelayed, joinRoutes, parseRoute, routesMax, splitRoutes } from "./routes.ts";

const key = "a".repeat(52) as KeyId;
const pnode = "b".repeat(52) as PNodeId;
const relayed = { target: pnode, address: "relay.example:7700", relay: key, tensors: true };

describe("Routes", () => {
  it("come back from one string as they went into it", () => {
    const routes = [
      "192.168.1.2:7400",
      "[2001:db8::1]:7400",
      formatRelayed({ ...relayed, address: "[2001:db8::2]:7700" }),
    ];
    assert.deepEqual(splitRoutes(joinRoutes(routes)), routes);
    assert.deepEqual(splitRoutes(joinRoutes([])), []);
  });

  it("say through whom they lead", () => {
    assert.deepEqual(parseRoute("host.example:7400"), { kind: "direct", address: "host.example:7400" });
    for (const tensors of [true, false]) {
      const route = { kind: "relayed" as const, ...relayed, tensors };
      assert.deepEqual(parseRoute(formatRelayed(route)), route);
    }
  });

  it("are refused when they could be mistaken for others, or are too many", () => {
    for (const text of [
      "a:1,b:2",
      `a:1#${key}`,
      "a",
      "a:70000",
      `${pnode}@relay:1`,
      `@relay:1/${key}`,
      `x@y/${key}`,
      "",
    ])
      assert.throws(() => parseRoute(text), { code: "invalid_argument" }, text);
    assert.throws(() => joinRoutes(Array(routesMax + 1).fill("a:1")), { code: "invalid_argument" });
  });
});
