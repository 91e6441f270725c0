// The lineage of a dataset that a pipeline made: the steps on the way to it, as they were run.

import type { Json } from "../data/json-checks.ts";
import type { Lineage, LineageStep } from "../data/lineage.ts";
import { bytesOf, countOf } from "./records.ts";
import type { MadeStep } from "./run.ts";

/** More files are told by their number. */
const filesShown = 50;

export function lineageOfStep(result: string, made: ReadonlyMap<string, MadeStep>): Lineage {
  const steps = new Map<string, LineageStep>();
  const visit = (name: string): void => {
    const step = made.get(name);
    if (!step || steps.has(name)) return;
    for (const input of step.definition.inputs) visit(input);
    const { operator, settings, inputs } = step.definition;
    const sizes = { records: countOf(step.output), bytes: bytesOf(step.output) };
    steps.set(name, {
      name,
      operation: operator.name,
      settings,
      inputs: [...inputs],
      found: shortened(step.facts),
      ...sizes,
    });
  };
  visit(result);
  return { version: 1, steps: [...steps.values()] };
}

function shortened(facts: Json): Json {
  const files = facts["files"];
  if (!Array.isArray(files) || files.length <= filesShown) return facts;
  return { ...facts, files: files.slice(0, filesShown), filesInAll: files.length };
}
