// The golden roots as they are kept: one file, read by the test and written by `npm run golden`.

import { readFileSync, writeFileSync } from "node:fs";
import type { Executor } from "../../src/engine/engine.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openPortableEngine } from "../../src/engine/portable/engine.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { goldenScenarios } from "./scenarios.ts";
import { type Golden, trainInOnePlace } from "./train.ts";

/** `native` is missing: its bits belong to the processor. */
export const goldenNumerics: Readonly<Record<string, () => Promise<Executor>>> = {
  reference: async () => openInlineExecutor(openReferenceEngine()),
  portable: async () => openInlineExecutor(openPortableEngine()),
};

export interface GoldenRoots {
  /** The version of the bits that they belong to. */
  readonly bits: number;
  /** By numerics, then by scenario. */
  readonly numerics: Readonly<Record<string, Readonly<Record<string, Golden>>>>;
}

const file = new URL("./roots.json", import.meta.url);

export function readGoldenRoots(): GoldenRoots {
  return JSON.parse(readFileSync(file, "utf8")) as GoldenRoots;
}

export function writeGoldenRoots(roots: GoldenRoots): void {
  writeFileSync(file, `${JSON.stringify(roots, null, 2)}\n`);
}

export async function trainAll(numerics: string): Promise<Record<string, Golden>> {
  const open = goldenNumerics[numerics] as () => Promise<Executor>;
  const executor = await open();
  const trained: Record<string, Golden> = {};
  for (const scenario of goldenScenarios) trained[scenario.name] = await trainInOnePlace(scenario, executor);
  await executor.close();
  return trained;
}

/** What is no longer as it was, a sentence each. */
export function changesOf(numerics: string, known: Golden | undefined, now: Golden, name: string): string[] {
  if (known === undefined) return [];
  const what = `${name} with ${numerics} numerics`;
  const step = now.roots.findIndex((root, index) => root !== known.roots[index]);
  if (step >= 0) return [`the step roots of ${what} differ from step ${step + 1} on`];
  if (JSON.stringify(now) !== JSON.stringify(known)) return [`the losses of ${what} differ, though its weights do not`];
  return [];
}
