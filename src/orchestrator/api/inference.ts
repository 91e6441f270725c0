// InferenceService: models, generation, forward passes, API keys.

import type { BlobSpaceName } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { parseSha256 } from "../../core/ids.ts";
import { parseManifest } from "../../data/manifest.ts";
import type { ChatTurn } from "../../models/chats/chat-template.ts";
import { type ChatMessage, type GenerateRequest, InferenceService } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import { checksOf } from "../answers/shown.ts";
import type { Context } from "../context.ts";
import type { Assignments } from "../fleet/attached/assignments.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { checkDataset } from "../rights/belongings.ts";
import { type ApiKeys, type KeyRecord, ownerOf } from "../rights/keys.ts";
import { ownedBy } from "../rights/limits.ts";
import type { Gateway } from "../serving/gateway.ts";
import { findModel, findState, listModels, registerModel } from "../serving/models.ts";
import { serveModel, stopModel } from "../serving/serve.ts";
import { guessingOf, statusOf, weightsOf } from "../serving/status.ts";
import { maxTokensDefault, type TextRequest, turnsMax } from "../serving/text.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Garbage } from "../sessions/garbage.ts";
import { manifestOf } from "../sessions/stored-states.ts";
import type { Views } from "../views/views.ts";
import type { Controller } from "../workloads/controller.ts";
import { samplesAsTensor } from "./samples.ts";

export interface InferenceApiNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
  readonly controller: Controller;
  readonly garbage: Garbage;
  readonly assignments: Assignments;
  readonly views: Views;
}

const downloadLifetimeMs = 60 * 60_000;
/** Addresses are some hundred bytes each. */
const partsAtOnceMax = 256;

export function inferenceService(needs: InferenceApiNeeds, gateway: Gateway, keys: ApiKeys): ServedService {
  return service(InferenceService, {
    serveModel: async (request, { caller }) => ({ model: view(needs, await serveModel(needs, request, caller.roles)) }),
    registerModel: async (request, { caller }) => ({
      model: view(needs, await registerModel(needs, request, ownedBy(caller.roles))),
    }),
    stopModel: async ({ name, forget }) => {
      await stopModel(needs, name, forget);
      return {};
    },
    listModels: async () => ({ models: (await listModels(needs.context)).map((model) => view(needs, model)) }),
    describeState: async ({ source, provisional }) => {
      const { definition, network, step, states, tokenizer, chat } = await findState(needs, source, provisional);
      return {
        definition: await needs.compiled.text(definition),
        network,
        step: BigInt(step),
        states: await Promise.all(
          Object.entries(states).map(async ([vnode, { hash, bytes }]) => ({
            vnode,
            blob: { ...(await granted(needs, "states", hash)), bytes: BigInt(bytes) },
          })),
        ),
        ...(tokenizer ? { tokenizer: await granted(needs, "vocabularies", tokenizer) } : {}),
        ...(chat ? { chat: await granted(needs, "vocabularies", chat) } : {}),
      };
    },
    grantParts: async ({ state, first, count }) => {
      const manifest = await manifestOf(needs.context.blobs.states, parseSha256(state, "the state"));
      const wanted = manifest.parts.slice(first, first + Math.min(count, partsAtOnceMax));
      return { parts: await Promise.all(wanted.map((hash) => granted(needs, "states", hash))) };
    },
    generate: async function* (request, context) {
      const { sampling } = request;
      const pieces = gateway.generate(
        {
          model: request.model,
          prompt: promptOf(request),
          maxTokens: request.maxTokens || maxTokensDefault,
          sampling: {
            temperature: sampling?.temperature ?? 0,
            topK: sampling?.topK ?? 0,
            topP: sampling?.topP || 1,
            repetitionPenalty: sampling?.repetitionPenalty || 1,
            frequencyPenalty: sampling?.frequencyPenalty ?? 0,
            presencePenalty: sampling?.presencePenalty ?? 0,
            logitBias: sampling?.logitBias ?? {},
            seed: Number(sampling?.seed ?? 0n),
          },
          stop: request.stop,
          schema: request.schema,
        },
        context.signal,
      );
      for await (const piece of pieces) yield { ...piece, tokens: [...piece.tokens], finish: piece.finish ?? "" };
    },
    embed: async ({ model, text, tokens }, { signal }) => {
      const { vector, promptTokens } = await gateway.embed(
        { model, prompt: tokens.length > 0 ? tokens : text },
        signal,
      );
      return { values: [...vector], promptTokens };
    },
    forward: async ({ model: name, inputs, dataset, split, start, count }, { signal, caller }) => {
      if (dataset !== "") await checkDataset(needs.context.mirror, caller.roles, dataset);
      const model = await findModel(needs.context, name);
      const which = { split, start: Number(start), count: Math.max(1, count), context: model.context };
      const given = dataset === "" ? inputs : { inputs: await referenced(needs, dataset, which) };
      const { outputs } = await gateway.forward(model, given, signal);
      return { outputs };
    },
    createApiKey: async ({ lifetimeSeconds, ...wish }) => {
      const { key: made, secret } = await keys.create({ ...wish, lifetimeMs: Number(lifetimeSeconds) * 1_000 });
      return { key: keyView(made), secret };
    },
    listApiKeys: async () => ({ keys: (await keys.list()).map(keyView) }),
    deleteApiKey: async ({ id }) => {
      await keys.delete(id);
      return {};
    },
  });
}

