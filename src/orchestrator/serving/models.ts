// Models: trained states under a name, and the sessions that serve them. Serving is a session like any other to
// placement and recovery; only its PNodes answer instead of learning.

import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { type NetworkId, parseId, parseSha256, type SessionId, type Sha256 } from "../../core/ids.ts";
import { parseManifest } from "../../data/manifest.ts";
import { compileText } from "../../network/compile.ts";
import type { Plan } from "../../network/plan.ts";
import { operatorSet } from "../../network/session.ts";
import type { Requirements } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { listItems } from "../../store/update.ts";
import type { Parts } from "../parts.ts";
import { key, type SessionRecord, type SessionRequirements, type StoredState, type VNodeRecord } from "../records.ts";
import { requirementsOf } from "../settings.ts";

export interface ModelRecord {
  readonly name: string;
  /** The session or import it comes from. */
  readonly source: string;
  readonly network: string;
  readonly definition: Sha256;
  readonly states: Readonly<Record<string, StoredState>>;
  readonly tokenizer: string;
  readonly parameters: number;
  readonly context: number;
  readonly vocabulary: number;
  /** Sessions that serve it; none while it is stopped. */
  readonly sessions: readonly SessionId[];
  readonly createdWallMs: number;
}

export interface TrainedState {
  readonly definition: Sha256;
  readonly network: string;
  readonly step: number;
  readonly states: Readonly<Record<string, StoredState>>;
  readonly tokenizer: string;
  readonly numerics: "native" | "portable" | "reference";
}

export const modelPrefix = "model/";
const replicasMax = 8;

export async function listModels({ context }: Parts): Promise<ModelRecord[]> {
  const models: ModelRecord[] = [];
  for await (const { record } of listItems<ModelRecord>(context.mirror.store, modelPrefix)) models.push(record);
  return models;
}

export async function findModel({ context }: Parts, name: string): Promise<ModelRecord> {
  const id = parseId<string>(name, "the model's name");
  const record = await context.mirror.read<ModelRecord>(key.model(id));
  return (
    record ?? fail("not_found", `there is no model "${id}": see dcnr model list, or serve one with dcnr serve SESSION`)
  );
}

/** The newest state of a session, or the states that were registered under a name. */
export async function findState(parts: Parts, source: string): Promise<TrainedState> {
  const { mirror } = parts.context;
  const id = parseId<SessionId>(source, "the session or model");
  const session = await mirror.read<SessionRecord>(key.session(id));
  if (session && !session.serving && session.status !== "deleted") return stateOfSession(parts, session);
  const model = await mirror.read<ModelRecord>(key.model(id));
  if (!model)
    fail("not_found", `there is neither a session nor a model "${id}": see dcnr session list and dcnr model list`);
  const { definition, network, states, tokenizer } = model;
  return { definition, network, step: 0, states, tokenizer, numerics: "native" };
}

async function stateOfSession({ context, compiled }: Parts, session: SessionRecord): Promise<TrainedState> {
  if (session.line === 0)
    fail("failed_precondition", `session ${session.id} has no stored state yet: let it reach a checkpoint first`);
  const plan = await compiled.plan(session.identity.definition);
  const states: Record<string, StoredState> = {};
  for (const { id } of plan.vnodes) {
    const record = await context.mirror.read<VNodeRecord>(key.vnode(session.id, id));
    states[id] =
      record?.durable[String(session.line)] ??
      fail("data_loss", `session ${session.id} lacks the state of VNode ${id}`);
  }
  const { definition, numerics, dataset } = session.identity;
  return {
    definition,
    network: session.network,
    step: session.line,
    states,
    tokenizer: await tokenizerOf(context, dataset),
    numerics,
  };
}

async function tokenizerOf({ blobs }: Parts["context"], dataset: Sha256): Promise<string> {
  const content = await blobs.get(dataset).catch(() => undefined);
  const manifest = content && parseManifest(new TextDecoder().decode(content));
  return manifest?.kind === "tokens" ? (manifest.tokenizer ?? "") : "";
}

export async function registerModel(
  parts: Parts,
  request: { name: string; definition: string; states: Readonly<Record<string, string>>; tokenizer: string },
): Promise<ModelRecord> {
  const { blobs, mirror, world } = parts.context;
  const name = parseId<string>(request.name, "the model's name");
  const plan = compileText(request.definition);
  const states: Record<string, StoredState> = {};
  for (const { id, parameters } of plan.vnodes) {
    if (parameters.length === 0) continue;
    const hash = parseSha256(request.states[id] ?? "", `the state of VNode ${id}`);
    const bytes = (await blobs.size(hash)) ?? fail("failed_precondition", `the state of VNode ${id} was not uploaded`);
    states[id] = { hash, bytes };
  }
  const content = new TextEncoder().encode(request.definition);
  await blobs.put(sha256(content), content, content.byteLength);
  const wanted: ModelRecord = {
    name,
    source: "import",
    network: plan.name,
    definition: sha256(content),
    states,
    tokenizer: request.tokenizer === "" ? "" : parseSha256(request.tokenizer, "the tokenizer"),
    ...factsOf(plan),
    sessions: [],
    createdWallMs: world.clock.wallMs(),
  };
  const { record, written } = await mirror.update<ModelRecord>(key.model(name), (current) =>
    current ? undefined : wanted,
  );
  if (!written)
    fail("already_exists", `there is a model "${name}" already: choose another name, or stop and delete it`);
  return record as ModelRecord;
}

