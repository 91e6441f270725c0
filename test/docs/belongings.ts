// What readers of how-tos have already: a table of flowers, a book, pictures, arrays, a model's folder, a certificate.

import { copyFileSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readFixture, writeFixture } from "../../src/models/fixtures.testing.ts";
import { certificate, key } from "../wire/localhost-certificate.ts";
import { root } from "./walk.ts";

export function putBelongings(folder: string): void {
  symlinkSync(join(root, "examples"), join(folder, "examples"));
  symlinkSync(join(root, "python"), join(folder, "python"));
  writeFileSync(join(folder, "iris.csv"), ["a,b,c,d,species", ...flowers].join("\n"));
  copyFileSync(join(root, "src/data/fixtures/files/plain.parquet"), join(folder, "flowers.parquet"));
  copyFileSync(join(root, "src/network/fixtures/exporters/perceptron.onnx"), join(folder, "iris.onnx"));
  for (const name of ["books.txt", "letters.txt"]) writeFileSync(join(folder, name), book());
  for (const [kind, picture] of [
    ["cat", "colour.png"],
    ["dog", "whole.jpg"],
  ] as const) {
    mkdirSync(join(folder, "photos", kind), { recursive: true });
    copyFileSync(join(root, "src/data/fixtures/files", picture), join(folder, "photos", kind, picture));
  }
  writeArray(join(folder, "x.npy"), [40, 4]);
  writeArray(join(folder, "y.npy"), [40]);
  writeModel(join(folder, "Qwen2.5-0.5B"));
  const gguf = "src/models/fixtures/gguf/llama-q8.gguf";
  copyFileSync(join(root, gguf), join(folder, "Llama-3.2-1B-Instruct-Q8_0.gguf"));
  writeFileSync(join(folder, "cert.pem"), certificate);
  writeFileSync(join(folder, "key.pem"), key);
}

/** Three kinds that are easily told apart. */
const flowers = Array.from({ length: 90 }, (_, row) => {
  const [kind, size] = [
    ["setosa", 1],
    ["versicolor", 3],
    ["virginica", 5],
  ][row % 3] as [string, number];
  return `${[0.1, 0.2, 0.3, 0.4].map((part) => (size + part + row / 1_000).toFixed(3)).join(",")},${kind}`;
});

/** A document for each paragraph. */
function book(): string {
  const text = readFileSync(join(root, "CHANGELOG.md"), "utf8") + readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
  return text.slice(0, 60_000);
}

/** Bytes from 0 to 2 in NumPy's own format. */
function writeArray(path: string, shape: readonly number[]): void {
  const dict = `{'descr': '|u1', 'fortran_order': False, 'shape': (${shape.join(", ")},), }`;
  const header = Buffer.from(`${dict.padEnd(117)}\n`);
  const start = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, header.length & 0xff, header.length >> 8]);
  const content = Uint8Array.from({ length: shape.reduce((product, one) => product * one, 1) }, (_, i) => i % 3);
  writeFileSync(path, Buffer.concat([start, header, content]));
}

/** Of Qwen's family with a vocabulary and a template, and a thousandth of the weights. */
function writeModel(folder: string): void {
  const fixture = readFixture("qwen2-windows");
  const vocabulary = 704;
  const tensors = Object.fromEntries(
    Object.entries(fixture.tensors).map(([name, shape]) => [
      name,
      /embed_tokens|lm_head/.test(name) ? [vocabulary, ...shape.slice(1)] : shape,
    ]),
  );
  const config = { ...fixture.config, vocab_size: vocabulary, max_position_embeddings: 128, eos_token_id: 701 };
  writeFixture(folder, { ...fixture, config, tensors });
  cpSync(join(root, "src/data/bpe/fixtures/qwen2.json"), join(folder, "tokenizer.json"));
  const template =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ chat_template: template }));
}
