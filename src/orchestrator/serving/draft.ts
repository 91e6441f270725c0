// Which smaller model guesses for a served one: found like the model itself, and refused where it writes other tokens. It decides how fast answers come
// and never what they say, so a draft that fits badly is no danger, only of no use.

import { runAside } from "../../core/aside.ts";
import { fail } from "../../core/errors.ts";
import { parseSha256 } from "../../core/ids.ts";
import { comparingVocabularies } from "../../models/works.ts";
import { canGenerate } from "../../network/graphs/generation.ts";
import type { Plan } from "../../network/plan.ts";
import { checkWeightFormat, parseWeightFormat } from "../../network/weight-format.ts";
import { Subject } from "../../protocol/gen/dcnr/v1/access_pb.ts";
import type { Roles } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { ServedDraft } from "../records/sessions.ts";
import { belongingOf } from "../rights/belongings.ts";
import { checkBelonging, isLimited } from "../rights/limits.ts";
import { findState, type StateNeeds, type TrainedState } from "./models.ts";

export interface DraftWish {
  /** A session or a model; absent and empty: none. */
  readonly draft?: string;
  readonly draftWeights?: string;
  readonly provisional?: boolean;
}

/** What is to be served. */
export interface Drafted extends Pick<TrainedState, "tokenizer" | "numerics"> {
  readonly name: string;
  readonly plan: Plan;
}

export async function findDraft(
  needs: StateNeeds,
  { draft: source = "", draftWeights = "", provisional = false }: DraftWish,
  model: Drafted,
  roles: Roles | undefined,
): Promise<{ readonly draft?: ServedDraft }> {
  if (source === "") {
    if (draftWeights !== "" && draftWeights !== "float32")
      fail("invalid_argument", "bits of a draft's weights were given without a draft");
    return {};
  }
  if (isLimited(roles))
    checkBelonging(roles, (await belongingOf(needs.context.mirror, Subject.SOURCE, source)) ?? {}, source);
  const { definition, states, tokenizer } = await findState(needs, source, provisional);
  const plan = await needs.compiled.plan(definition);
  for (const [what, each] of [
    [model.name, model.plan],
    [source, plan],
  ] as const)
    if (!canGenerate(each)) fail("failed_precondition", `${what} does not generate text: there is nothing to guess`);
  await checkVocabulary(needs.context, model, { name: source, plan, tokenizer });
  const weights = parseWeightFormat(draftWeights);
  checkWeightFormat(weights, model.numerics);
  return { draft: { source, definition, states, ...(weights && { weights }) } };
}

type Speaking = Pick<Drafted, "name" | "plan" | "tokenizer">;

/** Where both say how tokens are written, those that both have must be the same; else there must be as many. */
async function checkVocabulary(context: Context, model: Speaking, draft: Speaking): Promise<void> {
  if (model.tokenizer !== "" && model.tokenizer === draft.tokenizer) return;
  const because = `${draft.name} cannot be the draft of ${model.name}`;
  const [own, other] = [model, draft].map(({ plan }) => plan.inputs?.below ?? 0);
  if (model.tokenizer === "" || draft.tokenizer === "") {
    if (own === other) return;
    fail("failed_precondition", `${because}: it knows ${other} tokens, not ${own}; a draft has the same vocabulary`);
  }
  const [ours, theirs] = await Promise.all(
    [model, draft].map(({ tokenizer }) => context.blobs.vocabularies.get(parseSha256(tokenizer, "the tokenizer"))),
  );
  const files = { one: ours as Uint8Array, other: theirs as Uint8Array };
  const different = await runAside(context.aside, comparingVocabularies, files);
  if (different !== undefined)
    fail(
      "failed_precondition",
      `${because}: its token ${different.id} is ${JSON.stringify(different.other)}, not ${JSON.stringify(different.one)}; a draft has the same vocabulary`,
    );
}
