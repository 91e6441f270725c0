// Compiled networks, kept by the hash of their definition, and what placement needs to know of them.

import type { Aside } from "../../core/aside.ts";
import { Recent } from "../../core/caches/recent.ts";
import { fail, hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { ReplicaId, SessionId, Sha256, VNodeId, WorkloadId } from "../../core/ids.ts";
import { wireBytes } from "../../core/numbers/wire-types.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import { expandLanes, lanesOf } from "../../network/lanes.ts";
import { memoryBytesOf, servingBytesOf, wholeServingBytesOf } from "../../network/memory.ts";
import type { Plan, PlanEdge, VNodePlan } from "../../network/plan.ts";
import type { SessionIdentity } from "../../network/settings/session.ts";
import { tiedGroups } from "../../network/ties.ts";
import type { WeightFormat } from "../../network/weight-format.ts";
import { compileAside } from "../../network/works.ts";
import type { PlacementPlan, PlacementVNode } from "../../scheduler/placement/types.ts";
import type { BlobSpace } from "../../store/blobs/blob-store.ts";

/** Plans are a few megabytes at most; an orchestrator rarely serves more networks at once. */
const plansKept = 64;

export class Compiled {
  readonly #definitions: BlobSpace;
  readonly #plans = new Recent<Sha256, Promise<Plan>>(plansKept);
  readonly #texts = new Recent<Sha256, string>(plansKept);
  readonly #neighbours = new Recent<string, ReadonlyMap<VNodeId, ReadonlySet<VNodeId>>>(plansKept);
  /** With their lanes. */
  readonly #laned = new Recent<string, Plan>(plansKept);

  readonly #aside: Aside;

  constructor(definitions: BlobSpace, aside: Aside) {
    this.#definitions = definitions;
    this.#aside = aside;
  }

  /** The plan of a definition that is not stored yet, and may be anything. */
  async check(text: string): Promise<Plan> {
    const plan = await compileAside(this.#aside, text);
    this.#keep(sha256(text), plan);
    return plan;
  }

  async text(definition: Sha256): Promise<string> {
    const known = this.#texts.get(definition);
    if (known !== undefined) return known;
    const text = new TextDecoder().decode(await this.#definitions.get(definition));
    this.#texts.set(definition, text);
    return text;
  }

  plan(definition: Sha256): Promise<Plan> {
    const known = this.#plans.get(definition);
    if (known) return known;
    const plan = this.#compile(definition);
    this.#plans.set(definition, plan);
    plan.catch(() => this.#plans.delete(definition));
    return plan;
  }

  /** The plan of a session: that of its network, in all its lanes. */
  async planOf(identity: Laned): Promise<Plan> {
    const name = lanedName(identity);
    const known = this.#laned.get(name) ?? expandLanes(await this.plan(identity.definition), identity);
    this.#laned.set(name, known);
    if (this.#neighbours.get(name) === undefined) this.#neighbours.set(name, neighboursIn(known));
    return known;
  }

  /** For each VNode those it exchanges messages with, and itself; undefined until the plan was asked for once. */
  neighbours(identity: Laned): ReadonlyMap<VNodeId, ReadonlySet<VNodeId>> | undefined {
    return this.#neighbours.get(lanedName(identity));
  }

  async #compile(definition: Sha256): Promise<Plan> {
    try {
      const plan = await compileAside(this.#aside, await this.text(definition));
      this.#keep(definition, plan);
      return plan;
    } catch (thrown) {
      if (hasCode(thrown, "not_found"))
        fail(
          "data_loss",
          `the definition ${definition} is missing in the blob store: restore it, or create the network again`,
        );
      throw thrown;
    }
  }

  #keep(definition: Sha256, plan: Plan): void {
    this.#plans.set(definition, Promise.resolve(plan));
    this.#neighbours.set(lanedName({ definition }), neighboursIn(plan));
  }
}

type Laned = Pick<SessionIdentity, "definition" | "lanes" | "sync">;

function lanedName(identity: Laned): string {
  return `${identity.definition} ${lanesOf(identity)} ${identity.sync !== undefined}`;
}

function neighboursIn(plan: Plan): Map<VNodeId, Set<VNodeId>> {
  const neighbours = new Map(plan.vnodes.map((vnode) => [vnode.id, new Set([vnode.id])]));
  for (const { from, to } of plan.edges) {
    neighbours.get(from)?.add(to);
    neighbours.get(to)?.add(from);
  }
  return neighbours;
}

/** Backward costs about twice the forward pass. */
const trainingFactor = 3;

export function flopsOf(vnode: VNodePlan, batch: number): number {
  return vnode.flopsPerSample * batch * trainingFactor;
}

/** Of a step, in the mean over all steps where rounds are. */
function edgeBytes(edge: PlanEdge, batch: number, rounds?: Rounds): number {
  if (rounds?.sync !== undefined && edge.kind === "outer")
    return (2 * wireBytes(edge.wire, edge.shape)) / rounds.sync.every;
  if (rounds?.sync !== undefined && edge.kind === "reduce")
    return (2 * wireBytes(edge.wire, edge.shape) * rounds.sync.after) / rounds.steps;
  const times = (edge.kind === "activation" ? batch : 1) * (edge.gradient ? 2 : 1);
  return wireBytes(edge.wire, edge.shape) * times;
}

type Rounds = Pick<SessionIdentity, "steps" | "sync">;

/** A session's VNodes in all lanes: each lane's share of whole batches, forward and backward. */
export function trainingPlan(
  id: SessionId,
  plan: Plan,
  identity: Pick<SessionIdentity, "batch" | "microbatches" | "lanes"> & Rounds,
): PlacementPlan {
  const lanes = lanesOf(identity);
  const [batch, microbatches] = [identity.batch / lanes, identity.microbatches / lanes];
  const memoryOf = (vnode: VNodePlan) => memoryBytesOf(vnode, batch, microbatches, identity.sync !== undefined);
  return placementPlan(id, plan, batch, memoryOf, identity);
}

/** A replica's VNodes: what a step is to a session is one answer here. */
export function servingPlan(
  id: ReplicaId,
  plan: Plan,
  weights?: WeightFormat,
  draft?: { readonly plan: Plan; readonly weights?: WeightFormat | undefined },
): PlacementPlan {
  const placed = placementPlan(id, plan, 1, (vnode) => servingBytesOf(plan, vnode, weights));
  // A token goes around: what is chosen beside the head is what the first VNodes get next, so that way counts too.
  const head = generationHead(plan).vnode as VNodeId;
  // The draft is whole wherever the head is.
  const beside = draft && {
    bytes: wholeServingBytesOf(draft.plan, draft.weights),
    flops: draft.plan.vnodes.reduce((sum, vnode) => sum + flopsOf(vnode, 1), 0),
  };
  const vnodes = placed.vnodes.map((vnode) =>
    vnode.id === head && beside
      ? { ...vnode, memoryBytes: vnode.memoryBytes + beside.bytes, flops: vnode.flops + beside.flops }
      : vnode,
  );
  const takers = plan.vnodes.filter(({ inputs }) => inputs.some(({ source }) => source === "inputs"));
  const back = takers.flatMap((taker) => (taker.id === head ? [] : [{ from: head, to: taker.id, bytes: tokenBytes }]));
  return { ...placed, vnodes, edges: [...placed.edges, ...back] };
}

const tokenBytes = 4;

function placementPlan(
  workload: WorkloadId,
  plan: Plan,
  samples: number,
  memoryOf: (vnode: VNodePlan) => number,
  rounds?: Rounds,
): PlacementPlan {
  const byId = new Map(plan.vnodes.map((vnode) => [vnode.id, vnode]));
  const vnodes = plan.order.map((id): PlacementVNode => {
    const vnode = byId.get(id) as VNodePlan;
    return { id, flops: flopsOf(vnode, samples), memoryBytes: memoryOf(vnode), gpus: 0 };
  });
  const edges = plan.edges.map((edge) => ({ from: edge.from, to: edge.to, bytes: edgeBytes(edge, samples, rounds) }));
  const tied = [...new Set(tiedGroups(plan.edges).values())];
  return { workload, vnodes, edges, colocations: plan.colocations, ...(tied.length > 0 ? { tied } : {}) };
}
