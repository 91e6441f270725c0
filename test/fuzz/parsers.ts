// Everything that reads bytes from outside, with good samples of each.

import { X509Certificate } from "node:crypto";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { scenarios } from "../../simulation/scenarios.ts";
import { sha256 } from "../../src/core/hash.ts";
import { loadTokenizer } from "../../src/data/bpe/json.ts";
import { compilePattern, wordPattern } from "../../src/data/bpe/pattern.ts";
import { openReader } from "../../src/data/formats/bytes.ts";
import { splitCells } from "../../src/data/formats/csv.ts";
import { readNpyHeader } from "../../src/data/formats/npy.ts";
import { decodeImage } from "../../src/data/images/shape.ts";
import { importDataset } from "../../src/data/imports/import.ts";
import { type Manifest, manifestText, parseManifest } from "../../src/data/manifest.ts";
import { decodeOnnx } from "../../src/graph/onnx-read.ts";
import { openTemplate } from "../../src/models/chats/chat-template.ts";
import { openWeightsFile } from "../../src/models/files/safetensors.ts";
import { openGguf } from "../../src/models/gguf/file.ts";
import { compileText } from "../../src/network/compile.ts";
import { importOnnx } from "../../src/network/onnx/import-onnx.ts";
import { certificateOf, holderOf } from "../../src/protocol/identity/certificate.ts";
import { parseAddress } from "../../src/protocol/routes/address.ts";
import { FrameReader } from "../../src/protocol/streams/frames.ts";
import { readStateManifest, writeStateManifest } from "../../src/states/manifest.ts";
import { newIdentity } from "../../src/system/keys.ts";
import type { Held } from "./findings.ts";

export interface Parser {
  readonly name: string;
  readonly samples: readonly Uint8Array[];
  /** Succeeds, or throws a DcnrError. */
  readonly parse: (bytes: Uint8Array) => unknown;
  readonly close?: () => void;
  /** It takes milliseconds where others take a fraction of one. */
  readonly costly?: boolean;
  /** For what is read by a command, in a process that nobody else waits for. */
  readonly heldMsMax?: number;
  /** How that is measured; in all if absent. */
  readonly held?: Held;
}

const commandMsMax = 1_000;

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");
const files = (pattern: string) =>
  globSync(pattern)
    .sort()
    .map((path) => readFileSync(path));

/** Parsers of files read one that is written anew each time, in memory where the system has a place for it. */
export function fileParser(
  name: string,
  samples: readonly Uint8Array[],
  parse: (path: string) => Promise<unknown>,
): Parser {
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "dcnr-fuzz-"));
  const path = join(folder, "model");
  return {
    name,
    samples,
    costly: true,
    parse: (bytes) => {
      writeFileSync(path, bytes);
      return parse(path);
    },
    close: () => rmSync(folder, { recursive: true }),
  };
}

const shard = (count: number, unitBytes: number) => ({ hash: sha256(`${count}`), bytes: count * unitBytes, count });

const manifests: readonly Manifest[] = [
  {
    version: 1,
    kind: "tensors",
    samples: 30,
    chunk: 20,
    fields: [
      { name: "inputs", dtype: "float32", shape: [4], shards: [shard(20, 16), shard(10, 16)] },
      { name: "labels", dtype: "int32", shape: [], shards: [shard(20, 4), shard(10, 4)] },
    ],
    splits: { train: { kind: "range", start: 0, end: 25 }, rest: { kind: "ratio", seed: 7, from: 0, to: 0.9 } },
  },
  {
    version: 1,
    kind: "tokens",
    tokens: 100,
    tokenType: "uint16",
    vocabulary: 256,
    shards: [shard(100, 2)],
    splits: { odd: { kind: "list", hash: sha256("odd"), count: 2 } },
  },
];

const stateManifest = writeStateManifest({
  metadata: { step: "4" },
  tensors: [{ name: "w", dtype: "float32", shape: [2, 3] }],
  bytes: 24,
  partBytes: 16 << 20,
  parts: [sha256("part")],
});

const safetensors = (() => {
  const header = Buffer.from(
    JSON.stringify({ __metadata__: { format: "pt" }, a: { dtype: "F32", shape: [2, 2], data_offsets: [0, 16] } }),
  );
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([size, header, Buffer.alloc(16)]);
})();

