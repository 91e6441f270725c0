// Data from files into the network: large ones in little memory, interrupted ones without starting again, bad ones
// refused in a sentence.

import assert from "node:assert/strict";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { TestNetwork } from "./network.ts";

interface DatasetJson {
  readonly hash: string;
  readonly bytes: number;
}

const largeBytes = 52 << 20;
const largerBytes = 4 * largeBytes;

let net: TestNetwork;
before(async () => {
  net = await TestNetwork.start(0);
  writeText(net.path("large.txt"), largeBytes);
  writeText(net.path("larger.txt"), largerBytes);
  writeFileSync(net.path("small.txt"), "A few words.\n");
});
after(() => net.stop());

function writeText(path: string, bytes: number): void {
  const file = openSync(path, "w");
  for (let written = 0, i = 0; written < bytes; ) {
    const lines = Array.from({ length: 5_000 }, () => `line ${i++} of a text that is larger than it is interesting\n`);
    written += writeSync(file, lines.join(""));
  }
  closeSync(file);
}

describe("a large file", () => {
  it("is streamed: memory does not grow with it", async () => {
    const add = (name: string, file: string) =>
      net.run(["dataset", "add", name, net.path(file), "--shard-size", "1MB", "--json"]);
    const large = await add("large", "large.txt");
    const larger = await add("larger", "larger.txt");
    for (const { code, error } of [large, larger]) assert.equal(code, 0, error);
    assert.ok((JSON.parse(larger.out) as DatasetJson).bytes >= largerBytes);
    // Both are far larger than what an import holds, garbage included, so what is left of the difference is keeping.
    const grown = larger.residentBytesMax - large.residentBytesMax;
    const difference = largerBytes - largeBytes;
    assert.ok(grown < difference / 2, `${grown} bytes more for ${difference} bytes more of text`);
  });

  for (const signal of ["SIGKILL", "SIGINT"] as const)
    it(`goes on after ${signal} where it was, to the same dataset`, async () => {
      const words = ["dataset", "add", signal, net.path("large.txt"), "--shard-size", "1MB"];
      const imports = net.path("home/dcnr/imports");
      const { child, ended } = net.spawn(words);
      // Until the first checkpoint is on the disk; the kill comes somewhere in the middle.
      while (!(existsSync(imports) && readdirSync(imports).some((name) => name.endsWith(".json")))) {
        assert.equal(child.exitCode, null, "the import ends too early to be interrupted");
        await pause(5);
      }
      child.kill(signal);
      const interrupted = await ended;
      if (signal === "SIGINT") {
        assert.equal(interrupted.code, 130);
        assert.match(interrupted.error, /interrupted: the same command goes on where it was/);
      }
      const again = await net.run([...words, "--json"]);
      assert.equal(again.code, 0, again.error);
      assert.match(again.error, /going on after/);
      const whole = await net.json<{ dataset: DatasetJson }>("dataset", "show", "large", "--count", "1");
      assert.equal((JSON.parse(again.out) as DatasetJson).hash, whole.dataset.hash);
      assert.deepEqual(readdirSync(imports), [], "nothing is left to go on with");
    });
});

describe("bad data", () => {
  it("is refused in a sentence that says where", async () => {
    writeFileSync(net.path("empty.txt"), "");
    writeFileSync(net.path("latin.txt"), Buffer.from("caf\xe9\n", "latin1"));
    const refusals: [RegExp, string[], string?][] = [
      [/empty\.txt is empty/, ["dataset", "add", "x", net.path("empty.txt")]],
      [/standard input is empty/, ["dataset", "add", "x", "-", "--format", "text"], ""],
      [/latin\.txt is not valid UTF-8/, ["dataset", "add", "x", net.path("latin.txt")]],
      [/line 3 of standard input has 1 columns/, ["dataset", "add", "x", "-", "--format", "csv"], "a,b\n1,2\n3\n"],
      [/there is no file/, ["dataset", "add", "x", net.path("nowhere.txt")]],
      [/not a public address/, ["dataset", "add", "x", "https://127.0.0.1/data.txt"]],
      [/inputs/, ["dataset", "add", "x", '{"labels": [1]}']],
      [/no text to learn|is empty/, ["vocab", "train", "x", net.path("empty.txt")]],
      [/a vocabulary of 10 tokens is impossible/, ["vocab", "train", "x", net.path("small.txt"), "--size", "10"]],
    ];
    await Promise.all(
      refusals.map(async ([expected, words, input]) => assert.match(await net.refusal(words, input), expected)),
    );
    assert.doesNotMatch(await net.dcnr("dataset", "list"), /^x /m);
  });

  it("outside the folders that may be read is refused, links included", async () => {
    mkdirSync(net.path("open"));
    symlinkSync(net.path("small.txt"), net.path("open/link.txt"));
    writeFileSync(net.path("open/fine.txt"), "Fine.\n");
    const folder = ["--folder", net.path("open")];
    await net.dcnr("dataset", "add", "fine", net.path("open/fine.txt"), ...folder);
    for (const file of ["small.txt", "open/link.txt", "open/../small.txt"])
      assert.match(
        await net.refusal(["dataset", "add", "x", net.path(file), ...folder]),
        /outside the folders that may be read/,
      );
  });

  it("that was damaged at rest is noticed by whoever reads it", async () => {
    writeFileSync(net.path("hurt.txt"), "These words will be damaged on the disk.\n");
    await net.dcnr("dataset", "add", "hurt", net.path("hurt.txt"));
    const { manifest } = JSON.parse(`{"manifest": ${await net.dcnr("dataset", "show", "hurt", "--manifest")}}`) as {
      manifest: { shards: { hash: string }[] };
    };
    const hash = manifest.shards[0]?.hash as string;
    const path = readdirSync(net.folder, { recursive: true, encoding: "utf8" }).find((name) => name.endsWith(hash));
    assert.ok(path, "the shard is a file of the blob store");
    const content = readFileSync(net.path(path));
    content[0] = (content[0] as number) ^ 1;
    writeFileSync(net.path(path), content);
    assert.match(await net.refusal(["dataset", "show", "hurt"]), new RegExp(hash));
  });
});
