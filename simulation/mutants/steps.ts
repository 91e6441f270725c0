// Broken rules of the deterministic process: what it adds, when it updates, what it keeps and what it answers to those who ask.

import type { Mutant } from "./mutant.ts";
import * as processes from "./processes.ts";

export const stepMutants: Readonly<Record<string, Mutant>> = {
  "consumes-duplicates": {
    fault: "a gradient that arrives twice is added twice",
    shows: ["divergence", "error"],
    seedsMax: 300,
    process: processes.addsDuplicates,
  },
  "adds-in-order-of-arrival": {
    fault: "gradients are added in the order in which they are ready",
    shows: ["divergence"],
    process: processes.addsInOrderOfArrival,
  },
  "updates-before-ties": {
    fault: "the update does not wait for the gradient of tied weights",
    shows: ["divergence"],
    process: processes.updatesBeforeTies,
  },
  "adds-lanes-by-arrival": {
    fault: "the parts of lanes are added in the order in which they arrive",
    shows: ["divergence", "error"],
    lanes: true,
    process: processes.addsLanesByArrival,
  },
  "adds-a-lane-twice": {
    fault: "one lane's part is taken for every other's",
    shows: ["divergence", "error"],
    lanes: true,
    process: processes.addsALaneTwice,
  },
  "updates-before-sums": {
    fault: "the update does not wait for what other lanes have added up",
    shows: ["divergence", "durable", "error"],
    lanes: true,
    process: processes.updatesBeforeSums,
  },
  "updates-before-evaluation": {
    fault: "weights change while they are being evaluated",
    shows: ["divergence"],
    process: processes.updatesBeforeEvaluation,
  },
  "forgets-after-the-step": {
    fault: "what was sent is kept for the current step only",
    shows: ["hang"],
    process: processes.forgetsAfterTheStep,
  },
  "never-asks": {
    fault: "a missing message is waited for, never asked for",
    shows: ["hang"],
    process: processes.neverAsks,
  },
  "never-admits-gone": {
    fault: "an ask for what was collected is answered with 'coming'",
    shows: ["hang"],
    seedsMax: 300,
    aims: ["line lost", "cut off", "deaf"],
    process: processes.neverAdmitsGone,
  },
  "copies-too-late": {
    fault: "the state is copied for its checkpoint after the next update has begun",
    shows: ["divergence", "durable"],
    process: processes.copiesTooLate,
  },
  "delivers-another-microbatch": {
    fault: "whoever asks for a message gets that of another microbatch",
    shows: ["divergence"],
    process: processes.deliversAnother,
  },
  "loses-a-gradient": {
    fault: "the last gradient of a step is not added",
    shows: ["divergence", "error"],
    process: processes.losesAGradient,
  },
};
