// The optimizer of a VNode: all its nodes that learn must agree, since a VNode applies one update.

import { fail } from "../../core/errors.ts";
import type { Config } from "../catalogue/config.ts";
import type { Cluster } from "../fuse.ts";
import type { OptimizerPlan } from "../plan.ts";

export function optimizerOf({ id, nodes }: Cluster): OptimizerPlan {
  const learners = nodes.filter((node) => node.description.parameters.length > 0);
  const [first, ...rest] = learners.length > 0 ? learners : nodes;
  const optimizer = read(first!.config);
  for (const other of rest)
    if (JSON.stringify(read(other.config)) !== JSON.stringify(optimizer) && learners.length > 0)
      fail(
        "invalid_argument",
        `nodes "${first!.id}" and "${other.id}" are fused to VNode "${id}" but have different optimizers (${optimizer.kind} and ${read(other.config).kind}, or other constants): give all of the group the same`,
      );
  return optimizer;
}

function read(config: Config): OptimizerPlan {
  const kind = config.text("optimizer");
  const weightDecay = config.optionalNumber("weight_decay") ?? (kind === "adamw" ? 0.01 : 0);
  if (kind === "sgd") return { kind, momentum: config.number("momentum"), weightDecay };
  return {
    kind: kind === "adamw" ? "adamw" : "adam",
    beta1: config.number("beta1"),
    beta2: config.number("beta2"),
    epsilon: config.number("adam_epsilon"),
    weightDecay,
  };
}
