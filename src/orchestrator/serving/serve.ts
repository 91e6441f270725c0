// Models that are served: each replica is a session like any other to placement and recovery; only its PNodes answer
// instead of learning.

import { bits } from "../../core/bits.ts";
import { fail } from "../../core/errors.ts";
import { canonicalJson, sha256 } from "../../core/hash.ts";
import { type NetworkId, parseId, type SessionId, type VNodeId } from "../../core/ids.ts";
import type { SessionPolicy, SessionRequirements } from "../../network/session.ts";
import type { Requirements } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Context } from "../context.ts";
import { isLive } from "../fleet/assignments.ts";
import type { Capacity } from "../fleet/capacity.ts";
import { key, type ModelRecord, type SessionRecord } from "../records/records.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Controller } from "../sessions/controller.ts";
import type { Garbage } from "../sessions/garbage.ts";
import { requirementsOf } from "../sessions/settings.ts";
import { chatFacts, factsOf, findModel, findState, type TrainedState } from "./models.ts";

export interface ServeNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
  readonly controller: Controller;
  readonly garbage: Garbage;
}

const replicasMax = 8;
const spreadMax = 1_000;

export interface ServeRequest {
  readonly name: string;
  readonly source: string;
  readonly replicas: number;
  readonly spread: number;
  readonly requirements?: Requirements | undefined;
}

/** How a replica is placed. */
interface Wish {
  readonly model: string;
  readonly trained: TrainedState;
  readonly policy: SessionPolicy;
  readonly requirements: SessionRequirements;
}

/** Replicas that serve the same already go on undisturbed; those that are no longer wanted end. */
export async function serveModel(needs: ServeNeeds, request: ServeRequest): Promise<ModelRecord> {
  const { mirror, world, events } = needs.context;
  const trained = await findState(needs, request.source);
  const plan = await needs.compiled.plan(trained.definition);
  const asked = await mirror.read(key.model(request.source));
  // An imported model has a name of its own, whatever its network was called where it comes from.
  const own = asked?.source === "import" ? asked.name : trained.network;
  const name = parseId<string>(request.name || own, "the model's name");
  const before = await mirror.read(key.model(name));
  if (before?.source === "import" && name !== request.source)
    fail("already_exists", `there is an imported model "${name}": serve ${request.source} under another name`);
  const wish = { model: name, trained, ...placementOf(request) };
  const sessions = await startReplicas(needs, wish, request, before?.sessions ?? [], plan.vnodes);
  const text = { tokenizer: trained.tokenizer, ...(await chatFacts(needs.context, trained.chat)) };
  let replaced: readonly SessionId[] = [];
  const { record } = await mirror.update(key.model(name), (current) => {
    replaced = (current?.sessions ?? []).filter((id) => !sessions.includes(id));
    if (current?.source === "import" && request.source === name) return { ...current, sessions };
    const fresh = { name, network: trained.network, createdWallMs: world.clock.wallMs() };
    const { definition, states } = trained;
    // What the name stood for before must leave nothing behind, such as a template.
    const { createdWallMs } = current ?? fresh;
    return { ...fresh, createdWallMs, definition, states, ...text, ...factsOf(plan), source: request.source, sessions };
  });
  await endServing(needs, replaced);
  events.emit("info", "model.serving", `model ${name} serves the state of ${request.source} at step ${trained.step}`);
  return record as ModelRecord;
}

function placementOf({ spread, requirements }: ServeRequest): Pick<Wish, "policy" | "requirements"> {
  if (spread > spreadMax) fail("invalid_argument", `spread is ${spread}, at most ${spreadMax} is allowed`);
  return {
    policy: { checkpointEvery: 1, replicas: 1, ...(spread > 1 ? { spread } : {}) },
    requirements: requirementsOf({ requirements } as Parameters<typeof requirementsOf>[0]),
  };
}

async function startReplicas(
  needs: ServeNeeds,
  wish: Wish,
  { replicas }: ServeRequest,
  known: readonly SessionId[],
  vnodes: readonly { readonly id: VNodeId }[],
): Promise<SessionId[]> {
  const { mirror, world } = needs.context;
  if (replicas > replicasMax) fail("invalid_argument", `replicas is ${replicas}, at most ${replicasMax} are allowed`);
  const sessions: SessionId[] = [];
  for (const id of known) {
    const record = await mirror.read(key.session(id));
    if (record && isLive(record) && purposeOf(record) === purposeOf(sessionOf(needs, id, wish, vnodes)))
      sessions.push(id);
  }
  sessions.splice(Math.max(1, replicas));
  while (sessions.length < Math.max(1, replicas)) {
    const nonce = Buffer.from(world.chance.bytes(6)).toString("hex");
    const id = `serve-${wish.model}-${nonce}` as SessionId;
    await mirror.update(key.session(id), (current) => (current ? undefined : sessionOf(needs, id, wish, vnodes)));
    needs.controller.touch(id, true);
    sessions.push(id);
  }
  return sessions;
}

/** Two sessions of one purpose answer alike. */
function purposeOf({ identity, policy, requirements, initialStates }: SessionRecord): string {
  return canonicalJson({ identity, policy, requirements, initialStates });
}

function sessionOf(
  { context }: ServeNeeds,
  id: SessionId,
  { model, trained, policy, requirements }: Wish,
  vnodes: readonly { readonly id: VNodeId }[],
): SessionRecord {
  const nowMs = context.world.clock.wallMs();
  return {
    id,
    network: trained.network as NetworkId,
    dataset: "",
    identity: servingIdentity(trained),
    policy,
    requirements,
    status: "running",
    reason: "",
    vnodes: vnodes.map((vnode) => vnode.id),
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
    bits,
    learningRate: { schedule: "constant", base: 0, warmupSteps: 0, finalShare: 0 },
    clipNorm: 0,
    validateEvery: 0,
    validationMicrobatches: 0,
    initialState: "",
  };
}

/** Records of a replica go once its PNodes have been told; the states stay as long as anybody names them. */
async function endServing({ context, controller }: ServeNeeds, sessions: readonly SessionId[]): Promise<void> {
  for (const id of sessions) {
    await context.mirror.update(key.session(id), (current) =>
      current && current.status !== "deleted" ? { ...current, status: "deleted" as const, reason: "" } : undefined,
    );
    controller.touch(id, true);
  }
}

export async function stopModel(needs: ServeNeeds, name: string, forget: boolean): Promise<void> {
  const model = await findModel(needs.context, name);
  const { mirror, events } = needs.context;
  // An imported model stays to be served again; one made from a session goes with it.
  if (forget || model.source !== "import") {
    await mirror.remove(key.model(name));
    needs.garbage.add(Object.values(model.states).map(({ hash }) => hash));
  } else await mirror.update(key.model(name), (current) => (current ? { ...current, sessions: [] } : undefined));
  await endServing(needs, model.sessions);
  events.emit("info", "model.stopped", `model ${name} is no longer served`);
}
