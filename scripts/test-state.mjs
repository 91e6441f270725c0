// Loaded before a test file that starts PNodes: those of one file share this machine's memory among themselves, and know nothing of
// PNodes of other files, or of the machine's owner.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isMainThread } from "node:worker_threads";

if (isMainThread) {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-state-"));
  process.env["XDG_STATE_HOME"] = folder;
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
}
