// `npm run pipeline -- --megabytes 1000 --kill-every 5`: a pipeline over much text, once undisturbed and once with a kill every few
// seconds. Both must make the same dataset, and neither may take more than 500 MB of memory.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createWriteStream, readFileSync, statSync, writeFileSync } from "node:fs";
import { finished } from "node:stream/promises";
import { parseArgs } from "node:util";
import { randomKey, randomUint32 } from "../src/core/numbers/random.ts";
import { type Running, TestNetwork } from "./data/network.ts";

const memoryMax = 500e6;

const { values } = parseArgs({
  options: {
    megabytes: { type: "string", default: "1000" },
    "kill-every": { type: "string", default: "5" },
  },
});
const wantedBytes = Number(values.megabytes) * 1e6;
const killEveryMs = Number(values["kill-every"]) * 1_000;

const net = await TestNetwork.start(1);
try {
  await writeText(net.path("pages.jsonl"), wantedBytes);
  writeFileSync(
    net.path("sample.txt"),
    readFileSync(net.path("pages.jsonl")).subarray(0, 500_000).toString("utf8").slice(0, -200),
  );
  await net.dcnr("vocab", "train", "small", net.path("sample.txt"), "--size", "2000");
  const calm = await run("calm", undefined);
  const troubled = await run("troubled", killEveryMs);
  assert.equal(troubled.hash, calm.hash, "the dataset is the same");
  assert.ok(troubled.kills > 0, "it was killed at least once");
  for (const { memory } of [calm, troubled]) assert.ok(memory < memoryMax, `${memory} bytes of memory`);
  say(`the same dataset, ${calm.hash}, after ${troubled.kills} kills`);
} finally {
  await net.stop();
}

async function run(name: string, killMs: number | undefined): Promise<{ hash: string; kills: number; memory: number }> {
  const steps = {
    pages: { files: "pages.jsonl" },
    kept: { from: "pages", filter: 'size(text) > 100 && !text.startsWith("w0")' },
    exact: { from: "kept", deduplicate: "exact" },
    once: { from: "exact", deduplicate: { by: "minhash", similarity: 0.7 } },
    drawn: { from: "once", shuffle: { seed: 1 } },
    parts: { from: "drawn", split: { parts: { train: 0.95, validation: 0.05 } } },
    tokens: { from: "parts", tokenise: "small" },
    packed: { from: "tokens", pack: 256 },
  };
  writeFileSync(net.path(`${name}.yaml`), JSON.stringify({ steps, save: { [name]: "packed" } }));
  const words = ["data", net.path(`${name}.yaml`), "--json", "--dir", net.path(`work-${name}`), "--keep", "100GB"];
  const began = performance.now();
  let memory = 0;
  for (let kills = 0; ; kills++) {
    const running = net.spawn(words);
    const watching = watch(running, (seen) => (memory = Math.max(memory, seen)));
    const timer = killMs === undefined ? undefined : setTimeout(() => running.child.kill("SIGKILL"), killMs);
    const { code, out, error } = await running.ended;
    clearTimeout(timer);
    clearInterval(watching);
    if (code === null) continue;
    assert.equal(code, 0, error);
    const [{ hash }] = JSON.parse(out) as [{ hash: string }];
    const seconds = (performance.now() - began) / 1000;
    const rate = wantedBytes / 1e6 / seconds;
    say(
      `${name}: ${seconds.toFixed(0)} s (${rate.toFixed(1)} MB/s), ${kills} kills, at most ${(memory / 1e6).toFixed(0)} MB of memory`,
    );
    say(
      error
        .split("\n")
        .filter((line) => /: [\d,]+ (rows|runs)/.test(line))
        .join("\n"),
    );
    return { hash, kills, memory };
  }
}

/** The kernel's word for the most that a process ever had; where there is none, nothing is told. */
function watch({ child }: Running, tell: (bytes: number) => void): NodeJS.Timeout {
  return setInterval(() => {
    try {
      const found = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"));
      if (found) tell(Number(found[1]) * 1024);
    } catch {}
  }, 200);
}

/** Pages of drawn words, of which some are copies of earlier ones, and some nearly. */
async function writeText(path: string, bytesMax: number): Promise<void> {
  const file = createWriteStream(path);
  const key = randomKey("pages");
  let bytes = 0;
  for (let page = 0; bytes < bytesMax; page++) {
    const draw = randomUint32(key, page) % 20;
    const original = draw < 2 && page > 100 ? page - 1 - (randomUint32(key, page + 1) % 100) : page;
    const own = randomKey("page", original);
    const words = Array.from(
      { length: 100 + (original % 400) },
      (_, i) => `w${(randomUint32(own, i) % 30_000).toString(36)}`,
    );
    if (draw === 1) words[page % words.length] = "changed";
    const line = `${JSON.stringify({ text: words.join(" "), page })}\n`;
    bytes += line.length;
    if (!file.write(line)) await once(file, "drain");
  }
  file.end();
  await finished(file);
  say(`${path}: ${(statSync(path).size / 1e6).toFixed(0)} MB`);
}

function say(text: string): void {
  if (text !== "") console.log(text);
}
