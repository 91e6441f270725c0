import assert from "node:assert/strict";
import { it } from "node:test";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import { hashes, likeness, signatureOf } from "./minhash.ts";

function signature(text: string): Uint32Array {
  const made = new Uint32Array(hashes);
  signatureOf(text, made);
  return made;
}

/** As it is defined: words by a pattern, runs of five, the least of each hash as an unsigned number. */
function byDefinition(text: string): Uint32Array {
  const stirred = (value: number) => {
    let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) >>> 0;
  };
  const words = (text.toLowerCase().match(/\S+/g) ?? []).map((word) => {
    let hash = 2166136261;
    for (let i = 0; i < word.length; i++) hash = Math.imul(hash ^ word.charCodeAt(i), 16777619);
    return stirred(hash);
  });
  const runs = Array.from({ length: Math.max(1, words.length - 4) }, (_, start) =>
    stirred(
      words.slice(start, start + 5).reduce((run, word) => Math.imul(run ^ word, 0x9e3779b1) ^ (run >>> 15), 0x811c9dc5),
    ),
  );
  const key = randomKey("pipeline minhash");
  return Uint32Array.from({ length: hashes }, (_, i) => {
    const [multiplier, offset] = [randomUint32(key, 2 * i) | 1, randomUint32(key, 2 * i + 1)];
    return Math.min(...runs.map((run) => (Math.imul(multiplier, run) + offset) >>> 0));
  });
}

it("is what its definition says, whatever the words and spaces are", () => {
  const spaces = Array.from({ length: 0x10000 }, (_, unit) => String.fromCharCode(unit)).filter((one) =>
    /\s/.test(one),
  );
  const key = randomKey("texts");
  const long = Array.from({ length: 9_000 }, (_, i) => `w${randomUint32(key, i) % 5_000}`).join(" ");
  const texts = [
    "",
    " \t",
    "one",
    "One two THREE four",
    "a b c d e f",
    ` lead and trail `,
    "\0 x\u0085y z Ärger 漢字 😀 end",
  ];
  for (const text of [...texts, spaces.map((space, i) => `${space}w${i}`).join(""), long])
    assert.deepEqual(signature(text), byDefinition(text), JSON.stringify(text.slice(0, 40)));
});

it("estimates how much two texts share", () => {
  const words = Array.from({ length: 400 }, (_, i) => `word${i}`);
  const near = signature([...words.slice(0, 200), "changed", ...words.slice(201)].join(" "));
  assert.ok(likeness(signature(words.join(" ")), near) > 0.9);
  assert.ok(likeness(signature(words.join(" ")), signature(words.toReversed().join(" "))) < 0.1);
});