function factsOf(plan: Plan): Pick<ModelRecord, "parameters" | "context" | "vocabulary"> {
  const parameters = plan.vnodes.flatMap((vnode) => vnode.parameters);
  const isText = plan.inputs?.wire === "int32" && plan.inputs.shape.length === 1;
  return {
    parameters: parameters.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0),
    context: isText ? (plan.inputs?.shape[0] ?? 0) : 0,
    vocabulary: plan.inputs?.below ?? 0,
  };
}

export async function serveModel(
  parts: Parts,
  request: { name: string; source: string; replicas: number; requirements?: Requirements | undefined },
): Promise<ModelRecord> {
  const { mirror, world, events } = parts.context;
  const trained = await findState(parts, request.source);
  const plan = await parts.compiled.plan(trained.definition);
  const name = parseId<string>(request.name || trained.network, "the model's name");
  await refuseImportedName(parts, name, request.source);
  const replicas = Math.min(replicasMax, Math.max(1, request.replicas));
  const sessions = Array.from({ length: replicas }, (_, index) => servingId(name, trained, index));
  const requirements = requirementsOf({ requirements: request.requirements } as Parameters<typeof requirementsOf>[0]);
  for (const id of sessions) await startServing(parts, id, name, plan, trained, requirements);
  const { record } = await mirror.update<ModelRecord>(key.model(name), (current) => {
    if (current?.source === "import" && request.source === name) return { ...current, sessions };
    const fresh = { name, source: request.source, network: trained.network, createdWallMs: world.clock.wallMs() };
    const { definition, states, tokenizer } = trained;
    return { ...(current ?? fresh), definition, states, tokenizer, ...factsOf(plan), source: request.source, sessions };
  });
  events.emit("info", "model.serving", `model ${name} serves the state of ${request.source} at step ${trained.step}`);
  return record as ModelRecord;
}

/** What was imported under a name is not replaced by serving something else under it. */
async function refuseImportedName({ context }: Parts, name: string, source: string): Promise<void> {
  const known = name === source ? undefined : await context.mirror.read<ModelRecord>(key.model(name));
  if (known?.source === "import")
    fail("already_exists", `there is an imported model "${name}": serve ${source} under another name with --name`);
}

function servingId(name: string, { states, definition }: TrainedState, index: number): SessionId {
  const hash = sha256(
    definition,
    ...Object.entries(states).map(([vnode, { hash: state }]) => `${vnode}=${state}`),
    String(index),
  );
  return `serve-${name}-${hash.slice(0, 12)}` as SessionId;
}

async function startServing(
  { context, controller }: Parts,
  id: SessionId,
  model: string,
  plan: Plan,
  trained: TrainedState,
  requirements: SessionRequirements,
): Promise<void> {
  const nowMs = context.world.clock.wallMs();
  const wanted: SessionRecord = {
    id,
    network: trained.network as NetworkId,
    dataset: "",
    identity: servingIdentity(trained),
    policy: { checkpointEvery: 1, replicas: 1 },
    requirements,
    status: "running",
    reason: "",
    vnodes: plan.vnodes.map((vnode) => vnode.id),
    line: 0,
    lineBefore: 0,
    stepRoot: "",
    numericsClass: "",
    createdWallMs: nowMs,
    startedWallMs: nowMs,
    endedWallMs: 0,
    ranMs: 0,
    initialStates: trained.states,
    serving: { model },
  };
  await context.mirror.update<SessionRecord>(key.session(id), (current) =>
    current?.status === "running" || current?.status === "waiting" ? undefined : wanted,
  );
  controller.touch(id, true);
}

/** Placement asks for a batch and steps; an answer is one sample, and there is no last one. */
function servingIdentity({ definition, numerics }: TrainedState): SessionRecord["identity"] {
  return {
    definition,
    dataset: sha256(""),
    split: "",
    validationSplit: "",
    steps: Number.MAX_SAFE_INTEGER,
    batch: 1,
    microbatches: 1,
    seed: 0,
    numerics,
    operatorSet,
    learningRate: { schedule: "constant", base: 0, warmupSteps: 0, finalShare: 0 },
    clipNorm: 0,
    validateEvery: 0,
    validationMicrobatches: 0,
    initialState: "",
  };
}

export async function stopModel(parts: Parts, name: string, forget: boolean): Promise<void> {
  const model = await findModel(parts, name);
  const { mirror, events } = parts.context;
  for (const id of model.sessions) {
    await mirror.update<SessionRecord>(key.session(id), (current) =>
      current && current.status !== "suspended" ? { ...current, status: "suspended", reason: "" } : undefined,
    );
    parts.controller.touch(id, true);
  }
  // An imported model stays to be served again; one made from a session goes with it.
  if (forget || model.source !== "import") {
    await mirror.remove(key.model(name));
    parts.garbage.add(Object.values(model.states).map(({ hash }) => hash));
  } else
    await mirror.update<ModelRecord>(key.model(name), (current) =>
      current ? { ...current, sessions: [] } : undefined,
    );
  events.emit("info", "model.stopped", `model ${name} is no longer served`);
}
