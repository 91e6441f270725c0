// Models that are served: which replicas a model has. Placing them and replacing lost owners is the workloads' controller's.

import { answerBits } from "../../core/bits.ts";
import { fail } from "../../core/errors.ts";
import { canonicalJson } from "../../core/hash.ts";
import { parseId, type ReplicaId, replicaIdOf } from "../../core/ids.ts";
import { checkWeightFormat, parseWeightFormat } from "../../network/weight-format.ts";
import type { Requirements } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Roles } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { ModelRecord, ReplicaRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import { checkBelonging, isLimited, ownedBy } from "../rights/limits.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { type Garbage, hashesOf } from "../sessions/garbage.ts";
import { requirementsOf } from "../sessions/settings.ts";
import { usualAssurance } from "../trust/assurance.ts";
import type { Controller } from "../workloads/controller.ts";
import { type DraftWish, findDraft } from "./draft.ts";
import { endReplica } from "./end-replica.ts";
import { chatFacts, factsOf, findModel, findState } from "./models.ts";

export interface ServeNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
  readonly controller: Controller;
  readonly garbage: Garbage;
}

const replicasMax = 8;
const spreadMax = 1_000;

export interface ServeRequest extends DraftWish {
  readonly name: string;
  readonly source: string;
  readonly replicas: number;
  /** With a most above 0 they come and go by load. */
  readonly leastReplicas?: number;
  readonly mostReplicas?: number;
  readonly spread: number;
  readonly requirements?: Requirements | undefined;
  /** "8bit" or "4bit"; absent, empty and "float32": as they are. */
  readonly weights?: string;
  /** "on" or "off": whether other machines repeat a share of the answers; absent and empty: where strangers may join. */
  readonly audit?: string;
}

/** What a replica is made for. */
type ReplicaWish = Pick<ReplicaRecord, "model" | "identity" | "policy" | "requirements" | "vnodes" | "draft">;

/** Replicas that serve the same already go on undisturbed; those that are no longer wanted end. */
export async function serveModel(needs: ServeNeeds, request: ServeRequest, roles?: Roles): Promise<ModelRecord> {
  const { mirror, world, events } = needs.context;
  const trained = await findState(needs, request.source, request.provisional);
  const plan = await needs.compiled.plan(trained.definition);
  const asked = await mirror.read(key.model(request.source));
  // An imported model has a name of its own, whatever its network was called where it comes from.
  const own = asked?.source === "import" ? asked.name : trained.network;
  const name = parseId<string>(request.name || own, "the model's name");
  const before = await mirror.read(key.model(name));
  if (before && isLimited(roles)) checkBelonging(roles, before, `the model ${name}`);
  if (before?.source === "import" && name !== request.source)
    fail("already_exists", `there is an imported model "${name}": serve ${request.source} under another name`);
  const { definition, states, numerics } = trained;
  const weights = parseWeightFormat(request.weights ?? "");
  checkWeightFormat(weights, numerics);
  const kept = weights && { weights };
  const identity = { definition, numerics, bits: answerBits, states, ...kept };
  const draft = await findDraft(needs, request, { name, plan, tokenizer: trained.tokenizer, numerics }, roles);
  const wish = {
    model: name,
    identity,
    vnodes: plan.vnodes.map(({ id }) => id),
    ...draft,
    ...placementOf(needs.context, request),
  };
  const scaling = scalingOf(request, wish);
  const replicas = await startReplicas(needs, wish, replicasOf(request), before?.replicas ?? []);
  const text = { tokenizer: trained.tokenizer, ...(await chatFacts(needs.context, trained.chat)) };
  let replaced: readonly ReplicaId[] = [];
  const { record } = await mirror.update(key.model(name), (current) => {
    const { scaling: _, ending = [], weights: __, draft: ___, ...unscaled } = current ?? {};
    replaced = [...(current?.replicas ?? []), ...ending.map(({ id }) => id)].filter((id) => !replicas.includes(id));
    if (current?.source === "import" && request.source === name)
      return { ...(unscaled as ModelRecord), ...kept, ...draft, replicas, ...scaling };
    const fresh = { ...ownedBy(roles), name, network: trained.network, createdWallMs: world.clock.wallMs() };
    // What the name stood for before must leave nothing behind, such as a template.
    const { createdWallMs } = current ?? fresh;
    return {
      ...fresh,
      createdWallMs,
      definition,
      states,
      ...text,
      ...factsOf(plan),
      ...kept,
      ...draft,
      ...(asked?.adapters && { adapters: asked.adapters }),
      source: request.source,
      replicas,
      ...scaling,
    };
  });
  await endReplicas(needs, replaced);
  events.emit("info", "model.serving", `model ${name} serves the state of ${request.source} at step ${trained.step}`);
  return record as ModelRecord;
}

