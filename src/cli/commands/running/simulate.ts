// `dcnr simulate`: whole networks full of faults on virtual time; roots must equal the undisturbed run's.

import { runSimulation } from "../../../../simulation/main.ts";
import type { Command } from "../../command.ts";
import { Progress } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Run seeded worlds full of faults with the production code, and compare step roots with undisturbed runs.",
  options: {
    seeds: { type: "number", least: 1, summary: "how many seeds", default: 100 },
    "first-seed": { type: "number", summary: "where to begin", default: 1 },
    seed: { type: "number", summary: "replay one seed with a readable trace" },
    autonomy: {
      type: "boolean",
      summary: "worlds whose orchestrators all go, for a time or until sessions have ended by themselves",
    },
    lanes: { type: "boolean", summary: "worlds whose sessions have lanes" },
    workers: { type: "number", least: 1, summary: "threads (default: one per core)" },
  },
  examples: ["dcnr simulate --seeds 300", "dcnr simulate --seed 4711", "dcnr simulate --seeds 300 --autonomy"],
  run: async ({ flags, out, signal }) => {
    const progress = new Progress(out, "simulating");
    const workers = flags.optionalNumber("workers");
    const replay = flags.optionalNumber("seed");
    return runSimulation(
      {
        seeds: flags.number("seeds"),
        firstSeed: flags.number("first-seed"),
        kind: { ...(flags.is("autonomy") && { autonomy: true }), ...(flags.is("lanes") && { lanes: true }) },
        json: flags.is("json"),
        signal,
        ...(workers === undefined ? {} : { workers }),
        ...(replay === undefined ? {} : { replay }),
      },
      {
        line: (text) => out.line(text),
        json: (value) => out.json(value),
        progress: (done, total, detail) => progress.update(done, total, detail),
      },
    );
  },
};
