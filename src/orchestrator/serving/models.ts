// Models: trained states under a name. Which replicas serve them is serve.ts's affair.

import { runAside } from "../../core/aside.ts";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { parseId, parseSha256, type SessionId, type Sha256 } from "../../core/ids.ts";
import { parseManifest } from "../../data/manifest.ts";
import { chatFormatBytesMax } from "../../models/chats/chat.ts";
import { checkingChat } from "../../models/works.ts";
import { adapterCountOf } from "../../network/graphs/generation.ts";
import type { Plan } from "../../network/plan.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { usualNumerics } from "../fleet/capacity/usual-numerics.ts";
import type { ModelRecord, SessionRecord } from "../records/sessions.ts";
import { adapterMark, modelNameOf } from "../records/speakers.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { StoredState } from "../records/vnodes.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { storedState } from "../sessions/stored-states.ts";
import { lineToGive } from "../trust/finality.ts";
import { NoSuchModel } from "./text.ts";

export interface TrainedState {
  readonly definition: Sha256;
  readonly network: string;
  readonly step: number;
  readonly states: Readonly<Record<string, StoredState>>;
  readonly tokenizer: string;
  readonly chat: string;
  readonly numerics: "native" | "portable" | "reference";
}

/** What it takes to find a trained state: records, and plans of the networks they belong to. */
export interface StateNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
}

export async function listModels(context: Context): Promise<ModelRecord[]> {
  const models: ModelRecord[] = [];
  for await (const { record } of listItems<ModelRecord>(context.mirror.store, prefix.models)) models.push(record);
  return models;
}

export async function findModel(context: Context, name: string): Promise<ModelRecord> {
  const id = parseId<string>(name, "the model's name");
  const record = await context.mirror.read(key.model(id));
  if (record) return record;
  throw new NoSuchModel(`there is no model "${id}": see dcnr model list, or serve one with dcnr serve SESSION`);
}

/** A model that answers, and which of its adapters: NAME, or NAME:ADAPTER. */
export async function findSpeaker(
  context: Context,
  name: string,
): Promise<{ readonly model: ModelRecord; readonly adapter: number }> {
  const model = await findModel(context, modelNameOf(name));
  if (!name.includes(adapterMark)) return { model, adapter: 0 };
  const wanted = name.slice(model.name.length + 1);
  const index = (model.adapters ?? []).indexOf(wanted);
  if (index >= 0) return { model, adapter: index + 1 };
  const known = (model.adapters ?? []).join(", ");
  throw new NoSuchModel(
    `model ${model.name} has no adapter "${wanted.slice(0, 80)}": ${known ? `it has ${known}` : "it has none at all"}`,
  );
}

/** The newest final state of a session, or any if `provisional`; or the states that were registered under a name. */
export async function findState(needs: StateNeeds, source: string, provisional = false): Promise<TrainedState> {
  const { mirror } = needs.context;
  const id = parseId<SessionId>(source, "the session or model");
  const session = await mirror.read(key.session(id));
  if (session && session.status !== "deleted") return stateOfSession(needs, session, provisional);
  const model = await mirror.read(key.model(id));
  if (!model)
    fail("not_found", `there is neither a session nor a model "${id}": see dcnr session list and dcnr model list`);
  const { definition, network, states, tokenizer, chat = "" } = model;
  return { definition, network, step: 0, states, tokenizer, chat, numerics: usualNumerics(needs.capacity.fleet) };
}

async function stateOfSession(
  { context, compiled }: StateNeeds,
  session: SessionRecord,
  provisional: boolean,
): Promise<TrainedState> {
  const step = lineToGive(session, provisional);
  if (session.line === 0)
    fail("failed_precondition", `session ${session.id} has no stored state yet: let it reach a checkpoint first`);
  if (step === 0)
    fail(
      "failed_precondition",
      `nothing of session ${session.id} is final yet: wait until its results are checked, or take what is provisional`,
    );
  const plan = await compiled.plan(session.identity.definition);
  const states: Record<string, StoredState> = {};
  for (const { id } of plan.vnodes) {
    const record = await context.mirror.read(key.vnode(session.id, id));
    states[id] =
      record?.durable[String(step)] ?? fail("data_loss", `session ${session.id} lacks the state of VNode ${id}`);
  }
  const { definition, numerics, dataset } = session.identity;
  const tokenizer = await tokenizerOf(context, dataset);
  return {
    definition,
    network: session.network,
    step,
    states,
    tokenizer,
    // Ids and templates mean something in one vocabulary only.
    chat: session.chat?.tokenizer === tokenizer ? session.chat.hash : "",
    numerics: servedBy[numerics],
  };
}

