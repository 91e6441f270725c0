import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { readWhole, writeWhole } from "./whole-file.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-whole-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const letter = join(folder, "letter");
writeFileSync(letter, "dear owner");

describe("a small file in a directory that somebody else may write to", { skip: process.platform === "win32" }, () => {
  it("is whole, and is written by no link that waits in its place", async () => {
    const path = join(folder, "own");
    symlinkSync(letter, path);
    symlinkSync(letter, `${path}.new`);
    await writeWhole(path, "ours");
    assert.equal(readFileSync(letter, "utf8"), "dear owner");
    assert.equal(new TextDecoder().decode(await readWhole(path)), "ours");
  });

  it("is none where it never ends, never begins, or is too long", async () => {
    const pipe = join(folder, "pipe");
    assert.equal(spawnSync("mkfifo", [pipe]).status, 0);
    assert.equal(await readWhole(pipe), undefined);
    symlinkSync("/dev/zero", join(folder, "endless"));
    assert.equal(await readWhole(join(folder, "endless")), undefined);
    assert.equal(await readWhole(letter, 4), undefined);
    assert.equal(await readWhole(join(folder, "gone")), undefined);
  });
});
