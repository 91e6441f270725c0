// A disk that is really full: a file system of 2 MB in a mount namespace of its own, where the machine allows that.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";

it("a full disk is said in a sentence, loses nothing, and leaves nothing half written", (test) => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-full-"));
  const inside = (...command: string[]) =>
    spawnSync(
      "unshare",
      [
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"',
        folder,
        ...command,
      ],
      { encoding: "utf8" },
    );
  try {
    if (inside("true").status !== 0) return test.skip("this machine allows no mount namespaces");
    const script = join(import.meta.dirname, "full-disk-process.ts");
    const { status, stdout, stderr } = inside(process.execPath, script, folder);
    assert.deepEqual([status, stdout, stderr], [0, "done\n", ""]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
