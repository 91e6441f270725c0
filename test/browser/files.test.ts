// The dashboard as files: what the package carries is what a clone serves.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { buildDashboard } from "../../web/build.ts";
import { emitDashboard, pageFiles } from "../../web/emit.ts";

test("emitted files are byte for byte those that are built in memory", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-dashboard-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [written, built] = [await emitDashboard(folder), await buildDashboard()];
  assert.equal(written.length, built.size);
  for (const [path, { bytes }] of built)
    assert.deepEqual(new Uint8Array(readFileSync(join(folder, pageFiles[path] ?? path))), bytes);
});
