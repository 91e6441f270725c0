// What is made of a definition, as works for another thread (core/aside.ts): its plan, and the graphs of its VNodes. YAML of
// a hundred kilobytes takes a third of a second to read, the graphs of one transformer block 10 to 50 ms.

import type { Aside, Lane, Work } from "../core/aside.ts";
import { runAside } from "../core/aside.ts";
import { Recent } from "../core/caches/recent.ts";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { GraphModel } from "../graph/model.ts";
import type { UnitPlan } from "../graph/unit.ts";
import { compileText } from "./compile.ts";
import { buildEvaluation, buildInference, buildTraining } from "./graphs/graphs.ts";
import { buildUnit } from "./graphs/unit.ts";
import type { BuildOptions, Plan, TrainingGraphs, VNodePlan } from "./plan.ts";
import { type PlanRow, planFromRows, planRows } from "./plan-rows.ts";

/** The largest definition that is allowed needs half of it. */
const lane: Lane = { name: "definitions", memoryMib: 1_024, idleMs: 30_000 };
/** The largest definitions take some seconds, and machines may be busy. */
const deadlineMs = 20_000;
const common = { lane, module: import.meta.url, deadlineMs };

/** Sessions start one after the other, each with all of its VNodes. */
const plansKept = 4;
const plans = new Recent<Sha256, Plan>(plansKept);

function planOf(text: string): Plan {
  const hash = sha256(text);
  const plan = plans.get(hash) ?? compileText(text);
  plans.set(hash, plan);
  return plan;
}

export const compiling: Work<string, PlanRow[]> = {
  ...common,
  name: "compiling",
  what: "the definition",
  run: (text) => planRows(planOf(text)),
};

export async function compileAside(aside: Aside, text: string): Promise<Plan> {
  return planFromRows(await aside.run(compiling, text));
}

interface OfVNode {
  readonly definition: string;
  readonly vnode: string;
}

function vnodeOf({ definition, vnode }: OfVNode): { plan: Plan; own: VNodePlan } {
  const plan = planOf(definition);
  const own = plan.vnodes.find(({ id }) => id === vnode);
  return { plan, own: own ?? fail("not_found", `network ${plan.name} has no VNode ${vnode}`) };
}

interface Learning extends OfVNode, BuildOptions {
  readonly evaluates: boolean;
}

export interface LearningGraphs {
  readonly training: TrainingGraphs;
  /** Absent where nothing is validated. */
  readonly evaluation?: GraphModel;
}

export const buildingToLearn: Work<Learning, LearningGraphs> = {
  ...common,
  name: "buildingToLearn",
  what: "a VNode's definition",
  run: ({ evaluates, microbatch, lossScale, ...of }) => {
    const { plan, own } = vnodeOf(of);
    const training = buildTraining(plan, own, { microbatch, lossScale });
    return [{ training, ...(evaluates && { evaluation: buildEvaluation(plan, own, { microbatch }) }) }];
  },
};

export const buildingToGenerate: Work<OfVNode, UnitPlan> = {
  ...common,
  name: "buildingToGenerate",
  what: "a VNode's definition",
  run: (of) => {
    const { plan, own } = vnodeOf(of);
    return [buildUnit(plan, own)];
  },
};

export const buildingToInfer: Work<OfVNode & { readonly microbatch: number }, GraphModel> = {
  ...common,
  name: "buildingToInfer",
  what: "a VNode's definition",
  run: ({ definition, vnode, microbatch }) => {
    const { plan, own } = vnodeOf({ definition, vnode });
    return [buildInference(plan, own, { microbatch })];
  },
};

/** The graphs that a VNode needs to answer. */
export interface AnsweringGraphs {
  unit(): Promise<UnitPlan>;
  inference(microbatch: number): Promise<GraphModel>;
}

/** The graphs of a VNode of so many nodes take less time here than a thread takes to start: some 10 ms. */
const nodesHereMax = 64;

/** Pieces of ONNX may be of any size. */
function isSmall({ body }: VNodePlan): boolean {
  return body.length <= nodesHereMax && body.every(({ nodeType }) => nodeType.type !== "onnx");
}

export function answeringGraphs(aside: Aside, definition: string, plan: Plan, vnode: VNodePlan): AnsweringGraphs {
  if (isSmall(vnode))
    return {
      unit: async () => buildUnit(plan, vnode),
      inference: async (microbatch) => buildInference(plan, vnode, { microbatch }),
    };
  const of = { definition, vnode: vnode.id };
  return {
    unit: () => runAside(aside, buildingToGenerate, of),
    inference: (microbatch) => runAside(aside, buildingToInfer, { ...of, microbatch }),
  };
}
