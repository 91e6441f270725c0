// Whether a dataset can feed a network, before a session is made of them: what would otherwise fail on a PNode at
// the first step is refused with a sentence that names both sides.

import { fail } from "../core/errors.ts";
import { sameShape } from "../core/tensor.ts";
import type { Manifest, TensorsManifest, TokensManifest } from "../data/manifest.ts";
import type { DataPlan, Plan } from "../network/plan.ts";

type Side = "inputs" | "labels";

/** `name` is what people call the dataset. */
export function checkFit(plan: Plan, manifest: Manifest, name: string): void {
  if (manifest.kind === "text")
    fail(
      "failed_precondition",
      `dataset ${name} is text, network ${plan.name} takes numbers: dcnr dataset tokenize ${name} makes tokens of it`,
    );
  for (const side of ["inputs", "labels"] as const) {
    const wanted = plan[side];
    if (!wanted) continue;
    if (manifest.kind === "tokens") checkTokens(plan, wanted, manifest, name, side);
    else checkTensors(plan, wanted, manifest, name, side);
  }
}

function checkTokens(plan: Plan, wanted: DataPlan, manifest: TokensManifest, name: string, side: Side): void {
  if (wanted.wire !== "int32" || wanted.shape.length !== 1)
    fail(
      "failed_precondition",
      `dataset ${name} holds tokens, network ${plan.name} takes ${wanted.wire} [${wanted.shape}] as ${side}`,
    );
  if (wanted.below !== undefined && manifest.vocabulary > wanted.below)
    fail(
      "failed_precondition",
      `dataset ${name} has a vocabulary of ${manifest.vocabulary} tokens, network ${plan.name} takes only ${wanted.below}: ` +
        "tokenise it with the vocabulary of the network, or give the network a larger vocab_size",
    );
}

function checkTensors(plan: Plan, wanted: DataPlan, manifest: TensorsManifest, name: string, side: Side): void {
  const field = manifest.fields.find((one) => one.name === side);
  if (!field) fail("failed_precondition", `dataset ${name} has no ${side}, which network ${plan.name} needs`);
  const { dtype, shape, scale } = field;
  const given = scale !== undefined || dtype.includes("float") ? "float32" : "int32";
  if (given !== wanted.wire)
    fail(
      "failed_precondition",
      `the ${side} of dataset ${name} are ${given} for a network, ${plan.name} takes ${wanted.wire}: ` +
        `add it with ${wanted.wire === "int32" ? `--${side}-type int32` : `--${side}-type float32 (or --scale 1)`}`,
    );
  if (!sameShape(shape, wanted.shape))
    fail(
      "failed_precondition",
      `the ${side} of dataset ${name} have shape [${shape}], network ${plan.name} takes [${wanted.shape}]`,
    );
}
