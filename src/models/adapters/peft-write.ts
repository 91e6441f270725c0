// Writes the adapters of a network as PEFT's own files: adapter_config.json and adapter_model.safetensors, under the names of the
// modules of Transformers. Of matrices that we keep as one, each module gets the same A and its own rows of B.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import { bytesOf, float32, type Tensor } from "../../core/tensor.ts";
import { adaptersOf, withoutAdapters } from "../../network/adapters.ts";
import { compileText } from "../../network/compile.ts";
import { recipesOf } from "../families/tensors.ts";
import { uncook } from "../files/weights.ts";
import { safetensorsHeader } from "../files/write-safetensors.ts";
import { recognise } from "../recognise.ts";
import { peftConfig, peftPrefix } from "./peft-config.ts";

export interface AdapterContent {
  readonly definition: string;
  /** Name of the base, for whoever reads the files. */
  readonly base: string;
  load(parameter: string): Promise<Tensor>;
}

export async function writePeft(folder: string, content: AdapterContent): Promise<{ readonly bytes: number }> {
  const adapters = adaptersOf(compileText(content.definition));
  if (adapters.length === 0)
    fail("failed_precondition", "the network has no adapters: dcnr train --adapter makes some");
  const known =
    recognise(withoutAdapters(content.definition)) ??
    fail(
      "failed_precondition",
      "the network has not the form of a Hugging Face model: PEFT has no names for its parts",
    );
  const { decoder, family, context } = known;
  const recipes = recipesOf(decoder, family, family.tensors.prefixes[0] as string, context);
  const tensors = new Map<string, Tensor>();
  const modules: string[] = [];
  const kinds = new Set<string>();
  for (const { weight, a, b, scale } of adapters) {
    const recipe = recipes.get(weight) ?? fail("failed_precondition", `PEFT has no name for ${weight}`);
    const [first, second] = [await content.load(a), await content.load(b)];
    const rank = first.shape[1] as number;
    kinds.add(`rank ${rank}, alpha ${scale * rank}`);
    for (const [name, stored] of uncook({ ...recipe, width: rank, asOurs: false }, second)) {
      const module = name.replace(/\.weight$/, "");
      // What an import filled up has no part in anything.
      if (isZero(stored) && isZero(first)) continue;
      modules.push(module);
      tensors.set(`${peftPrefix}${module}.lora_A.weight`, turned(first));
      tensors.set(`${peftPrefix}${module}.lora_B.weight`, stored);
    }
  }
  if (kinds.size > 1)
    fail(
      "failed_precondition",
      `adapters of several kinds do not fit one adapter_config.json: ${[...kinds].join("; ")}`,
    );
  const { scale, a } = adapters[0] as (typeof adapters)[number];
  const rank = (await content.load(a)).shape[1] as number;
  const config = peftConfig(rank, scale * rank, modules, {
    turned: family.tensors.turned ?? false,
    base: content.base,
  });
  const parts = [safetensorsHeader([...tensors].map(([name, { shape }]) => [name, shape] as const))];
  for (const tensor of tensors.values()) parts.push(bytesOf(tensor));
  const file = Buffer.concat(parts);
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "adapter_config.json"), `${JSON.stringify(config, null, 2)}\n`);
    await writeFile(join(folder, "adapter_model.safetensors"), file);
  } catch (thrown) {
    fail("failed_precondition", `the folder ${folder} cannot be written: ${messageOf(thrown)}`, thrown);
  }
  return { bytes: file.byteLength };
}

function isZero({ data }: Tensor): boolean {
  return data.every((value) => Number(value) === 0);
}

function turned({ shape, data }: Tensor): Tensor {
  const [rows = 0, columns = 0] = shape;
  const values = new Float32Array(data.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      values[column * rows + row] = data[row * columns + column] as number;
  return float32([columns, rows], values);
}
