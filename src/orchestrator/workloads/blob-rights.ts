// Which blobs a PNode may read and write: those that its part in a workload names, and no others. Decided on records; a
// refusal rests on what the store holds, because a mirror that is behind does not know yet whom a VNode was given to.

import { Recent } from "../../core/caches/recent.ts";
import { fail } from "../../core/errors.ts";
import {
  isReplicaId,
  type OrchestratorId,
  type PNodeId,
  type Sha256,
  type VNodeId,
  type WorkloadId,
} from "../../core/ids.ts";
import { blobsOf, parseManifest } from "../../data/manifest.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import type { Statement } from "../../trust/statement.ts";
import { inputHashes } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { Stated } from "../records/checking.ts";
import type { ReplicaRecord, SessionRecord } from "../records/sessions.ts";
import { type Key, key, prefix } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { called, findWorkload, isLive, isReplica } from "../records/workloads.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { isLost, manifestOf } from "../sessions/stored-states.ts";
import { forEachAtOnce } from "../tasks.ts";

/** Manifests of states and of datasets whose blobs are remembered. */
const manifestsKept = 256;
/** Who was told to load what ahead, and which states somebody has begun to read. */
const notesKept = 20_000;
/** A second look into the store for the same PNode and workload waits this long: refusing must stay cheap. */
const lookAgainMs = 1_000;
const readsAtOnce = 32;
/** Loading ahead takes a while; whoever takes over is a member by then. */
const preparingMs = 10 * 60_000;
/** States that one PNode reads for one workload at about the same time; its VNodes are few. */
const begunMax = 63;

type Workload = SessionRecord | ReplicaRecord;

export interface BlobFacts {
  /** Whoever may have to go on with a session by itself reads what it would need: all of its VNodes' states. */
  isCrew(workload: WorkloadId, pnode: PNodeId): boolean;
  /** Of a process of an orchestrator. */
  isAlive(orchestrator: OrchestratorId, incarnation: string): boolean;
}

