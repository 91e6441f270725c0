// Runs a pipeline: looks at everything that it needs before the first step, then makes each step that is not made yet. A step's key is
// the hash of its operator, its settings, what was found outside and what its inputs made: the same key, the same output.

import { setImmediate as othersTurn } from "node:timers/promises";
import type { Aside } from "../core/aside.ts";
import { runAside } from "../core/aside.ts";
import { freeBytes } from "../core/bytes.ts";
import { fail } from "../core/errors.ts";
import { canonicalJson, sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Pipeline, StepDefinition } from "./definition.ts";
import { type EachOptions, type Kit, type NamedBlob, pipelineLane, type Tasks } from "./kit.ts";
import type { Facts, Outside } from "./operator.ts";
import { type Format, type Output, pieceBytesUsual, shardsOfOutput } from "./records.ts";
import type { Bench, Workshop } from "./workshop.ts";

export interface StepProgress {
  readonly step: string;
  readonly stage: string;
  /** Bytes read of those that the stage reads; 0 of 0 where nobody knows. */
  readonly done: number;
  readonly total: number;
}

export interface RunOptions {
  readonly workshop: Workshop;
  readonly outside: Outside;
  readonly aside: Aside;
  /** Tasks, and threads for them, at the same time. */
  readonly threads: number;
  /** Other than usual in tests, whose data is small. */
  readonly pieceBytes?: number;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: StepProgress) => void;
  readonly onStep?: (step: MadeStep) => void;
}

export interface MadeStep {
  readonly definition: StepDefinition;
  readonly facts: Facts;
  readonly key: Sha256;
  readonly output: Output;
  /** It was made before. */
  readonly known: boolean;
}

export type Looked = ReadonlyMap<string, Facts>;

/** Everything that can be found wrong without running a step. */
export async function lookAtPipeline({ steps }: Pipeline, outside: Outside): Promise<Looked> {
  const looked = new Map<string, Facts>();
  const formats = new Map<string, Format>();
  for (const { name, operator, settings, inputs, where } of steps) {
    const facts = (await operator.look?.(settings, outside, where)) ?? {};
    looked.set(name, facts);
    const given = inputs.map((input) => formats.get(input) as Format);
    formats.set(name, operator.gives(given, settings, facts, where));
  }
  return looked;
}

export async function runPipeline(
  pipeline: Pipeline,
  looked: Looked,
  options: RunOptions,
): Promise<Map<string, MadeStep>> {
  const made = new Map<string, MadeStep>();
  for (const definition of pipeline.steps) {
    const inputs = definition.inputs.map((name) => (made.get(name) as MadeStep).output);
    const facts = looked.get(definition.name) ?? {};
    const key = keyOf(definition, facts, inputs, options.pieceBytes);
    const known = await knownOutput(key, options.workshop);
    const output = known ?? (await makeStep(definition, facts, inputs, key, options));
    const step = { definition, facts, key, output, known: known !== undefined };
    made.set(definition.name, step);
    options.onStep?.(step);
  }
  return made;
}

function keyOf(
  { operator, settings }: StepDefinition,
  facts: Facts,
  inputs: readonly Output[],
  pieceBytes = pieceBytesUsual,
): Sha256 {
  const { name, version } = operator;
  return sha256(
    canonicalJson({ operator: name, version, settings, facts, pieceBytes, inputs: inputs.map(hashOfOutput) }),
  );
}

export function hashOfOutput(output: Output): Sha256 {
  return sha256(canonicalJson(output));
}

/** All blobs that must be there for an output to be whole. */
export function blobsOfOutput(output: Output): readonly NamedBlob[] {
  const { tokenizer } = output.tokens ?? {};
  return [...shardsOfOutput(output), ...(tokenizer ? [{ hash: tokenizer }] : [])];
}

async function knownOutput(key: Sha256, workshop: Workshop): Promise<Output | undefined> {
  const known = (await workshop.result(key)) as Output | undefined;
  if (!known) return undefined;
  for (const blob of blobsOfOutput(known)) {
    if (await workshop.blobs.has(blob)) continue;
    await workshop.forget(key);
    return undefined;
  }
  return known;
}

async function makeStep(
  definition: StepDefinition,
  facts: Facts,
  inputs: readonly Output[],
  key: Sha256,
  options: RunOptions,
): Promise<Output> {
  const { workshop, outside } = options;
  const bench = await workshop.bench(key);
  const { operator, settings, where, name } = definition;
  const kit = kitOf(name, bench, options);
  const output = await operator.run({ where, settings, facts, inputs, kit, outside });
  await workshop.finish(key, output);
  await bench.clear();
  return output;
}

function kitOf(step: string, bench: Bench, options: RunOptions): Kit {
  const { workshop, aside, threads, pieceBytes = pieceBytesUsual } = options;
  let turns = 0;
  return {
    pieceBytes,
    blobs: workshop.blobs,
    spill: bench.spill,
    note: (name) => bench.note(name),
    aside: (work, input) => {
      const lane = { ...pipelineLane, name: `${pipelineLane.name}-${turns++ % threads}` };
      return runAside(aside, { ...work, lane }, input).finally(() => {
        for (const value of Object.values(input as object)) if (value instanceof Uint8Array) freeBytes(value);
      });
    },
    ...tasksOf(step, bench, options),
  };
}

function tasksOf(step: string, bench: Bench, { threads, signal, onProgress }: RunOptions): Tasks {
  const stop = () => {
    if (signal.aborted) fail("cancelled", "interrupted: the same command goes on where it was");
  };
  return {
    async each<Result>(stage: string, count: number, task: (task: number) => Promise<Result>, given: EachOptions = {}) {
      const { atOnce = threads, bytesOf = () => 1 } = given;
      const results: Result[] = new Array(count);
      const recorded = bench.recorded.get(stage) ?? new Map<number, unknown>();
      let total = 0;
      let done = 0;
      for (let n = 0; n < count; n++) {
        total += bytesOf(n);
        if (!recorded.has(n)) continue;
        results[n] = recorded.get(n) as Result;
        done += bytesOf(n);
      }
      let next = 0;
      let failed: { readonly thrown: unknown } | undefined;
      const worker = async () => {
        for (let n = next++; n < count && !failed; n = next++) {
          if (recorded.has(n)) continue;
          try {
            stop();
            const result = await task(n);
            bench.record(stage, n, result);
            results[n] = result;
            done += bytesOf(n);
            onProgress?.({ step, stage, done, total });
          } catch (thrown) {
            failed ??= { thrown };
          }
          // Signals and progress have their turn between tasks that wait for nothing.
          await othersTurn();
        }
      };
      await Promise.all(Array.from({ length: Math.min(atOnce, count) }, worker));
      if (failed) throw failed.thrown;
      return results;
    },
    async chain<Result>(
      stage: string,
      follow: (recorded: readonly Result[]) => AsyncIterable<{ readonly result: Result; readonly bytes: number }>,
      total = 0,
    ) {
      const known = bench.recorded.get(stage) ?? new Map<number, unknown>();
      const results: Result[] = [];
      // How much was read is not written down: what is known counts as much as what comes.
      for (let n = 0; known.has(n); n++) results.push((known.get(n) as { result: Result }).result);
      let done = 0;
      for (let n = 0; n < results.length; n++) done += (known.get(n) as { bytes: number }).bytes;
      stop();
      for await (const { result, bytes } of follow([...results])) {
        bench.record(stage, results.length, { result, bytes });
        results.push(result);
        done += bytes;
        onProgress?.({ step, stage, done, total });
        stop();
        await othersTurn();
      }
      return results;
    },
  };
}
