// The life of a session: created, started, suspended, resumed, deleted. Each is one conditional write; the
// controller makes it so.

import { fail } from "../../core/errors.ts";
import { canonicalJson, sha256 } from "../../core/hash.ts";
import { type JobId, type NetworkId, parseId, type SessionId } from "../../core/ids.ts";
import { sameShape } from "../../core/tensor.ts";
import { checkDatasetFits } from "../../data/fits.ts";
import { parseManifest } from "../../data/manifest.ts";
import { expandLanes } from "../../network/lanes.ts";
import type { Plan } from "../../network/plan.ts";
import { differences, type SessionIdentity, type SessionPolicy, sessionIdOf } from "../../network/settings/session.ts";
import type { SessionSettings } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { usualNumerics } from "../fleet/capacity/usual-numerics.ts";
import type { NetworkRecord, SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { StoredState } from "../records/vnodes.ts";
import { findState } from "../serving/models.ts";
import { usualAssurance } from "../trust/assurance.ts";
import type { Controller } from "../workloads/controller.ts";
import type { Compiled } from "./compiled.ts";
import { checkRepeatable } from "./repeatable.ts";
import { identityOf, policyOf, requirementsOf } from "./settings.ts";

export interface SessionNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
  readonly controller: Controller;
}

/** The same settings may be run again under another name: "mlp", "mlp-2", … */
const namesMax = 1_000;

/** Whose it is, what runs it, and how far it trains before whoever runs it looks at it. */
export type SessionOrigin = Pick<SessionRecord, "owner" | "job"> & Pick<SessionPolicy, "restAfter">;

export async function createSession(
  needs: SessionNeeds,
  settings: SessionSettings,
  idempotencyKey: string,
  { restAfter, ...owned }: SessionOrigin = {},
): Promise<SessionRecord> {
  const { mirror, events } = needs.context;
  const { network, plan } = await findNetwork(needs, settings.network);
  const identity = await resolveIdentity(needs, settings, plan);
  const initial = await initialOf(needs, settings.initialState, plan);
  const full: SessionIdentity = initial
    ? { ...identity, initialState: sha256(canonicalJson(initial.initialStates)) }
    : identity;
  const base = newRecord(needs, settings, network, plan, full);
  for (let attempt = 1; attempt <= namesMax; attempt++) {
    const id = sessionIdOf(full, attempt === 1 ? network.id : `${network.id}-${attempt}`);
    const wanted: SessionRecord = {
      ...base,
      ...owned,
      policy: restAfter === undefined ? base.policy : { ...base.policy, restAfter },
      id,
      ...(initial && { ...initial, initialStates: inAllLanes(initial.initialStates, plan, full) }),
      ...(idempotencyKey ? { idempotencyKey } : {}),
    };
    const { record, written } = await mirror.update(key.session(id), (current) => (current ? undefined : wanted));
    if (written)
      events.emit(
        "info",
        "session.created",
        `session ${id} is created: ${identity.steps} steps of ${identity.batch} samples`,
        { session: id },
      );
    if (written || (idempotencyKey !== "" && record?.idempotencyKey === idempotencyKey)) return record as SessionRecord;
  }
  fail("resource_exhausted", `network ${network.id} has ${namesMax} sessions with these settings: delete some`);
}

function newRecord(
  needs: SessionNeeds,
  settings: SessionSettings,
  network: NetworkRecord,
  plan: Plan,
  identity: SessionIdentity,
): SessionRecord {
  const policy = policyOf(settings, plan, usualAssurance(needs.context));
  checkRepeatable(plan, identity, policy);
  return {
    id: "" as SessionId,
    network: network.id,
    dataset: settings.dataset,
    identity,
    policy,
    ...(policy.assurance ? { final: 0, drawn: [] } : {}),
    requirements: requirementsOf(settings),
    status: "created",
    reason: "",
    vnodes: expandLanes(plan, identity).vnodes.map((vnode) => vnode.id),
    line: 0,
    lineBefore: 0,
    stepRoot: "",
    settled: 0,
    numericsClass: "",
    createdWallMs: needs.context.world.clock.wallMs(),
    startedWallMs: 0,
    endedWallMs: 0,
    ranMs: 0,
  };
}

