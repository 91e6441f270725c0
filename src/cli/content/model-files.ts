// Models between files and the network: weights are uploaded VNode by VNode, and written to files the same way, so
// that no machine needs to hold a whole model in memory.

import type { StateBlob } from "../../client/calls/blobs.ts";
import type { Client } from "../../client/client.ts";
import { fail, hasCode } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { merged } from "../../models/adapters/merge.ts";
import { writePeft } from "../../models/adapters/peft-write.ts";
import { type ChatFormat, parseChatFormat } from "../../models/chats/chat.ts";
import { writeHuggingFace } from "../../models/files/export-huggingface.ts";
import { writeNetworkFile } from "../../models/files/network-file.ts";
import type { ModelPooling } from "../../models/files/pooling-files.ts";
import { storeStates } from "../../models/files/states.ts";
import { adaptersOf } from "../../network/adapters.ts";
import { compileText } from "../../network/compile.ts";
import { BlobSpace } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { Model } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { CommandContext } from "../command.ts";
import { stopIfInterrupted } from "../interruption.ts";
import { bytes, Progress } from "../shown/progress.ts";
import { remoteSink } from "./builtin.ts";

export interface ModelToStore {
  readonly name: string;
  readonly definition: string;
  readonly tokenizer?: string | undefined;
  readonly chat?: ChatFormat | undefined;
  readonly pooling?: ModelPooling | undefined;
  /** Names of the adapters that it holds side by side. */
  readonly adapters?: readonly string[];
  load(parameter: string): Promise<Tensor>;
}

/** Creates the network, uploads the states and registers the model: then it can be served and trained on. */
export async function storeModel(
  { out, signal }: Pick<CommandContext, "out" | "signal">,
  client: Client,
  model: ModelToStore,
): Promise<Model> {
  await refuseKnown(client, model.name);
  await client.networks.create(model.definition, { id: model.name });
  const progress = new Progress(out, model.name, "VNodes");
  const states = await storeStates(model, {
    blobs: remoteSink(client, BlobSpace.STATES),
    onProgress: ({ vnodes, of, bytes: done }) => {
      stopIfInterrupted(signal);
      progress.update(vnodes, of, bytes(done));
    },
  });
  const upload = async (text: string | undefined) =>
    text === undefined ? "" : client.datasets.upload(new TextEncoder().encode(text), BlobSpace.VOCABULARIES);
  return client.models.register({
    name: model.name,
    definition: model.definition,
    states: Object.fromEntries([...states].map(([vnode, state]) => [vnode, state.hash])),
    tokenizer: await upload(model.tokenizer),
    chat: await upload(model.chat && JSON.stringify(model.chat)),
    pooling: model.pooling ?? "",
    adapters: [...(model.adapters ?? [])],
  });
}

/** Better said before gigabytes are sent than after. */
async function refuseKnown(client: Client, name: string): Promise<void> {
  if ((await client.models.list()).some((model) => model.name === name))
    fail("already_exists", `there is a model "${name}" already: choose another --name, or dcnr model remove ${name}`);
}

export interface Exported {
  readonly definition: string;
  readonly tokenizer: string | undefined;
  readonly chat: ChatFormat | undefined;
  readonly step: number;
  readonly bytes: number;
}

export interface StateContent extends Pick<Exported, "definition" | "tokenizer" | "chat" | "step"> {
  weightsOf(vnode: string): Promise<ReadonlyMap<string, Tensor>>;
}

/** What a session's or model's state consists of; weights are downloaded when asked for. */
export async function openState(
  signal: CommandContext["signal"],
  client: Client,
  source: string,
  choice: "last" | "best",
  provisional = false,
): Promise<StateContent> {
  const state = await client.models.describe(source, provisional);
  const best = choice === "best" ? await client.sessions.states(source, "best", provisional) : undefined;
  const blobs = new Map<string, StateBlob>(
    best
      ? best.states.map((blob) => [blob.vnode, blob] as const)
      : state.states.flatMap(({ vnode, blob }) => (blob ? [[vnode, blob] as const] : [])),
  );
  const text = async (blob: StateBlob | undefined) => blob && new TextDecoder().decode(await client.download(blob));
  const format = await text(state.chat);
  const plan = compileText(state.definition);
  return {
    definition: state.definition,
    tokenizer: await text(state.tokenizer),
    chat: format === undefined ? undefined : parseChatFormat(format),
    step: Number(best?.step ?? state.step),
    weightsOf: async (vnode) => {
      stopIfInterrupted(signal);
      const blob = blobs.get(vnode) ?? fail("data_loss", `${source} has no state of VNode ${vnode}`);
      const reader = await client.openState(blob, `the state of VNode ${vnode}`);
      return reader.read(plan.vnodes.find(({ id }) => id === vnode)?.parameters ?? []);
    },
  };
}

