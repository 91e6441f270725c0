// A GGUF file becomes the same as a Hugging Face folder: a network of a family of the table, weights by parameter name, a
// vocabulary. Blocks of small integers become float32, since that is what we train and serve with.

import { basename } from "node:path";
import { fail } from "../../core/errors.ts";
import { float32, type Tensor } from "../../core/tensor.ts";
import { parseChatFormat } from "../chats/chat.ts";
import type { Decoder } from "../decoder.ts";
import { readDecoder } from "../families/read.ts";
import { type ImportedModel, type ImportOptions, modelOf } from "../files/huggingface.ts";
import type { StoredWeights } from "../files/safetensors.ts";
import { type Architecture, architectures, configFrom, nameIn } from "./architectures.ts";
import { type GgufFile, openGguf } from "./file.ts";
import { tokenizerFrom } from "./tokenizer.ts";

/** Llama 3.1's way to stretch positions, as a tensor of factors. */
const ropeTensor = "rope_freqs.weight";

export async function importGguf(path: string, options: ImportOptions = {}): Promise<ImportedModel> {
  const file = await openGguf(path);
  const name = String(file.metadata.get("general.architecture"));
  const architecture =
    (Object.hasOwn(architectures, name) ? architectures[name] : undefined) ??
    fail(
      "unimplemented",
      `the GGUF file is of the architecture "${name.slice(0, 80)}": ${Object.keys(architectures).join(", ")} are supported; others can be imported from their Hugging Face folder`,
    );
  const factors = file.tensors.has(ropeTensor) ? [...((await file.load(ropeTensor)).data as Float32Array)] : undefined;
  const read = readDecoder(configFrom(file, name, architecture, factors), options.context);
  const { tensors } = read.family;
  // Gemma's scales are stored as they are used, not less one.
  const family = architecture.wholeNorms
    ? { ...read.family, tensors: { ...tensors, normsLessOne: false } }
    : read.family;
  const weights = weightsIn(file, architecture, read.decoder);
  const model = await modelOf({ ...read, family }, options.name ?? nameOf(path), weights);
  const { tokenizer, chat } = tokenizerFrom(file.metadata);
  return { ...model, tokenizer, chat: parseChatFormat(JSON.stringify(chat)) };
}

function nameOf(path: string): string {
  const name = basename(path)
    .replace(/\.gguf$/i, "")
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "");
  return name === "" ? "model" : name.slice(0, 60);
}

/** The file's tensors under the names that the table of families has for them. */
function weightsIn(file: GgufFile, architecture: Architecture, decoder: Decoder): StoredWeights {
  const stored = new Map(
    [...file.tensors.keys()].filter((name) => name !== ropeTensor).map((name) => [nameIn(architecture, name), name]),
  );
  const find = (name: string) => stored.get(name) ?? fail("not_found", `the GGUF file has no tensor for "${name}"`);
  return {
    names: [...stored.keys()],
    has: (name) => stored.has(name),
    shapeOf: (name) => file.tensors.get(find(name))?.shape ?? [],
    load: async (name) => {
      const tensor = await file.load(find(name));
      return architecture.interleaved && /\.[qk]_proj\./.test(name) ? halvesApart(tensor, decoder.headDim) : tensor;
    },
  };
}

/** Rows of a head stored as pairs (first of one half, first of the other, ..): one half behind the other. */
function halvesApart({ shape, data }: Tensor, headDim: number): Tensor {
  const width = shape[1] ?? 1;
  const rows = data as Float32Array;
  const apart = new Float32Array(rows.length);
  const half = headDim / 2;
  for (let row = 0; row < (shape[0] as number); row++) {
    const [head, within] = [Math.floor(row / headDim), row % headDim];
    const from = head * headDim + 2 * (within % half) + Math.floor(within / half);
    apart.set(rows.subarray(from * width, (from + 1) * width), row * width);
  }
  return float32(shape, apart);
}