async function findNetwork(
  { context, compiled }: SessionNeeds,
  name: string,
): Promise<{ network: NetworkRecord; plan: Plan }> {
  const id = parseId<NetworkId>(name, "the session's network");
  const network = context.mirror.get(key.network(id)) ?? (await context.mirror.read(key.network(id)));
  if (!network) fail("not_found", `there is no network ${id}: create it with \`dcnr network create FILE\``);
  return { network, plan: await compiled.plan(network.definition) };
}

async function resolveIdentity(
  { context, capacity }: SessionNeeds,
  settings: SessionSettings,
  plan: Plan,
): Promise<SessionIdentity> {
  const name = parseId<string>(settings.dataset, "the session's dataset");
  const dataset = await context.mirror.read(key.dataset(name));
  if (!dataset) fail("not_found", `there is no dataset ${name}: add it with \`dcnr dataset add\``);
  const manifest = parseManifest(new TextDecoder().decode(await context.blobs.datasets.get(dataset.hash)));
  const called = { dataset: `dataset ${name}`, network: `network ${plan.name}` };
  checkDatasetFits(manifest, [], plan, called);
  const identity = identityOf(settings, plan, { hash: dataset.hash, manifest }, usualNumerics(capacity.fleet));
  checkDatasetFits(manifest, [identity.split, identity.validationSplit].filter(Boolean), plan, called);
  return identity;
}

/** The newest states of a session, or a registered model's; every parameter of the network must be in them. */
async function initialOf(
  needs: SessionNeeds,
  from: string,
  plan: Plan,
): Promise<Pick<SessionRecord, "initialStates" | "chat"> | undefined> {
  if (from === "") return undefined;
  const { states: found, definition, chat, tokenizer } = await findState(needs, from);
  const known = await needs.compiled.plan(definition);
  const states: Record<string, StoredState> = {};
  for (const vnode of plan.vnodes) {
    const state = found[vnode.id];
    const before = new Map(known.vnodes.find(({ id }) => id === vnode.id)?.parameters.map((one) => [one.name, one]));
    for (const { name, shape, adapter } of vnode.parameters) {
      const given = state && before.get(name)?.shape;
      // An adapter that is not there yet begins here.
      if (adapter && !before.has(name)) continue;
      if (!given || !sameShape(given, shape))
        fail(
          "failed_precondition",
          `network ${plan.name} cannot start from ${from}: it needs ${name} [${shape}] for VNode ${vnode.id}, ${given ? `there it is [${given}]` : "which is not there"}`,
        );
    }
    if (state) states[vnode.id] = state;
  }
  return { initialStates: states, ...(chat ? { chat: { hash: chat, tokenizer } } : {}) };
}

/** All copies of a VNode start from one state. */
function inAllLanes(
  states: Readonly<Record<string, StoredState>> = {},
  plan: Plan,
  identity: SessionIdentity,
): Record<string, StoredState> {
  const { vnodes } = expandLanes(plan, identity);
  return Object.fromEntries(
    vnodes.flatMap(({ id, copy }) => {
      const state = states[copy?.of ?? id];
      return state ? [[id, state]] : [];
    }),
  );
}

