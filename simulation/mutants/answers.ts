// Broken rules of checking answers, each in a world in which a machine lies to those who ask a model
// (docs/decisions/0033-answers-are-repeated.md).

import type { AnswerChecksRecord, StandingRecord } from "../../src/orchestrator/records/checking.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { type Mutant, onCall, rewriting } from "./mutant.ts";

const everybody = Array.from({ length: 12 }, (_, index) => `p${index + 1}`);

export const answerMutants: Readonly<Record<string, Mutant>> = {
  "answers-before-it-is-tried": {
    fault: "machines that nobody knows answer people before a question of the network's own was found right",
    shows: ["answer"],
    answers: true,
    behaviour: "otherModel",
    store: (view) => rewriting(view, "checks", (checks: AnswerChecksRecord) => ({ ...checks, proved: everybody })),
  },
  "forgets-what-passed": {
    fault: "machines of a served model do not remember what passed between them, so that nobody can be named",
    shows: ["trust", "hang", "answer"],
    answers: true,
    behaviour: "twoFaced",
    tamper: () => onCall(ServingService.method.tellRows, "output", (told) => ({ ...told, told: [] })),
  },
  "takes-rounding-for-a-lie": {
    fault: "how far apart two machines are is not measured before one of them is called a liar",
    shows: ["trust"],
    answers: true,
    behaviour: "roundsAnswers",
    store: (view) =>
      rewriting(view, "standing", (standing: StandingRecord) => ({
        ...standing,
        faults: standing.faults.map((fault) => (fault.kind === "class" ? { ...fault, kind: "lie" } : fault)),
      })),
  },
  "answers-have-no-name": {
    fault: "nobody says what the machines of a model call an answer, so that they cannot be asked about it",
    shows: ["trust"],
    answers: true,
    behaviour: "dozes",
    tamper: () => onCall(ServingService.method.generateTokens, "output", (piece) => ({ ...piece, request: "" })),
  },
};
