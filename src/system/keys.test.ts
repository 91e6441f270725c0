import { strict as assert } from "node:assert";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { keyIdOf, keysOf, verifySignature } from "../core/keys.ts";
import { realChance } from "./chance.ts";
import { loadKey, newIdentity, rotateKey } from "./keys.ts";

const inDirectory = async (run: (directory: string) => Promise<void>) => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-keys-"));
  try {
    await run(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
};

describe("a key", () => {
  it("signs what only it can sign", () => {
    const [one, other] = [newIdentity(), newIdentity()];
    const content = new TextEncoder().encode("a claim");
    const signature = one.sign(content);
    assert.ok(verifySignature(one.publicKey, content, signature));
    assert.ok(!verifySignature(other.publicKey, content, signature));
    assert.ok(!verifySignature(one.publicKey, new TextEncoder().encode("another"), signature));
    assert.ok(!verifySignature(new Uint8Array(3), content, signature));
    assert.ok(!verifySignature(one.publicKey, content, signature.subarray(1)));
  });

  it("is made once for a directory, however many start at once, and is readable by its owner alone", () =>
    inDirectory(async (directory) => {
      const ids = await Promise.all(Array.from({ length: 8 }, async () => (await loadKey(directory, realChance)).id));
      assert.equal(new Set(ids).size, 1);
      assert.deepEqual(await readdir(directory), ["key.pem"]);
      assert.equal((await stat(join(directory, "key.pem"))).mode & 0o777, 0o600);
      await chmod(join(directory, "key.pem"), 0o644);
      await loadKey(directory, realChance);
      assert.equal((await stat(join(directory, "key.pem"))).mode & 0o777, 0o600);
    }));

  it("that is damaged is not replaced in silence", () =>
    inDirectory(async (directory) => {
      await writeFile(join(directory, "key.pem"), "no key");
      await assert.rejects(loadKey(directory, realChance), /holds no key: restore it/);
    }));
});

describe("a key that is replaced", () => {
  it("leaves its id and its word to the next one, and nothing of itself", () =>
    inDirectory(async (directory) => {
      const first = await loadKey(directory, realChance);
      const second = await rotateKey(directory, realChance);
      const third = await rotateKey(directory, realChance);
      const loaded = await loadKey(directory, realChance);
      assert.deepEqual([second.id, third.id, loaded.id], [first.id, first.id, first.id]);
      assert.deepEqual(
        keysOf(loaded.publicKey, loaded.former),
        [first, second, third].map(({ publicKey }) => keyIdOf(publicKey)),
      );
      const path = join(directory, "key.pem");
      const text = await readFile(path, "utf8");
      for (const { privateKey } of [first, second]) assert.ok(!text.includes(privateKey.split("\n")[1] as string));
      assert.equal((await stat(path)).mode & 0o777, 0o600);
      assert.deepEqual(await readdir(directory), ["key.pem"]);
      await writeFile(path, text.replace(/# succeeds: ..../, "# succeeds: AAAA"));
      await assert.rejects(loadKey(directory, realChance), /did not sign for this one/);
    }));
});
