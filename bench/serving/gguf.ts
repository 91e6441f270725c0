// A Llama with random weights as a GGUF file, float32 or in blocks of 8 or 4 bits: one file that llama.cpp and we both read, so that both
// compute the same. What it says means nothing, how fast it does means something.

import { closeSync, openSync, writeSync } from "node:fs";
import { toFloat16 } from "../../src/core/numbers/half.ts";

export type GgufFormat = "float32" | "8bit" | "4bit";

export interface LlamaSize {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly hidden: number;
  readonly vocabulary: number;
  readonly context: number;
}

/** About 100 million parameters: 400 MB in float32. */
export const llama100: LlamaSize = {
  ...{ layers: 12, width: 768, heads: 12, kvHeads: 4, hidden: 2_048, vocabulary: 32_000, context: 1_024 },
};

/** About 450 million: large enough that what a PNode takes without any model does not decide, also in 4 bits (270 MB). */
export const llama450: LlamaSize = {
  ...{ layers: 16, width: 1_536, heads: 16, kvHeads: 4, hidden: 4_096, vocabulary: 32_000, context: 1_024 },
};

export function parametersOf(size: LlamaSize): number {
  return tensorsOf(size).reduce((sum, { rows, columns }) => sum + rows * columns, 0);
}

interface StoredTensor {
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
}

function tensorsOf({ layers, width, heads, kvHeads, hidden, vocabulary }: LlamaSize): StoredTensor[] {
  const kv = (width / heads) * kvHeads;
  const vector = (name: string) => ({ name, rows: 1, columns: width });
  const matrix = (name: string, rows: number, columns = width) => ({ name, rows, columns });
  return [
    matrix("token_embd.weight", vocabulary),
    vector("output_norm.weight"),
    ...Array.from({ length: layers }, (_, layer) =>
      [
        vector("attn_norm"),
        vector("ffn_norm"),
        matrix("attn_q", width),
        matrix("attn_k", kv),
        matrix("attn_v", kv),
        matrix("attn_output", width),
        matrix("ffn_gate", hidden),
        matrix("ffn_up", hidden),
        matrix("ffn_down", width, hidden),
      ].map((tensor) => ({ ...tensor, name: `blk.${layer}.${tensor.name}.weight` })),
    ).flat(),
  ];
}

const blockSize = 32;

const stored = {
  float32: { type: 0, blockBytes: 4 * blockSize, pack: packFloats },
  "8bit": { type: 8, blockBytes: 2 + blockSize, pack: pack8 },
  "4bit": { type: 2, blockBytes: 2 + blockSize / 2, pack: pack4 },
} as const;

/** Norms are near one, and stay float32 as llama.cpp wants them. */
function formatOf({ rows }: StoredTensor, format: GgufFormat): GgufFormat {
  return rows === 1 ? "float32" : format;
}

const alignment = 32;
const aligned = (bytes: number) => Math.ceil(bytes / alignment) * alignment;

export function writeLlama(path: string, size: LlamaSize, format: GgufFormat): void {
  const tensors = tensorsOf(size);
  const bytesOf = (tensor: StoredTensor) =>
    ((tensor.rows * tensor.columns) / blockSize) * stored[formatOf(tensor, format)].blockBytes;
  const facts = metadataOf(size);
  const header = [bytes("GGUF"), u32(3), u64(tensors.length), u64(facts.length), ...facts];
  let offset = 0;
  for (const tensor of tensors) {
    const sizes = tensor.rows === 1 ? [tensor.columns] : [tensor.columns, tensor.rows];
    header.push(text(tensor.name), u32(sizes.length), ...sizes.map(u64), u32(stored[formatOf(tensor, format)].type));
    header.push(u64(offset));
    offset += aligned(bytesOf(tensor));
  }
  const head = Buffer.concat(header);
  const file = openSync(path, "w");
  try {
    let at = writeSync(file, head, 0, head.length, 0);
    at = aligned(at);
    for (const tensor of tensors) {
      const content = stored[formatOf(tensor, format)].pack(valuesOf(tensor));
      writeSync(file, content, 0, content.byteLength, at);
      at += aligned(content.byteLength);
    }
  } finally {
    closeSync(file);
  }
}

/** From the name and place of each number alone. */
function valuesOf({ name, rows, columns }: StoredTensor): Float32Array {
  const values = new Float32Array(rows * columns);
  let state = [...name].reduce((hash, letter) => Math.imul(hash ^ letter.charCodeAt(0), 16777619), 2166136261) >>> 0;
  for (let i = 0; i < values.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const uniform = (state >>> 8) / 2 ** 24 - 0.5;
    values[i] = rows === 1 ? 1 + 0.2 * uniform : uniform / Math.sqrt(columns / 12);
  }
  return values;
}

