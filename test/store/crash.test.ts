// What a store has acknowledged must survive the death of its process at any moment.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { conformanceWorld as world } from "../../src/store/records/conformance.ts";
import { openSqliteStore } from "../../src/store/records/sqlite.ts";

it("an SQLite store has all that it acknowledged, and no more than was asked, after kill -9", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-crash-"));
  const path = join(folder, "store.db");
  const acknowledged: string[] = [];
  // Another number of writes at each death, so that it meets other moments, checkpoints of the log among them.
  for (const [round, writes] of [5, 40, 177, 301].entries()) {
    const script = join(import.meta.dirname, "crash-process.ts");
    const child = spawn(process.execPath, [script, path, String(round)], { stdio: ["ignore", "pipe", "inherit"] });
    let seen = 0;
    for await (const key of createInterface({ input: child.stdout })) {
      acknowledged.push(key);
      if (++seen === writes) child.kill("SIGKILL");
    }
    if (child.signalCode === null) await once(child, "exit");
    assert.equal(child.signalCode, "SIGKILL");
  }
  const store = await openSqliteStore({ path, world });
  const stored = new Set<string>();
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await store.list("round/", after === "" ? {} : { after });
    for (const { key, value, version } of page.items) {
      assert.deepEqual([value.length, version], [3000, 1]);
      stored.add(key);
    }
    after = page.next;
  }
  for (const key of acknowledged) assert.ok(stored.has(key), `${key} was acknowledged`);
  assert.ok(stored.size - acknowledged.length <= 4 * 3 * 2, "at most what was under way at each death came on top");
  await store.close();
  rmSync(folder, { recursive: true });
});
