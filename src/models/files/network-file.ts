// A whole network in one safetensors file: every VNode's weights under their parameter names, with the definition and
// the vocabulary in its metadata. Anything that reads safetensors reads the weights; we read all of it back.

import { open, rename, rm } from "node:fs/promises";
import { basename } from "node:path";
import { fail } from "../../core/errors.ts";
import type { VNodeId } from "../../core/ids.ts";
import { bytesOf, type Shape, sameShape, type Tensor, tensorBytes } from "../../core/tensor.ts";
import { compileText } from "../../network/compile.ts";
import type { Plan } from "../../network/plan.ts";
import { type ChatFormat, parseChatFormat } from "../chats/chat.ts";
import { openWeightsFile } from "./safetensors.ts";

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

export interface WriteProgress {
  readonly vnodes: number;
  readonly of: number;
  readonly bytes: number;
}

const format = "dcnr-network-1";

/** Writes the file whole or not at all; returns its size. */
export async function writeNetworkFile(
  path: string,
  content: NetworkContent,
  onProgress: (progress: WriteProgress) => void = () => {},
): Promise<number> {
  const plan = compileText(content.definition);
  const part = `${path}.part`;
  const file = await open(part, "w").catch((thrown) =>
    fail("failed_precondition", `${path} cannot be written: ${(thrown as Error).message}`, thrown),
  );
  try {
    const head = headerOf(plan, content);
    await file.writeFile(head);
    let bytes = head.byteLength;
    for (const [index, vnode] of plan.vnodes.entries()) {
      const weights = vnode.parameters.length > 0 ? await content.weightsOf(vnode.id) : new Map<string, Tensor>();
      for (const { name, shape } of vnode.parameters) {
        const data = bytesOf(checked(weights.get(name), name, shape));
        await file.writeFile(data);
        bytes += data.byteLength;
      }
      onProgress({ vnodes: index + 1, of: plan.vnodes.length, bytes });
    }
    await file.sync();
    await file.close();
    await rename(part, path);
    return bytes;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(part, { force: true });
    throw error;
  }
}

function checked(tensor: Tensor | undefined, name: string, shape: Shape): Tensor {
  if (!tensor) fail("data_loss", `the state has no weights for ${name}`);
  if (tensor.dtype !== "float32" || !sameShape(tensor.shape, shape))
    fail("data_loss", `${name} is ${tensor.dtype} [${tensor.shape}] in the state, needed float32 [${shape}]`);
  return tensor;
}

function headerOf(plan: Plan, { definition, tokenizer, chat, notes }: NetworkContent): Uint8Array {
  const about = { ...(tokenizer ? { tokenizer } : {}), ...(chat ? { chat: JSON.stringify(chat) } : {}) };
  const metadata = { ...notes, format, name: plan.name, definition, ...about };
  const header: Record<string, unknown> = { __metadata__: metadata };
  let end = 0;
  for (const { name, shape } of plan.vnodes.flatMap((vnode) => vnode.parameters)) {
    const start = end;
    end += tensorBytes("float32", shape);
    header[name] = { dtype: "F32", shape, data_offsets: [start, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  // Values start at a multiple of 8, so that readers can view them in place.
  const headerBytes = Math.ceil(text.byteLength / 8) * 8;
  const bytes = new Uint8Array(8 + headerBytes).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(headerBytes), true);
  bytes.set(text, 8);
  return bytes;
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