export class BlobRights {
  readonly #context: Context;
  readonly #compiled: Compiled;
  readonly #blobsOf = new Recent<Sha256, ReadonlySet<Sha256>>(manifestsKept);
  /** VNodes that a PNode prepares for, by PNode and workload. */
  readonly #prepared = new Recent<string, { readonly vnodes: ReadonlySet<VNodeId>; readonly untilMs: number }>(
    notesKept,
  );
  /** A PNode that has begun to read a state reads on when newer ones have taken its place in the record. */
  readonly #begun = new Recent<string, ReadonlySet<Sha256>>(notesKept);
  readonly #looked = new Recent<string, { readonly atMs: number; readonly look: Promise<void> }>(notesKept);

  readonly #facts: BlobFacts;

  constructor(context: Context, compiled: Compiled, facts: BlobFacts) {
    this.#context = context;
    this.#compiled = compiled;
    this.#facts = facts;
  }

  /** It was told to load these VNodes ahead. */
  prepares(pnode: PNodeId, workload: WorkloadId, vnodes: readonly VNodeId[]): void {
    const untilMs = this.#context.world.clock.monotonicMs() + preparingMs;
    this.#prepared.set(nameOf(pnode, workload), { vnodes: new Set(vnodes), untilMs });
  }

  async mayUpload(pnode: PNodeId, workload: string): Promise<void> {
    const found = await findWorkload(this.#context.mirror, workload);
    const mayStore = async () => this.#hosted(found, pnode).size > 0 || this.#auditsOf(found, pnode).length > 0;
    if (!(await this.#orLook(found, pnode, mayStore))) noPart(pnode, found);
  }

  async mayReadState(pnode: PNodeId, workload: string, hash: Sha256): Promise<void> {
    const found = await findWorkload(this.#context.mirror, workload);
    const names = async () =>
      (await this.#namesForAudit(found, pnode, hash)) ||
      (await this.#names(found, this.#partIn(found, pnode), pnode, hash));
    if (await this.#orLook(found, pnode, names)) return;
    if (this.#partIn(found, pnode).size === 0) noPart(pnode, found);
    fail("not_found", `no VNode of ${called(found.id)} that PNode ${pnode} hosts has the state or part ${hash}`);
  }

  async mayReadData(pnode: PNodeId, workload: string, hash: Sha256): Promise<void> {
    const found = await findWorkload(this.#context.mirror, workload);
    const hasPart = async () => this.#partIn(found, pnode).size > 0 || this.#auditsOf(found, pnode).length > 0;
    if (!(await this.#orLook(found, pnode, hasPart))) noPart(pnode, found);
    if (isReplica(found)) fail("permission_denied", `${called(found.id)} answers: no data belong to it`);
    const { dataset } = found.identity;
    if (hash !== dataset && !(await this.#shardsOf(dataset)).has(hash))
      fail("permission_denied", `the data of ${called(found.id)} have no blob ${hash}`);
  }

  /** Whoever hosts a part of a model that answers reads how its tokens are written, and nothing of other models. */
  async mayReadVocabulary(pnode: PNodeId, workload: string, hash: Sha256): Promise<void> {
    const found = await findWorkload(this.#context.mirror, workload);
    if (!(await this.#orLook(found, pnode, async () => this.#partIn(found, pnode).size > 0))) noPart(pnode, found);
    const model = isReplica(found) ? await this.#context.mirror.read(key.model(found.model)) : undefined;
    if (model?.tokenizer !== hash) fail("permission_denied", `${called(found.id)} has no vocabulary ${hash}`);
  }

  /** What it is asked to repeat, with what it may know for that: never what should come out. */
  #auditsOf({ id }: Workload, pnode: PNodeId): { readonly premise: Listed; readonly against: string }[] {
    return this.#context.mirror.under(prefix.intervalsOf(id)).flatMap(({ audits }) =>
      Object.values(audits).flatMap(({ tasks, stated }) => {
        const task = tasks.find((one) => one.pnode === pnode && one.result === undefined && !one.gaveUp);
        const [first] = stated;
        return task && first ? premisesOf(first).map((premise) => ({ premise, against: task.against ?? "" })) : [];
      }),
    );
  }

  /** The state to begin with, the messages that went in, and a state to compare with where there is one. */
  async #namesForAudit(workload: Workload, pnode: PNodeId, hash: Sha256): Promise<boolean> {
    for (const { premise, against } of this.#auditsOf(workload, pnode)) {
      const { before, inputs } = premise;
      if (hash === inputs || (await this.#messagesOf(premise)).has(hash)) return true;
      for (const state of [before, against])
        if (state !== "" && (state === hash || (await this.#partsOf(state as Sha256)).has(hash))) return true;
    }
    return false;
  }

  /** A message that somebody who repeats an interval needs. */
  async isAwaited(workload: string, hash: Sha256): Promise<boolean> {
    for (const { audits } of this.#context.mirror.under(prefix.intervalsOf(workload)))
      for (const { stated, outcome } of Object.values(audits))
        for (const premise of stated.flatMap(premisesOf))
          if (outcome === undefined && (await this.#messagesOf(premise)).has(hash)) return true;
    return false;
  }

  async #messagesOf({ session, vnode, from, to, inputs }: Listed): Promise<ReadonlySet<Sha256>> {
    const known = this.#blobsOf.get(inputs);
    if (known) return known;
    try {
      const { aside, blobs } = this.#context;
      const hashes = await inputHashes(aside, await blobs.states.get(inputs), { session, vnode, from, to });
      const names = new Set(hashes as Sha256[]);
      this.#blobsOf.set(inputs, names);
      return names;
    } catch (thrown) {
      if (isLost(thrown)) return new Set();
      throw thrown;
    }
  }

  /** The VNodes that the PNode hosts or prepares for. */
  #partIn(workload: Workload, pnode: PNodeId): Set<VNodeId> {
    if (this.#facts.isCrew(workload.id, pnode) || this.#checksAnswers(workload, pnode)) return new Set(workload.vnodes);
    const hosted = this.#hosted(workload, pnode);
    const prepared = this.#prepared.get(nameOf(pnode, workload.id));
    const isDue = prepared !== undefined && prepared.untilMs > this.#context.world.clock.monotonicMs();
    return isDue && isLive(workload) ? hosted.union(prepared.vnodes) : hosted;
  }

  /** Whoever repeats an answer needs the whole model for it. */
  #checksAnswers({ id }: Workload, pnode: PNodeId): boolean {
    const { tasks = [] } = this.#context.mirror.get(key.checks(id)) ?? {};
    // Whoever asked for it may have died before it said that it is over; its clock says nothing here.
    return tasks.some((task) => task.pnode === pnode && this.#facts.isAlive(task.orchestrator, task.incarnation));
  }

  /** Whether a state of these VNodes has this name, or a part with it. */
  async #names(workload: Workload, vnodes: ReadonlySet<VNodeId>, pnode: PNodeId, hash: Sha256): Promise<boolean> {
    if (vnodes.size === 0) return false;
    const name = nameOf(pnode, workload.id);
    const begun = this.#begun.get(name) ?? new Set<Sha256>();
    // Whoever reads a part has begun with the manifest that names it.
    for (const state of begun) if ((await this.#partsOf(state)).has(hash)) return true;
    const states = await this.#statesFor(workload, vnodes);
    if (states.has(hash) || begun.has(hash)) {
      this.#begun.set(name, new Set([...[...begun].slice(-begunMax), hash]));
      return true;
    }
    for (const state of states) if ((await this.#partsOf(state)).has(hash)) return true;
    return false;
  }

  /** Asks again after a look into the store if the mirror says no. */
  async #orLook(workload: Workload, pnode: PNodeId, holds: () => Promise<boolean>): Promise<boolean> {
    if (await holds()) return true;
    const again = await this.#look(workload, pnode);
    if (await holds()) return true;
    if (again)
      fail("unavailable", `nothing new is known of PNode ${pnode} in ${called(workload.id)}: ask again in a second`);
    return false;
  }

  #hosted({ id, vnodes }: Workload, pnode: PNodeId): Set<VNodeId> {
    const hosts = (record: VNodeRecord | undefined) => record?.members.some((member) => member.pnode === pnode);
    return new Set(vnodes.filter((vnode) => hosts(this.#context.mirror.get(key.vnode(id, vnode)))));
  }

  /** Brings the mirror up to what the store says of the workload's VNodes; true if that was done a moment ago. */
  async #look({ id, vnodes }: Workload, pnode: PNodeId): Promise<boolean> {
    const { world, mirror } = this.#context;
    const name = nameOf(pnode, id);
    const nowMs = world.clock.monotonicMs();
    const before = this.#looked.get(name);
    if (before !== undefined && nowMs < before.atMs + lookAgainMs) {
      await before.look;
      return true;
    }
    const records = [...vnodes.map((vnode) => key.vnode(id, vnode)), ...(isReplicaId(id) ? [key.checks(id)] : [])];
    const look = forEachAtOnce<Key<object>>(records, readsAtOnce, (record) => mirror.read(record));
    this.#looked.set(name, { atMs: nowMs, look });
    look.catch(() => this.#looked.delete(name));
    await look;
    return false;
  }

  async #statesFor(workload: Workload, vnodes: ReadonlySet<VNodeId>): Promise<Set<Sha256>> {
    const states = new Set<Sha256>();
    if (isReplica(workload)) {
      const { definition, states: weights } = workload.identity;
      const plan = await this.#compiled.plan(definition);
      // Tied weights are read from the state of the VNode that they belong to.
      const tied = plan.edges.filter(({ kind, to }) => kind === "tie" && vnodes.has(to)).map(({ from }) => from);
      for (const vnode of [...vnodes, ...tied]) if (weights[vnode]) states.add(weights[vnode].hash);
      if (vnodes.has(generationHead(plan).vnode as VNodeId))
        for (const { hash } of Object.values(workload.draft?.states ?? {})) states.add(hash);
      return states;
    }
    for (const vnode of vnodes) {
      const record = this.#context.mirror.get(key.vnode(workload.id, vnode));
      for (const { hash } of Object.values(record?.durable ?? {})) states.add(hash);
      const initial = workload.initialStates?.[vnode];
      if (initial) states.add(initial.hash);
    }
    return states;
  }

  /** None of a state whose manifest is lost. */
  async #partsOf(state: Sha256): Promise<ReadonlySet<Sha256>> {
    const known = this.#blobsOf.get(state);
    if (known) return known;
    try {
      const { parts } = await manifestOf(this.#context.blobs.states, state);
      const names = new Set(parts);
      this.#blobsOf.set(state, names);
      return names;
    } catch (thrown) {
      if (isLost(thrown)) return new Set();
      throw thrown;
    }
  }

  async #shardsOf(dataset: Sha256): Promise<ReadonlySet<Sha256>> {
    const known = this.#blobsOf.get(dataset);
    if (known) return known;
    const manifest = parseManifest(new TextDecoder().decode(await this.#context.blobs.datasets.get(dataset)));
    const names = new Set(blobsOf(manifest).map(({ hash }) => hash));
    this.#blobsOf.set(dataset, names);
    return names;
  }
}

function noPart(pnode: PNodeId, { id }: Workload): never {
  fail("permission_denied", `PNode ${pnode} hosts no VNode of ${called(id)}`);
}

function nameOf(pnode: PNodeId, workload: WorkloadId): string {
  return `${pnode} ${workload}`;
}

type Listed = Pick<Statement, "session" | "vnode" | "from" | "to" | "before" | "inputs">;

/** Of a statement and of those that have to be repeated with it. */
function premisesOf({ statement, beside = [] }: Stated): Listed[] {
  return [statement, ...beside.map((one) => ({ ...statement, ...one, inputs: one.inputs as Sha256 }))];
}
