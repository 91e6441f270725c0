// What a VNode's graphs are fed with besides weights: inputs from other VNodes, samples of the dataset, and the
// masks of dropout drawn from the counter-based generator.

import { fail } from "../core/errors.ts";
import { randomKey } from "../core/numbers/random.ts";
import { sameShape, type Tensor } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";
import type { DataPlan, PortPlan, VNodePlan } from "../network/plan.ts";
import type { ByPort, Mode } from "./effects.ts";
import { giveBack, openHeld, type WireTensor } from "./wire.ts";

/** The dataset's side of a session; data/batches.ts is one. */
export interface BatchSource {
  field(
    name: "inputs" | "labels",
    request: { readonly step: number; readonly micro: number; readonly mode: "train" | "evaluate" },
  ): Promise<Tensor>;
}

export interface Pass {
  readonly step: number;
  readonly microbatch: number;
  readonly mode: Mode;
  /** Which of the session's microbatches it is, where that does not follow from the step. */
  readonly sample?: number | undefined;
}

interface Share {
  readonly first: number;
  readonly count: number;
}

export interface FeedOptions {
  readonly plan: VNodePlan;
  readonly executor: Executor;
  readonly batches: BatchSource;
  readonly seed: number;
  /** Of the step's microbatches: processes count their own from 0, those of evaluation after those of training. */
  readonly share: { readonly training: Share; readonly evaluation: Share };
  /** Samples of one microbatch. */
  readonly samples: number;
  /** Microbatches of a whole step, of all lanes. */
  readonly microbatches: number;
  /** What the dataset's fields must hold. */
  readonly data: { readonly inputs?: DataPlan; readonly labels?: DataPlan };
}

/** By the names that graphs use; `wanted` are the names that the graph lists. */
export async function collectFeeds(
  options: FeedOptions,
  pass: Pass,
  inputs: ByPort<WireTensor>,
  wanted: ReadonlySet<string>,
): Promise<Record<string, Tensor>> {
  const feeds: Record<string, Tensor> = {};
  for (const port of options.plan.inputs) {
    const received = inputs.get(port.name);
    if (!wanted.has(port.name)) {
      if (received !== undefined) giveBack(received);
      continue;
    }
    if (port.source === "edge") {
      if (received === undefined) fail("internal", `VNode ${options.plan.id} runs without its input ${port.name}`);
      feeds[port.name] = openHeld(received);
    } else feeds[port.name] = await sampleFeed(options, pass, port, port.source);
  }
  for (const chance of options.plan.chances) {
    if (!wanted.has(chance.name)) continue;
    const into = options.executor.tensor("float32", [options.samples, ...chance.shape]);
    // By the microbatch's number among all lanes': how they are shared changes no mask.
    const microbatch = options.share.training.first + pass.microbatch;
    const key = randomKey("chance", options.seed, options.plan.id, pass.step, microbatch, chance.name);
    const { rate, keepValue, dropValue } = chance;
    await options.executor.kernel({ kind: "chance", into, key, rate, keepValue, dropValue });
    feeds[chance.name] = into;
  }
  return feeds;
}

async function sampleFeed(
  { batches, samples, data, share, plan, microbatches }: FeedOptions,
  { step, microbatch, mode, sample = step * microbatches + share.training.first + microbatch }: Pass,
  port: PortPlan,
  source: "inputs" | "labels",
): Promise<Tensor> {
  const request =
    mode === "training"
      ? { step: Math.floor(sample / microbatches), micro: sample % microbatches, mode: "train" as const }
      : { step, micro: share.evaluation.first + microbatch - share.training.count, mode: "evaluate" as const };
  const tensor = await batches.field(source, request);
  const shape = [samples, ...port.shape];
  if (tensor.dtype !== port.wire || !sameShape(tensor.shape, shape))
    fail(
      "failed_precondition",
      `the dataset's ${source} are ${tensor.dtype} [${tensor.shape}], VNode ${plan.id} needs ${port.wire} [${shape}]`,
    );
  const below = data[source]?.below;
  if (below !== undefined && port.wire === "int32") checkRange(tensor.data as Int32Array, below, source);
  return tensor;
}

/** A label of -1 is not counted: padding, and tokens that nobody has to predict. */
const uncounted = -1;

function checkRange(values: Int32Array, below: number, source: "inputs" | "labels"): void {
  const least = source === "labels" ? uncounted : 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (value < least || value >= below)
      fail("failed_precondition", `the dataset's ${source} hold ${value}, the network takes ${least} to ${below - 1}`);
  }
}
