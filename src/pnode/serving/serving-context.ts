// What a PNode knows about a served model: the plan it compiled itself, and which blobs hold the weights.

import type { Aside } from "../../core/aside.ts";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { parseSha256, type ReplicaId, type Sha256, type VNodeId } from "../../core/ids.ts";
import type { EngineKind } from "../../engine/engine.ts";
import { adapterCountOf, generationWay } from "../../network/graphs/generation.ts";
import type { Plan, PlanEdge, VNodePlan } from "../../network/plan.ts";
import { numericsFromWire } from "../../network/settings/wire.ts";
import { parseWeightFormat, type WeightFormat } from "../../network/weight-format.ts";
import { type AnsweringGraphs, answeringGraphs, compileAside } from "../../network/works.ts";
import { PNodeService, type ServingDraft, type ServingWork } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Orchestrators } from "../orchestrators.ts";

export interface ServingNeeds {
  readonly orchestrators: Orchestrators;
  readonly aside: Aside;
  readonly signal: AbortSignal;
  readonly checkServed: (told: ToldReplica) => void;
}

/** What an orchestrator says of a replica. */
export interface ToldReplica {
  readonly replica: ReplicaId;
  readonly definition: string;
  readonly work: Pick<ServingWork, "definition" | "bits">;
}

export type CheckServed = (told: ToldReplica, ownBits: number) => void;

/** Refuses what is not the network that is named, and what this PNode would compute other bits for. */
export const checkServed: CheckServed = ({ replica, definition, work }, ownBits) => {
  if (work.bits !== 0 && work.bits !== ownBits)
    fail(
      "failed_precondition",
      `${replica} needs version ${work.bits} of the bits of answers, this PNode computes ${ownBits}: update it`,
    );
  if (sha256(definition) !== work.definition)
    fail("data_loss", `the definition of ${replica} does not have the hash that its settings name`);
};

export class ServingContext {
  readonly replica: ReplicaId;
  readonly plan: Plan;
  readonly numerics: EngineKind;
  readonly weights: WeightFormat | undefined;
  /** A smaller model that guesses beside the head; undefined: none. */
  readonly draft: ServingContext | undefined;
  /** Answers are checked: what passes is remembered for a while. */
  readonly isAudited: boolean;
  /** VNode that gives the network's outputs. */
  readonly head: string;
  /** How many adapters answers may choose from. */
  readonly adapters: number;
  /** VNodes on the way to the head; the others (costs) do nothing here. */
  readonly needed: ReadonlySet<string>;
  /** Activations on the way to the head. */
  readonly onward: readonly PlanEdge[];
  readonly #sources = new Map<string, readonly string[]>();
  readonly #states: Readonly<Record<string, string>>;
  readonly #graphsOf: (vnode: VNodePlan) => AnsweringGraphs;

  private constructor(
    replica: ReplicaId,
    plan: Plan,
    {
      numerics,
      weights,
      isAudited,
      states,
      draft,
    }: Pick<ServingContext, "numerics" | "weights" | "isAudited" | "draft"> & {
      readonly states: Readonly<Record<string, string>>;
    },
    graphsOf: (vnode: VNodePlan) => AnsweringGraphs,
  ) {
    this.replica = replica;
    this.plan = plan;
    this.numerics = numerics;
    this.weights = weights;
    this.isAudited = isAudited;
    this.draft = draft;
    this.#states = states;
    this.#graphsOf = graphsOf;
    const { head, needed, onward } = generationWay(plan);
    this.head = head;
    this.adapters = adapterCountOf(plan);
    this.needed = needed;
    this.onward = onward;
  }

  static async open(replica: ReplicaId, needs: ServingNeeds): Promise<ServingContext> {
    const { orchestrators, aside, signal } = needs;
    const described = await orchestrators.call(PNodeService.method.describeSession, { session: replica }, signal);
    const { work } = described;
    if (work.case !== "serving") fail("failed_precondition", `${replica} is not one that serves`);
    const { definition } = described;
    needs.checkServed({ replica, definition, work: work.value });
    const { draft, numerics } = work.value;
    const beside = draft && (await ServingContext.#draftOf(replica, draft, numerics, aside));
    return ServingContext.of(replica, definition, work.value, aside, beside);
  }

  /** It computes where the head does, with the same engine; nobody checks guesses. */
  static async #draftOf(replica: ReplicaId, draft: ServingDraft, numerics: string, aside: Aside) {
    if (sha256(draft.text) !== draft.definition)
      fail("data_loss", `the draft of ${replica} does not have the hash that its settings name`);
    return ServingContext.of(replica, draft.text, { ...draft, numerics, audited: false }, aside);
  }

  /** From what is told of a replica and was checked. */
  static async of(
    replica: ReplicaId,
    definition: string,
    work: Pick<ServingWork, "numerics" | "states" | "weights" | "audited">,
    aside: Aside,
    draft?: ServingContext,
  ): Promise<ServingContext> {
    const { states, audited: isAudited } = work;
    const plan = await compileAside(aside, definition);
    const graphsOf = (vnode: VNodePlan) => answeringGraphs(aside, definition, plan, vnode);
    const numerics = numericsFromWire(work.numerics, replica);
    const made = { numerics, weights: parseWeightFormat(work.weights), states, isAudited, draft };
    return new ServingContext(replica, plan, made, graphsOf);
  }

  vnode(id: string): VNodePlan {
    return this.plan.vnodes.find((vnode) => vnode.id === id) ?? fail("not_found", `${this.replica} has no VNode ${id}`);
  }

  /** VNodes on the way to the head that come after this one, in the order in which values flow. */
  following(vnode: string): readonly string[] {
    const { order } = this.plan;
    return order.slice(order.indexOf(vnode as VNodeId) + 1).filter((id) => this.needed.has(id));
  }

  /** Where a VNode's inputs come from: VNodes, and "" for the conductor. */
  sourcesOf(vnode: string): readonly string[] {
    const known = this.#sources.get(vnode);
    if (known) return known;
    const sources = this.vnode(vnode)
      .inputs.filter(({ kind, source }) => kind === "activation" && source !== "labels")
      .map(({ name }) => this.onward.find(({ to, toPort }) => to === vnode && toPort === name)?.from ?? "");
    this.#sources.set(vnode, sources);
    return sources;
  }

  /** What a port is fed by: an edge, or the network's own inputs. */
  edgeInto(vnode: string, port: string): string {
    return this.onward.find(({ to, toPort }) => to === vnode && toPort === port)?.id ?? "inputs";
  }

  graphsOf(vnode: VNodePlan): AnsweringGraphs {
    return this.#graphsOf(vnode);
  }

  stateOf(vnode: string): Sha256 {
    return parseSha256(this.#states[vnode] ?? "", `the state of VNode ${vnode}`);
  }
}
