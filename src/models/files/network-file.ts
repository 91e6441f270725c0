// A whole network in one safetensors file: every VNode's weights under their parameter names, with the definition and
// the vocabulary in its metadata. Anything that reads safetensors reads the weights; we read all of it back.

import { basename } from "node:path";
import { fail } from "../../core/errors.ts";
import type { VNodeId } from "../../core/ids.ts";
import { type Shape, sameShape, type Tensor } from "../../core/tensor.ts";
import { compileText } from "../../network/compile.ts";
import type { Plan } from "../../network/plan.ts";
import { type ChatFormat, parseChatFormat } from "../chats/chat.ts";
import { openWeightsFile } from "./safetensors.ts";
import { safetensorsHeader, type WriteProgress, writeSafetensors } from "./write-safetensors.ts";

export interface NetworkFile {
  /** The network's own. */
  readonly name: string;
  readonly definition: string;
  /** tokenizer.json; undefined for networks that are not about text. */
  readonly tokenizer: string | undefined;
  readonly chat: ChatFormat | undefined;
  /** One parameter as float32, read when asked for. */
  load(parameter: string): Promise<Tensor>;
}

export interface NetworkContent {
  readonly definition: string;
  readonly tokenizer?: string | undefined;
  readonly chat?: ChatFormat | undefined;
  /** Where it comes from, for people: session, step, settings. */
  readonly notes?: Readonly<Record<string, string>>;
  /** Weights of one VNode by parameter name; asked for in the plan's order, one VNode at a time. */
  weightsOf(vnode: VNodeId): Promise<ReadonlyMap<string, Tensor>>;
}

const format = "dcnr-network-1";

/** Writes the file whole or not at all; returns its size. */
export async function writeNetworkFile(
  path: string,
  content: NetworkContent,
  onProgress: (progress: WriteProgress) => void = () => {},
): Promise<number> {
  const plan = compileText(content.definition);
  const stored = (tensor: Tensor, name: string, shape: Shape) => [checked(tensor, name, shape)];
  const weightsOf = (vnode: VNodeId) => content.weightsOf(vnode);
  return await writeSafetensors(path, { header: headerOf(plan, content), plan, weightsOf, stored, onProgress });
}

function checked(tensor: Tensor, name: string, shape: Shape): Tensor {
  if (tensor.dtype !== "float32" || !sameShape(tensor.shape, shape))
    fail("data_loss", `${name} is ${tensor.dtype} [${tensor.shape}] in the state, needed float32 [${shape}]`);
  return tensor;
}

function headerOf(plan: Plan, { definition, tokenizer, chat, notes }: NetworkContent): Uint8Array {
  const about = { ...(tokenizer ? { tokenizer } : {}), ...(chat ? { chat: JSON.stringify(chat) } : {}) };
  const metadata = { ...notes, format, name: plan.name, definition, ...about };
  const shapes = plan.vnodes.flatMap(({ parameters }) => parameters.map(({ name, shape }) => [name, shape] as const));
  return safetensorsHeader(shapes, metadata);
}

export async function openNetworkFile(path: string): Promise<NetworkFile> {
  const { metadata, weights } = await openWeightsFile(path);
  const definition = metadata["definition"];
  if (metadata["format"] !== format || definition === undefined)
    fail(
      "invalid_argument",
      `${basename(path)} holds weights but no network definition: only files of dcnr session export and dcnr model export can be read alone; for a Hugging Face model give its folder`,
    );
  const plan = compileText(definition);
  const parameters = plan.vnodes.flatMap((vnode) => vnode.parameters);
  for (const { name, shape } of parameters)
    if (!sameShape(weights.shapeOf(name), shape))
      fail(
        "invalid_argument",
        `${basename(path)}: ${name} is [${weights.shapeOf(name)}], its network needs [${shape}]`,
      );
  return {
    name: plan.name,
    definition,
    tokenizer: metadata["tokenizer"],
    chat: metadata["chat"] === undefined ? undefined : parseChatFormat(metadata["chat"]),
    load: (parameter) => weights.load(parameter),
  };
}