/** Processors answer with what GPUs, or machines of all kinds together, have learnt. */
const servedBy = {
  native: "native",
  portable: "portable",
  reference: "reference",
  webgpu: "native",
  cuda: "native",
  exact: "portable",
  mixed: "native",
} as const;

async function tokenizerOf({ blobs }: Context, dataset: Sha256): Promise<string> {
  const content = await blobs.datasets.get(dataset).catch(() => undefined);
  const manifest = content && parseManifest(new TextDecoder().decode(content));
  return manifest?.kind === "tokens" ? (manifest.tokenizer ?? "") : "";
}

export async function registerModel(
  { context, compiled }: Pick<StateNeeds, "context" | "compiled">,
  request: {
    name: string;
    definition: string;
    states: Readonly<Record<string, string>>;
    tokenizer: string;
    chat: string;
    pooling: string;
    adapters: readonly string[];
  },
  owned: Pick<ModelRecord, "owner"> = {},
): Promise<ModelRecord> {
  const { blobs, mirror, world } = context;
  const name = parseId<string>(request.name, "the model's name");
  const plan = await compiled.check(request.definition);
  const states: Record<string, StoredState> = {};
  for (const { id, parameters } of plan.vnodes) {
    if (parameters.length === 0) continue;
    const hash = parseSha256(request.states[id] ?? "", `the state of VNode ${id}`);
    const { bytes } = await storedState(blobs.states, hash, (reason) =>
      fail("failed_precondition", `VNode ${id}: ${reason}: upload it first`),
    );
    states[id] = { hash, bytes };
  }
  const content = new TextEncoder().encode(request.definition);
  await blobs.definitions.put(sha256(content), content, content.byteLength);
  const wanted: ModelRecord = {
    ...owned,
    name,
    source: "import",
    network: plan.name,
    definition: sha256(content),
    states,
    tokenizer: request.tokenizer === "" ? "" : parseSha256(request.tokenizer, "the tokenizer"),
    ...(await chatFacts(context, request.chat)),
    ...(isPooling(request.pooling) === "last" ? { pooling: "last" } : {}),
    ...adapterNames(plan, request.adapters),
    ...factsOf(plan),
    replicas: [],
    createdWallMs: world.clock.wallMs(),
  };
  const { record, written } = await mirror.update(key.model(name), (current) => (current ? undefined : wanted));
  if (!written)
    fail("already_exists", `there is a model "${name}" already: choose another name, or stop and delete it`);
  return record as ModelRecord;
}

/** As many names as the network has adapters, each of them once. */
function adapterNames(plan: Plan, names: readonly string[]): Pick<ModelRecord, "adapters"> {
  const count = adapterCountOf(plan);
  if (names.length !== count)
    fail("invalid_argument", `${names.length} adapters are named, the network holds ${count}`);
  const adapters = names.map((name) => parseId<string>(name, "an adapter's name"));
  if (new Set(adapters).size < count) fail("invalid_argument", "two adapters have the same name");
  return count === 0 ? {} : { adapters };
}

function isPooling(pooling: string): string {
  if (!["", "mean", "last"].includes(pooling))
    fail("invalid_argument", `pooling is "${pooling.slice(0, 40)}": it must be mean or last`);
  return pooling;
}

export async function chatFacts(context: Context, chat: string): Promise<Pick<ModelRecord, "chat" | "converses">> {
  if (chat === "") return {};
  const { template } = await runAside(context.aside, checkingChat, await chatText(context, chat));
  return { chat, converses: template !== "" };
}

/** A chat format as it was uploaded: nobody has read it yet. */
export async function chatText(context: Context, chat: string): Promise<string> {
  const hash = parseSha256(chat, "the chat format");
  const { vocabularies } = context.blobs;
  const bytes = await vocabularies.size(hash);
  if (bytes === undefined) fail("failed_precondition", "the chat format was not uploaded");
  if (bytes > chatFormatBytesMax)
    fail("resource_exhausted", `the chat format has ${bytes} bytes, at most ${chatFormatBytesMax} are allowed`);
  return new TextDecoder().decode(await vocabularies.get(hash));
}

export function factsOf(plan: Plan): Pick<ModelRecord, "parameters" | "context" | "vocabulary"> {
  const parameters = plan.vnodes.flatMap((vnode) => vnode.parameters);
  const isText = plan.inputs?.wire === "int32" && plan.inputs.shape.length === 1;
  return {
    parameters: parameters.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0),
    context: isText ? (plan.inputs?.shape[0] ?? 0) : 0,
    vocabulary: plan.inputs?.below ?? 0,
  };
}