const npy = Buffer.concat([
  Buffer.from("\x93NUMPY\x01\x00v\x00", "latin1"),
  Buffer.from(`${"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }".padEnd(117)}\n`, "latin1"),
  Buffer.alloc(24),
]);

const template =
  "{% for message in messages %}{{ bos_token }}{{ message.role | upper }}: {{ message.content.strip() }}{% if not loop.last %}\n{% endif %}{% endfor %}{% if add_generation_prompt %}{{ raise_exception('x') if messages | length > 9 else 'A:' }}{% endif %}";

export function openParsers(): Parser[] {
  const definitions = [
    ...files("examples/{conv,mlp,gpt-demo}.yaml"),
    ...scenarios.map(({ definition }) => Buffer.from(definition)),
  ];
  const onnx = files("src/{graph/fixtures,network/fixtures/exporters}/*.onnx").filter(({ length }) => length < 200_000);
  return [
    { name: "definition", costly: true, samples: definitions, parse: (bytes) => compileText(text(bytes)) },
    {
      name: "tokenizer",
      samples: files("src/data/bpe/fixtures/*.json"),
      parse: (bytes) => loadTokenizer(text(bytes)).encode("It's 3 days, naïve 🙂\n"),
    },
    {
      name: "pattern",
      samples: [Buffer.from(wordPattern), Buffer.from(String.raw`(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+`)],
      parse: (bytes) => "some text with  words, 42 of them".match(compilePattern(text(bytes))),
    },
    {
      name: "template",
      samples: [Buffer.from(template)],
      parse: (bytes) =>
        openTemplate(text(bytes))(
          { turns: [{ role: "user", content: "hello" }] },
          { bosToken: "<s>", eosToken: "</s>" },
        ),
    },
    {
      name: "dataset manifest",
      samples: manifests.map((one) => Buffer.from(manifestText(one))),
      parse: (bytes) => parseManifest(text(bytes)),
    },
    { name: "state manifest", samples: [stateManifest], parse: (bytes) => readStateManifest(bytes, "a manifest") },
    { name: "ONNX", samples: onnx, parse: (bytes) => decodeOnnx(bytes, { batch: 2 }) },
    {
      name: "ONNX network",
      costly: true,
      heldMsMax: commandMsMax,
      samples: onnx,
      parse: (bytes) => importOnnx(bytes, { name: "fuzzed", fixed: { x1: 1 } }),
    },
    fileParser("safetensors", [safetensors], async (path) => {
      const { weights } = await openWeightsFile(path);
      for (const name of weights.names.slice(0, 3)) await weights.load(name);
    }),
    fileParser("GGUF", files("src/models/fixtures/gguf/*.gguf"), async (path) => {
      const { tensors, load } = await openGguf(path);
      for (const name of [...tensors.keys()].slice(0, 2)) await load(name);
    }),
    {
      name: "image",
      samples: files("src/data/fixtures/files/*.{png,jpg}"),
      parse: (bytes) => decodeImage(bytes, "an image"),
    },
    fileParser("Parquet", files("src/data/fixtures/files/*.parquet"), async (path) => {
      const blobs = { put: async () => {}, size: async () => undefined };
      await importDataset({ source: path, format: "parquet", labels: "species" }, {}, { blobs });
    }),
    { name: "npy", samples: [npy], parse: (bytes) => readNpyHeader(openReader(streamOf(bytes)), "a.npy") },
    {
      name: "CSV line",
      samples: [Buffer.from('1.5,"a ""b"", c",setosa,,-3e7')],
      parse: (bytes) => splitCells(text(bytes), "line 1"),
    },
    {
      name: "frames",
      samples: [Buffer.from([0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 0])],
      parse: (bytes) => new FrameReader(() => {}).push(bytes),
    },
    {
      name: "address",
      samples: ["localhost:7400", "[::1]:9", "host#aaaa", "https://h:1/p"].map((one) => Buffer.from(one)),
      parse: (bytes) => parseAddress(text(bytes), 7400),
    },
    { name: "certificate", samples: [new X509Certificate(certificateOf(newIdentity())).raw], parse: certificateHolder },
  ];
}

/** OpenSSL refuses what is no certificate; what it accepts must not break our own reading. */
function certificateHolder(bytes: Uint8Array): unknown {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(bytes);
  } catch {
    return undefined;
  }
  return holderOf(certificate);
}

async function* streamOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
