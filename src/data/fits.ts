// Whether a dataset can feed a network: asked when a session is created, so that the answer is a sentence then and
// not a failure at the first step.

import { fail } from "../core/errors.ts";
import { type DType, type Shape, sameShape } from "../core/tensor.ts";
import { type Field, type Manifest, type TensorsManifest, type TokensManifest, unitsOf } from "./manifest.ts";
import { ruleOf, viewSplit } from "./order.ts";

/** What a network needs of each sample: `inputs` and `labels` of a Plan have this form. */
export interface Need {
  /** Without the batch axis. */
  readonly shape: Shape;
  readonly wire: "float32" | "int32";
  /** Token ids and classes are below it. */
  readonly below?: number;
}

export interface Needs {
  readonly inputs?: Need | undefined;
  readonly labels?: Need | undefined;
}

/** What people call the two, for sentences. */
export interface Called {
  readonly dataset: string;
  readonly network: string;
}

const unnamed: Called = { dataset: "the dataset", network: "the network" };

/** Throws if the dataset or one of the splits cannot feed the network. */
export function checkDatasetFits(
  manifest: Manifest,
  splits: readonly string[],
  needs: Needs,
  called: Called = unnamed,
): void {
  switch (manifest.kind) {
    case "text":
      fail(
        "failed_precondition",
        `${called.dataset} is text and cannot feed a network: tokenise it first (dcnr dataset tokenize)`,
      );
      break;
    case "tokens":
      checkTokens(manifest, needs, called);
      break;
    case "tensors":
      for (const name of ["inputs", "labels"] as const) {
        const need = needs[name];
        if (need) checkField(manifest, name, need, called);
      }
  }
  for (const split of splits) checkSplit(manifest, split, needs.inputs?.shape[0], called);
}

function checkTokens({ vocabulary }: TokensManifest, { inputs, labels }: Needs, { dataset, network }: Called): void {
  if (inputs && (inputs.wire !== "int32" || inputs.shape.length !== 1))
    fail(
      "failed_precondition",
      `${dataset} holds tokens, ${network} takes ${described(inputs)}: it needs a sequence of token ids`,
    );
  if (labels && inputs && (labels.wire !== "int32" || !sameShape(labels.shape, inputs.shape)))
    fail(
      "failed_precondition",
      `the labels of ${dataset} are the next tokens [${inputs.shape}], ${network} needs ${described(labels)}`,
    );
  const room = Math.min(inputs?.below ?? vocabulary, labels?.below ?? vocabulary);
  if (vocabulary > room)
    fail(
      "failed_precondition",
      `${dataset} has a vocabulary of ${vocabulary} tokens, ${network} takes only ${room}: use a vocabulary that fits, or set vocab_size`,
    );
}

function checkField(manifest: TensorsManifest, name: string, need: Need, { dataset, network }: Called): void {
  const field = manifest.fields.find((one) => one.name === name);
  if (!field)
    fail(
      "failed_precondition",
      `${network} needs ${name}, ${dataset} only has ${manifest.fields.map((one) => one.name).join(", ")}`,
    );
  if (field.classes && field.classes.length > (need.below ?? field.classes.length))
    fail(
      "failed_precondition",
      `the ${name} of ${dataset} have ${field.classes.length} classes, ${network} tells ${need.below} apart: give its last layer ${field.classes.length} outputs`,
    );
  const wire = wireOf(field);
  if (wire === need.wire && sameShape(field.shape, need.shape)) return;
  const remedy = wire === need.wire ? "" : `: add it with --${name}-type ${need.wire}`;
  fail(
    "failed_precondition",
    `the ${name} of ${dataset} are ${wire} [${field.shape}], ${network} needs ${described(need)}${remedy}`,
  );
}

function described({ wire, shape }: Need): string {
  return `${wire} [${shape}]`;
}

/** As batches give it (values.ts). */
function wireOf({ dtype, scale }: Pick<Field, "dtype" | "scale">): Need["wire"] {
  const whole: readonly DType[] = ["int32", "int64", "uint8", "bool"];
  return scale === undefined && whole.includes(dtype) ? "int32" : "float32";
}

function checkSplit(manifest: Manifest, split: string, context: number | undefined, { dataset }: Called): void {
  const rule = ruleOf(manifest, split);
  if (rule.kind === "list" && manifest.kind === "tensors") {
    if (rule.count === 0) fail("failed_precondition", `the split "${split}" has no samples`);
  } else if (manifest.kind === "tokens" && unitsOf(manifest) <= (context ?? 1)) {
    fail("failed_precondition", `${dataset} has ${unitsOf(manifest)} tokens, fewer than one sample of ${context}`);
  } else viewSplit({ manifest, split, context });
}
