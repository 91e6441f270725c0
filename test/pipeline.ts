// `npm run pipeline -- --megabytes 1000 --kill-every 5`: a pipeline over much text, once undisturbed and once with a kill every few
// seconds. Both must make the same dataset, and neither may take more than 500 MB of memory. With `--of cpu` the seconds are those
// that the process computed, as if it had a core of its own: on a busy machine it would be killed before it has begun. With
// `--in-turn` one waits for the other, for where there is but one core.

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
    of: { type: "string", default: "time" },
    "in-turn": { type: "boolean", default: false },
  },
});
const wantedBytes = Number(values.megabytes) * 1e6;
const killEveryMs = Number(values["kill-every"]) * 1_000;
assert.ok(["time", "cpu"].includes(values.of), `--of is time or cpu, not ${values.of}`);

const net = await TestNetwork.start(1);
try {
  await writeText(net.path("pages.jsonl"), wantedBytes);
  writeFileSync(
    net.path("sample.txt"),
    readFileSync(net.path("pages.jsonl")).subarray(0, 500_000).toString("utf8").slice(0, -200),
  );
  await net.dcnr("vocab", "train", "small", net.path("sample.txt"), "--size", "2000");
  // Side by side if they may: neither uses anything of the other.
  const first = run("calm", undefined);
  if (values["in-turn"]) await first;
  const [calm, troubled] = await Promise.all([first, run("troubled", killEveryMs)]);
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
    kept: { from: "pages", filter: 'size(text) > 100 && !text.startsWith("ba")' },
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
  let cpuMs = 0;
  for (let kills = 0; ; kills++) {
    const { code, out, error, used } = await runOnce(words, killMs);
    memory = Math.max(memory, used.bytes);
    cpuMs += used.cpuMs;
    if (code === null) {
      if (kills % 10 === 9)
        say(`${name}: killed ${kills + 1} times, ${(memory / 1e6).toFixed(0)} MB, ${lastOf(error)}`);
      continue;
    }
    assert.equal(code, 0, error);
    const [{ hash }] = JSON.parse(out) as [{ hash: string }];
    const seconds = (performance.now() - began) / 1000;
    say(
      `${name}: ${seconds.toFixed(0)} s, ${(cpuMs / 1000).toFixed(0)} s of CPU time, ${kills} kills, at most ${(memory / 1e6).toFixed(0)} MB of memory`,
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

async function runOnce(words: readonly string[], killMs: number | undefined) {
  const began = performance.now();
  const running = net.spawn(words);
  let used: Used = { bytes: 0, cpuMs: 0 };
  const watching = setInterval(() => {
    used = usedBy(running) ?? used;
    const ms = values.of === "cpu" ? used.cpuMs : performance.now() - began;
    if (killMs !== undefined && ms >= killMs) running.child.kill("SIGKILL");
  }, 100);
  const ended = await running.ended;
  clearInterval(watching);
  return { ...ended, used };
}

interface Used {
  /** The most that it ever had. */
  readonly bytes: number;
  readonly cpuMs: number;
}

/** The kernel's word, while the process is there; where there is none, nothing is told. */
function usedBy({ child }: Running): Used | undefined {
  try {
    const memory = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"));
    // After the name in brackets: user and system time are the 12th and 13th, in hundredths of a second.
    const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    const cpuMs = (Number(fields[11]) + Number(fields[12])) * 10;
    return memory ? { bytes: Number(memory[1]) * 1024, cpuMs } : undefined;
  } catch {
    return undefined;
  }
}

function lastOf(error: string): string {
  return error.trim().split("\n").at(-1)?.split("\r").at(-1) ?? "";
}

/** Pages of drawn words, of which some are copies of earlier ones, and some nearly. */
async function writeText(path: string, bytesMax: number): Promise<void> {
  const file = createWriteStream(path);
  const key = randomKey("pages");
  const vocabulary = Array.from({ length: 30_000 }, (_, word) => spelt(word));
  let bytes = 0;
  for (let page = 0; bytes < bytesMax; page++) {
    const draw = randomUint32(key, page) % 20;
    const original = draw < 2 && page > 100 ? page - 1 - (randomUint32(key, page + 1) % 100) : page;
    const own = randomKey("page", original);
    const words = Array.from(
      { length: 100 + (original % 400) },
      (_, i) => vocabulary[randomUint32(own, i) % vocabulary.length] as string,
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

/** Letters alone, as in words: a tokenizer would cut others at their digits. */
function spelt(word: number): string {
  let letters = "";
  for (let left = word; letters.length < 2 || left > 0; left = Math.floor(left / 20))
    letters += `${"bcdfghjklmnprstvwyxz".charAt(left % 20)}${"aeiou".charAt(left % 5)}`;
  return letters;
}

function say(text: string): void {
  if (text !== "") console.log(text);
}
