import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openKept } from "./kept.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

test("what is kept is there after a restart, but for what was half written", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-kept-"));
  try {
    const first = await openKept(directory);
    await first.write("state-1", bytes("one"));
    await first.write("state-2", bytes("two"));
    await first.remove("state-2");
    await writeFile(join(directory, "kept", "state-3.7.part"), "half");
    const second = await openKept(directory);
    assert.deepEqual(await second.list(), ["state-1"]);
    assert.equal(new TextDecoder().decode(await second.read("state-1")), "one");
    assert.equal(await second.read("state-2"), undefined);
    await assert.rejects(async () => second.write("../key.pem", bytes("x")), /no file's name/);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("no more is kept than is lent, counted over restarts", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-kept-"));
  try {
    await (await openKept(directory, 10)).write("a", bytes("123456"));
    const kept = await openKept(directory, 10);
    await assert.rejects(kept.write("b", bytes("12345")), /disk that is lent is full/);
    await kept.write("a", bytes("1234"));
    await kept.write("b", bytes("12345"));
  } finally {
    await rm(directory, { recursive: true });
  }
});