function replicasOf({ replicas, leastReplicas, mostReplicas }: ServeRequest): number {
  if (mostReplicas) return Math.max(1, leastReplicas ?? 0);
  if (replicas > replicasMax) fail("invalid_argument", `replicas is ${replicas}, at most ${replicasMax} are allowed`);
  return Math.max(1, replicas);
}

function scalingOf(
  { leastReplicas: least = 0, mostReplicas: most = 0 }: ServeRequest,
  { identity: { numerics, bits: own, weights }, policy, requirements, vnodes }: ReplicaWish,
): Pick<ModelRecord, "scaling"> {
  if (most === 0) return {};
  if (most > replicasMax) fail("invalid_argument", `replicas go to ${most}, at most ${replicasMax} are allowed`);
  if (least > most) fail("invalid_argument", `at least ${least} replicas and at most ${most}: which of them?`);
  const identity = { numerics, bits: own, ...(weights && { weights }) };
  return { scaling: { least, most, identity, policy, requirements, vnodes } };
}

function placementOf(
  context: Context,
  { spread, requirements: wanted, audit = "" }: ServeRequest,
): Pick<ReplicaWish, "policy" | "requirements"> {
  if (spread > spreadMax) fail("invalid_argument", `spread is ${spread}, at most ${spreadMax} is allowed`);
  const requirements = requirementsOf({ requirements: wanted } as Parameters<typeof requirementsOf>[0]);
  if (requirements.maxRuntimeSeconds > 0)
    fail(
      "invalid_argument",
      "a served model has no time limit: leave max_runtime_seconds out, and stop it with dcnr model stop",
    );
  const policy = { ...(spread > 1 ? { spread } : {}), ...(isAudited(context, audit) ? { audit: true as const } : {}) };
  return { policy, requirements };
}

function isAudited(context: Context, audit: string): boolean {
  if (audit !== "" && audit !== "on" && audit !== "off")
    fail("invalid_argument", `audit is "${audit.slice(0, 40)}": choose on or off`);
  return audit === "" ? usualAssurance(context) !== "none" : audit === "on";
}

/** Those of the known that serve the same, and new ones until there are as many as wanted. */
export async function startReplicas(
  needs: ServeNeeds,
  wish: ReplicaWish,
  wanted: number,
  known: readonly ReplicaId[],
): Promise<ReplicaId[]> {
  const { mirror, world } = needs.context;
  const replicas: ReplicaId[] = [];
  for (const id of known) {
    const record = await mirror.read(key.replica(id));
    if (record && isLive(record) && purposeOf(record) === purposeOf(wish)) replicas.push(id);
  }
  replicas.splice(wanted);
  while (replicas.length < wanted) {
    const id = replicaIdOf(wish.model, Buffer.from(world.chance.bytes(6)).toString("hex"));
    const fresh: ReplicaRecord = {
      ...wish,
      id,
      status: "running",
      reason: "",
      numericsClass: "",
      createdWallMs: world.clock.wallMs(),
      endedWallMs: 0,
    };
    await mirror.update(key.replica(id), (current) => (current ? undefined : fresh));
    needs.controller.touch(id, true);
    replicas.push(id);
  }
  return replicas;
}

/** Two replicas of one purpose answer alike, are placed alike and guess alike. */
function purposeOf({ identity, policy, requirements, draft }: ReplicaWish): string {
  return canonicalJson({ identity, policy, requirements, ...(draft && { draft }) });
}

/** Records of a replica go once its PNodes have been told; the states stay as long as anybody names them. */
export async function endReplicas({ context, controller }: ServeNeeds, replicas: readonly ReplicaId[]): Promise<void> {
  for (const id of replicas) {
    await endReplica(context.mirror, id);
    controller.touch(id, true);
  }
}

export async function stopModel(needs: ServeNeeds, name: string, forget: boolean): Promise<void> {
  const model = await findModel(needs.context, name);
  const { mirror, events } = needs.context;
  // An imported model stays to be served again; one made from a session goes with it.
  if (forget || model.source !== "import") {
    await mirror.remove(key.model(name));
    needs.garbage.add([...hashesOf(model), ...hashesOf(model.draft)]);
  } else await mirror.update(key.model(name), (current) => (current ? stoppedModel(current) : undefined));
  await endReplicas(needs, [...model.replicas, ...(model.ending ?? []).map(({ id }) => id)]);
  events.emit("info", "model.stopped", `model ${name} is no longer served`);
}

function stoppedModel({ scaling: _, ending: __, weights: ___, draft: ____, ...model }: ModelRecord): ModelRecord {
  return { ...model, replicas: [] };
}