/** Parameters one by one; one VNode's are in memory at a time. */
export function loaderOf({ definition, weightsOf }: StateContent): (parameter: string) => Promise<Tensor> {
  const owners = new Map(
    compileText(definition).vnodes.flatMap(({ id, parameters }) => parameters.map(({ name }) => [name, id])),
  );
  let held: { readonly vnode: string; readonly weights: Promise<ReadonlyMap<string, Tensor>> } | undefined;
  return async (parameter) => {
    const vnode = owners.get(parameter) ?? fail("not_found", `the network has no parameter ${parameter}`);
    if (held?.vnode !== vnode) held = { vnode, weights: weightsOf(vnode) };
    return (await held.weights).get(parameter) ?? fail("data_loss", `the state has no weights for ${parameter}`);
  };
}

/** Writes a session's or model's weights with definition and vocabulary into one safetensors file. */
export async function exportState(
  { out, signal }: Pick<CommandContext, "out" | "signal">,
  client: Client,
  source: string,
  path: string,
  choice: "last" | "best" = "last",
  provisional = false,
): Promise<Exported> {
  const { definition, tokenizer, chat, step, weightsOf } = await openState(signal, client, source, choice, provisional);
  const progress = new Progress(out, source, "VNodes");
  const bytesWritten = await writeNetworkFile(
    path,
    {
      definition,
      tokenizer,
      chat,
      notes: { source, step: String(step), ...(await settingsOf(client, source)) },
      weightsOf,
    },
    ({ vnodes, of, bytes: done }) => progress.update(vnodes, of, bytes(done)),
  );
  return { definition, tokenizer, chat, step, bytes: bytesWritten };
}

/** Writes a folder that Hugging Face's programs read. Fails before anything is written if the network is of no family. */
export async function exportFolder(
  { out, signal }: Pick<CommandContext, "out" | "signal">,
  client: Client,
  source: string,
  folder: string,
): Promise<Exported & { readonly family: string }> {
  const state = withoutAdapters(await openState(signal, client, source, "last"));
  const progress = new Progress(out, source, "VNodes");
  const { family, bytes: bytesWritten } = await writeHuggingFace(folder, state, ({ vnodes, of, bytes: done }) =>
    progress.update(vnodes, of, bytes(done)),
  );
  const { definition, tokenizer, chat, step } = state;
  return { definition, tokenizer, chat, step, family, bytes: bytesWritten };
}

/** Other programs know a whole model: what adapters add is added to the weights. */
function withoutAdapters(state: StateContent): StateContent {
  if (adaptersOf(compileText(state.definition)).length === 0) return state;
  const load = loaderOf(state);
  const whole = merged({ definition: state.definition, load });
  const parameters = new Map(
    compileText(whole.definition).vnodes.map((vnode) => [vnode.id as string, vnode.parameters]),
  );
  return {
    ...state,
    definition: whole.definition,
    weightsOf: async (vnode) => {
      const weights = new Map<string, Tensor>();
      for (const { name } of parameters.get(vnode) ?? []) weights.set(name, await whole.load(name));
      return weights;
    },
  };
}

/** Writes adapters alone, as PEFT does. */
export async function exportAdapter(
  { signal }: Pick<CommandContext, "signal">,
  client: Client,
  source: string,
  folder: string,
): Promise<Exported & { readonly family: string }> {
  const state = await openState(signal, client, source, "last");
  const { definition, tokenizer, chat, step } = state;
  const base = compileText(definition).name;
  const { bytes: bytesWritten } = await writePeft(folder, { definition, base, load: loaderOf(state) });
  return { definition, tokenizer, chat, step, bytes: bytesWritten, family: "PEFT" };
}

/** How a session was trained travels with its weights; a model that was imported has no such story. */
async function settingsOf(client: Client, source: string): Promise<{ settings?: string }> {
  try {
    return { settings: (await client.sessions.states(source)).settings };
  } catch (error) {
    if (hasCode(error, "not_found")) return {};
    throw error;
  }
}
