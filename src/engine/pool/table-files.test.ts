// Tables on a disk: what was written is read, nothing is left behind, and the owner's limit holds.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { tableFiles } from "./table-files.ts";

const content = [Uint8Array.of(1, 2, 3), Uint8Array.of(4, 5)];

test("a table is read from anywhere, counts while it is open, and has no name that could stay behind", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-tables-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const open = tableFiles({ folder: join(folder, "made"), bytesMax: 8 });
  const table = open(5, content);
  const part = new Uint8Array(3);
  table?.read(2, part);
  assert.deepEqual([...part], [3, 4, 5]);
  if (process.platform !== "win32") assert.deepEqual(readdirSync(join(folder, "made")), []);
  assert.throws(() => table?.read(4, part), /shorter/);
  assert.equal(open(5, content), undefined, "ten bytes are more than eight");
  table?.close();
  table?.close();
  const next = open(5, content);
  assert.ok(next, "what was closed makes room");
  next.close();
});

test("where nothing can be written there is no table", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-tables-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "taken");
  writeFileSync(file, "");
  assert.equal(tableFiles({ folder: join(file, "below"), bytesMax: 100 })(5, content), undefined);
});