function packFloats(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer);
}

function pack8(values: Float32Array): Uint8Array {
  return packBlocks(values, stored["8bit"].blockBytes, (block, into) => {
    const scale = block.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
    for (const [i, value] of block.entries()) into.setInt8(2 + i, scale === 0 ? 0 : Math.round(value / scale));
    return scale;
  });
}

/** Numbers of 4 bits less 8; the largest of a block is -8 times its scale. */
function pack4(values: Float32Array): Uint8Array {
  return packBlocks(values, stored["4bit"].blockBytes, (block, into) => {
    const largest = block.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0);
    const scale = largest / -8;
    const at = (i: number) => Math.min(15, Math.trunc((scale === 0 ? 0 : (block[i] as number) / scale) + 8.5));
    for (let i = 0; i < blockSize / 2; i++) into.setUint8(2 + i, at(i) | (at(i + blockSize / 2) << 4));
    return scale;
  });
}

function packBlocks(
  values: Float32Array,
  blockBytes: number,
  pack: (block: Float32Array, into: DataView) => number,
): Uint8Array {
  const blocks = values.length / blockSize;
  const content = new Uint8Array(blocks * blockBytes);
  const scales = new Float32Array(blocks);
  for (let block = 0; block < blocks; block++)
    scales[block] = pack(
      values.subarray(block * blockSize, (block + 1) * blockSize),
      new DataView(content.buffer, block * blockBytes, blockBytes),
    );
  const halves = toFloat16(scales);
  const view = new DataView(content.buffer);
  for (let block = 0; block < blocks; block++) view.setUint16(block * blockBytes, halves[block] as number, true);
  return content;
}

/** llama.cpp wants a vocabulary: one is invented. */
function metadataOf({ layers, width, heads, kvHeads, hidden, vocabulary, context }: LlamaSize): Buffer[] {
  const special = ["<unk>", "<s>", "</s>", ...Array.from({ length: 256 }, (_, i) => `<0x${hex(i)}>`)];
  const tokens = Array.from({ length: vocabulary }, (_, i) => special[i] ?? `t${i}`);
  const kinds = tokens.map((_, i) => (i === 0 ? 2 : i < 3 ? 3 : i < special.length ? 6 : 1));
  return [
    fact("general.architecture", 8, text("llama")),
    fact("general.name", 8, text("random")),
    fact("llama.context_length", 4, u32(context)),
    fact("llama.embedding_length", 4, u32(width)),
    fact("llama.block_count", 4, u32(layers)),
    fact("llama.feed_forward_length", 4, u32(hidden)),
    fact("llama.attention.head_count", 4, u32(heads)),
    fact("llama.attention.head_count_kv", 4, u32(kvHeads)),
    fact("llama.attention.layer_norm_rms_epsilon", 6, f32(1e-5)),
    fact("llama.rope.dimension_count", 4, u32(width / heads)),
    fact("llama.rope.freq_base", 6, f32(10_000)),
    fact("llama.vocab_size", 4, u32(vocabulary)),
    fact("tokenizer.ggml.model", 8, text("llama")),
    fact("tokenizer.ggml.tokens", 9, list(8, tokens.map(text))),
    fact(
      "tokenizer.ggml.scores",
      9,
      list(
        6,
        Array.from(tokens, (_, i) => f32(-i)),
      ),
    ),
    fact("tokenizer.ggml.token_type", 9, list(5, kinds.map(u32))),
    fact("tokenizer.ggml.bos_token_id", 4, u32(1)),
    fact("tokenizer.ggml.eos_token_id", 4, u32(2)),
    fact("tokenizer.ggml.unknown_token_id", 4, u32(0)),
  ];
}

const hex = (byte: number) => byte.toString(16).toUpperCase().padStart(2, "0");
const bytes = (value: string) => Buffer.from(value);
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), bytes(value)]);
const fact = (name: string, type: number, value: Buffer) => Buffer.concat([text(name), u32(type), value]);
const list = (type: number, values: readonly Buffer[]) => Buffer.concat([u32(type), u64(values.length), ...values]);

function u32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32LE(value);
  return buffer;
}

function u64(value: number): Buffer {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64LE(BigInt(value));
  return buffer;
}

function f32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeFloatLE(value);
  return buffer;
}