/** Starts or resumes; a session that runs already is left alone. */
export async function startSession(
  needs: SessionNeeds,
  id: SessionId,
  expected?: SessionSettings,
  budget = 0,
): Promise<SessionRecord> {
  const { mirror, world, events } = needs.context;
  const known = await mirror.read(key.session(id));
  if (!known || known.status === "deleted") fail("not_found", `there is no session ${id}`);
  if (expected) await refuseDifference(needs, known, expected);
  const { record, written } = await mirror.update(key.session(id), (current) => {
    if (!current) fail("not_found", `there is no session ${id}`);
    if (current.status === "done")
      fail("failed_precondition", `session ${id} is done after ${current.line} steps: create another one`);
    if (current.status === "running" || current.status === "waiting") return undefined;
    return {
      ...current,
      status: "running" as const,
      reason: "",
      ...(current.status !== "created" && restarted(current)),
      policy: budget > 0 ? { ...current.policy, budget } : current.policy,
      startedWallMs: current.startedWallMs || world.clock.wallMs(),
    };
  });
  if (written) {
    await clearFailures(needs, known);
    events.emit("info", "session.started", `session ${id} starts${known.line > 0 ? ` from step ${known.line}` : ""}`, {
      session: id,
    });
  }
  needs.controller.touch(id);
  return record as SessionRecord;
}

/** What its owners had sent is not kept any more: nobody is to blame who cannot show it (trust/silence.ts). */
export function restarted({ restarts = 0 }: SessionRecord): Pick<SessionRecord, "restarts"> {
  return { restarts: restarts + 1 };
}

/** What somebody says when the session of a job is to go on: the job's turn comes later. */
export async function readyToGoOn(
  needs: SessionNeeds,
  session: SessionRecord,
  expected: SessionSettings | undefined,
  budget: number,
): Promise<void> {
  if (expected) await refuseDifference(needs, session, expected);
  if (budget === 0) return;
  await needs.context.mirror.update(key.session(session.id), (current) =>
    current ? { ...current, policy: { ...current.policy, budget } } : undefined,
  );
}

/** Whoever starts a failed session again has dealt with what made it fail. */
export async function clearFailures({ context }: Pick<SessionNeeds, "context">, session: SessionRecord): Promise<void> {
  for (const vnode of session.vnodes) {
    if (!context.mirror.get(key.vnode(session.id, vnode))?.failures.length) continue;
    await context.mirror.update(key.vnode(session.id, vnode), (current) =>
      current && current.failures.length > 0 ? { ...current, failures: [] } : undefined,
    );
  }
}

async function refuseDifference(needs: SessionNeeds, session: SessionRecord, expected: SessionSettings): Promise<void> {
  const { plan } = await findNetwork(needs, expected.network || session.network);
  const wanted = await resolveIdentity(needs, { ...expected, dataset: expected.dataset || session.dataset }, plan);
  const different = differences(session.identity, { ...wanted, initialState: session.identity.initialState });
  if (different.length > 0)
    fail("failed_precondition", `session ${session.id} cannot go on with other settings: ${different.join("; ")}`);
}

export async function suspendSession(
  { context }: Pick<SessionNeeds, "context">,
  id: SessionId,
): Promise<SessionRecord> {
  const { record, written } = await context.mirror.update(key.session(id), (current) => {
    if (!current || current.status === "deleted") fail("not_found", `there is no session ${id}`);
    if (current.status === "suspended") return undefined;
    if (current.status !== "running" && current.status !== "waiting" && current.status !== "created")
      fail("failed_precondition", `session ${id} is ${current.status}: only one that runs can be suspended`);
    return { ...current, status: "suspended" as const, reason: "" };
  });
  if (written)
    context.events.emit("info", "session.suspended", `session ${id} is suspended at step ${record?.line}`, {
      session: id,
    });
  return record as SessionRecord;
}

/** `job`: only as long as it is that job's. Once a session is gone its id is free, and whoever trains by the same settings has it. */
export async function deleteSession({ context, controller }: SessionNeeds, id: SessionId, job?: JobId): Promise<void> {
  await context.mirror.update(key.session(id), (current) => {
    if (!current) fail("not_found", `there is no session ${id}`);
    if (job !== undefined && current.job !== job) return undefined;
    return current.status === "deleted" ? undefined : { ...current, status: "deleted" as const, reason: "" };
  });
  controller.touch(id, true);
}
