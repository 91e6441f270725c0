// A training that somebody writes down in the page: texts as they are typed, and the settings that come of them. Pure.

import { create } from "@bufbuild/protobuf";
import {
  LearningRateSchema,
  type SessionSettings,
  SessionSettingsSchema,
} from "../../src/protocol/gen/dcnr/v1/session_pb.ts";

export interface Draft {
  readonly network: string;
  readonly dataset: string;
  readonly steps: string;
  readonly batch: string;
  readonly rate: string;
  readonly seed: string;
  readonly validateEvery: string;
}

/** What a setting is where nobody said: messages leave it out. */
const usual = { steps: 200, batch: 32, rate: 0.001, seed: 1 };

export function draftOf(base: SessionSettings, networks: readonly string[], datasets: readonly string[]): Draft {
  const chosen = (wanted: string, all: readonly string[]) => (all.includes(wanted) ? wanted : (all[0] ?? ""));
  return {
    network: chosen(base.network, networks),
    dataset: chosen(base.dataset, datasets),
    steps: String(base.steps || usual.steps),
    batch: String(base.batch || usual.batch),
    rate: String(base.learningRate?.base || usual.rate),
    seed: String(base.seed || usual.seed),
    validateEvery: String(base.validateEvery),
  };
}

/** What is not in the form stays as the other session had it, as long as it is about the same network. */
export function settingsOf(base: SessionSettings, draft: Draft): SessionSettings {
  const kept = base.network === draft.network ? base : create(SessionSettingsSchema);
  const batch = Number(draft.batch);
  return create(SessionSettingsSchema, {
    ...kept,
    network: draft.network,
    dataset: draft.dataset,
    // Epochs would be a second word for it.
    epochs: 0,
    steps: BigInt(Math.round(Number(draft.steps))),
    batch,
    microbatches: kept.batch === batch ? kept.microbatches : 0,
    seed: BigInt(Math.round(Number(draft.seed))),
    validateEvery: Math.round(Number(draft.validateEvery)),
    learningRate: { ...(kept.learningRate ?? create(LearningRateSchema)), base: Number(draft.rate) },
  });
}
