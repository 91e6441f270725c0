// How served models are shown.

import type { Model } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { Output } from "./output.ts";

export function showModels(out: Output, models: readonly Model[]): void {
  out.table(
    [
      { title: "MODEL" },
      { title: "STATUS" },
      { title: "PARAMETERS", align: "right" },
      { title: "CONTEXT", align: "right" },
      { title: "REPLICAS", align: "right" },
      { title: "SOURCE", shrink: true },
      { title: "REASON", shrink: true },
    ],
    models.map((model) => [
      model.name,
      model.status,
      model.parameters.toLocaleString("en"),
      model.context > 0 ? String(model.context) : "",
      String(model.replicas),
      model.source,
      model.reason,
    ]),
  );
  for (const model of models)
    for (const sentence of [
      ...weightLoss(model),
      ...adaptersHeld(model),
      ...guessesMade(model),
      ...answerChecks(model),
    ])
      out.line(sentence);
}

/** By which names its adapters are asked. */
function adaptersHeld({ name, adapters }: Pick<Model, "name" | "adapters">): string[] {
  return adapters.length === 0 ? [] : [`${name} also answers as ${adapters.map((one) => `${name}:${one}`).join(", ")}`];
}

const guessers: Readonly<Record<string, string>> = {
  schema: "from what answers must fit",
  text: "from the text itself",
};

type Guessing = Pick<Model, "name" | "draft" | "draftWeights" | "guesses">;

/** What came of guessing its answers' next tokens, and who guesses. */
export function guessesMade({ name, draft, draftWeights, guesses }: Guessing): string[] {
  const drafting = draft === "" ? "" : `${draft}${draftWeights === "" ? "" : ` in ${draftWeights}`}`;
  const told = guesses.map(({ kind, guessed, right }) => {
    const percent = ((100 * Number(right)) / Math.max(1, Number(guessed))).toFixed(0);
    return `${guessed.toLocaleString("en")} ${guessers[kind] ?? `by ${drafting || "its draft"}`} (${percent} % right)`;
  });
  return [
    ...(drafting === "" ? [] : [`${name}: ${drafting} guesses beside it where that pays`]),
    ...(told.length === 0 ? [] : [`${name}: tokens guessed ahead: ${told.join(", ")}`]),
  ];
}

/** What came of repeating its answers, if anybody does. */
export function answerChecks({ name, checks }: Pick<Model, "name" | "checks">): string[] {
  if (checks === undefined) return [];
  const { right, wrong, unchecked, canaries, last } = checks;
  const counts = `${right} right, ${wrong} wrong, ${unchecked} that nobody could repeat`;
  const told = last === "" ? "" : `; the last: ${last}`;
  return [
    `${name}: answers repeated by other machines: ${counts} (${canaries} to questions of the network's own)${told}`,
  ];
}

/** What few bits cost a model, if they did and it is known; of answers nothing was measured, and nothing is said. */
export function weightLoss({ name, weights, weightError }: Pick<Model, "name" | "weights" | "weightError">): string[] {
  if (weights === "" || weightError === undefined) return [];
  const percent = (100 * weightError).toFixed(2);
  return [`${name} keeps weights in ${weights}: their mean relative error is ${percent} % in the VNode that lost most`];
}

export interface LoadingWatch {
  readonly ask: () => Promise<readonly Model[]>;
  readonly pause: () => Promise<void>;
  readonly times: number;
  readonly signal: AbortSignal;
}

/** Asks again while a model comes up, so many times at most; the newest that is known of it. */
export async function whenLoaded(model: Model, { ask, pause, times, signal }: LoadingWatch): Promise<Model> {
  let newest = model;
  for (let i = 0; i < times && !signal.aborted && comesUp(newest); i++) {
    await pause();
    newest = (await ask()).find(({ name }) => name === model.name) ?? newest;
  }
  return newest;
}

/** What waits for room or has failed will not be ready soon. */
function comesUp({ status }: Model): boolean {
  return status === "placing" || status === "loading";
}
