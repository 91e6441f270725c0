import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LogFields, World } from "../../core/world.ts";
import { uncounted } from "../../protocol/network.ts";
import { realWorld } from "../../system/world.ts";
import { monitorPNode } from "./pnode.ts";

describe("monitoring of a PNode", () => {
  const lines: { message: string; fields: LogFields | undefined }[] = [];
  const world: World = { ...realWorld(), log: (_level, message, fields) => lines.push({ message, fields }) };
  const { world: own, http, onWork } = monitorPNode(world, "p1", "maple", undefined);
  const get = async (path: string) => http(new Request(`http://pnode${path}`), "here", uncounted);

  test("puts the PNode's id on every log line, beside what the line says itself", () => {
    own.log("info", "hosting", { session: "s", vnode: "a", step: 3 });
    assert.deepEqual(lines, [{ message: "hosting", fields: { pnode: "p1", session: "s", vnode: "a", step: 3 } }]);
  });

  test("counts log lines and work", async () => {
    onWork({ kind: "forward", session: "s", vnode: "a", step: 3, startWallMs: 0, durationMs: 4 });
    const text = await (await get("/metrics"))?.text();
    assert.match(text ?? "", /^dcnr_log_lines_total\{level="info"\} 1$/m);
    assert.match(text ?? "", /^dcnr_vnode_work_seconds_bucket\{kind="forward",le="0.005"\} 1$/m);
  });

  test("is alive before it is ready", async () => {
    assert.equal((await get("/healthz"))?.status, 200);
    const ready = await get("/readyz");
    assert.equal(ready?.status, 503);
    assert.equal(await ready?.text(), "starting\n");
  });

  test("leaves other paths and methods to others", async () => {
    assert.equal(await get("/"), undefined);
    assert.equal(await http(new Request("http://pnode/metrics", { method: "POST" }), "here", uncounted), undefined);
  });
});