async function granted({ context }: InferenceApiNeeds, space: BlobSpaceName, text: string) {
  const hash = parseSha256(text, "the blob's name");
  const blobs = context.blobs[space];
  const size = (await blobs.size(hash)) ?? fail("data_loss", `the blob ${hash} is gone`);
  const { url, headers } = await blobs.grant("download", hash, size, downloadLifetimeMs);
  return { hash, bytes: BigInt(size), url, headers: { ...headers } };
}

async function referenced(
  { context }: InferenceApiNeeds,
  dataset: string,
  which: { split: string; start: number; count: number; context: number },
) {
  const record = await context.mirror.read(key.dataset(dataset));
  if (!record) fail("not_found", `there is no dataset ${dataset}: dcnr dataset list shows them`);
  const manifest = parseManifest(new TextDecoder().decode(await context.blobs.datasets.get(record.hash)));
  return samplesAsTensor(context.blobs.datasets, manifest, which);
}

function promptOf({ messages, tokens, prompt }: GenerateRequest): TextRequest["prompt"] {
  if (messages.length > turnsMax)
    fail("invalid_argument", `a conversation has ${messages.length} messages, at most ${turnsMax} are allowed`);
  if (messages.length > 0) return { turns: messages.map(turnOf) };
  return tokens.length > 0 ? tokens : prompt;
}

function turnOf({ role, content }: ChatMessage): ChatTurn {
  if (role === "system" || role === "user" || role === "assistant") return { role, content };
  return fail("invalid_argument", `a message has the role "${role}": it must be system, user or assistant`);
}

export function keyView(record: KeyRecord) {
  const { id, name, scopes, networks = [], ownOnly = false, requestsPerMinute, hash } = record;
  const { createdWallMs, expiresWallMs = 0, lastUsedWallMs = 0 } = record;
  return {
    ...{ id, name, owner: ownerOf(record), scopes: [...scopes], networks: [...networks], ownOnly, requestsPerMinute },
    personal: hash === undefined,
    createdWallMs: BigInt(Math.round(createdWallMs)),
    expiresWallMs: BigInt(Math.round(expiresWallMs)),
    lastUsedWallMs: BigInt(Math.round(lastUsedWallMs)),
  };
}

function view(needs: InferenceApiNeeds, model: ModelRecord) {
  return {
    name: model.name,
    ...statusOf(needs, model),
    source: model.source,
    network: model.network,
    parameters: BigInt(model.parameters),
    context: model.context,
    vocabulary: model.vocabulary,
    hasTokenizer: model.tokenizer !== "",
    hasChatTemplate: model.converses ?? false,
    replicas: model.replicas.length,
    leastReplicas: model.scaling?.least ?? 0,
    mostReplicas: model.scaling?.most ?? 0,
    ...weightsOf(needs, model),
    ...guessingOf(needs, model),
    ...checksOf(needs.context, model),
    sessions: [...model.replicas],
    adapters: [...(model.adapters ?? [])],
    createdWallMs: BigInt(model.createdWallMs),
  };
}
