// A world for tests of pipelines: a folder that goes with the test, files in it, a dataset or two in memory, and a model that answers
// by a rule. Whoever runs in it can be killed after any number of things written.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asideHere } from "../core/aside.ts";
import { fail } from "../core/errors.ts";
import type { Sha256 } from "../core/ids.ts";
import { testBlobs } from "../data/blobs.testing.ts";
import type { Manifest } from "../data/manifest.ts";
import { readPipeline } from "./definition.ts";
import type { Models, Outside, Question } from "./operator.ts";
import { type Output, recordsOf, rowOf, shardsOfOutput, tokensOf, tokenWidth } from "./records.ts";
import { lookAtPipeline, type MadeStep, type RunOptions, runPipeline } from "./run.ts";
import { openWorkshop, type Workshop } from "./workshop.ts";

/** Each look is a second later than the one before: every note is written. */
let looks = 0;
const clock = { wallMs: () => ++looks * 1_000, monotonicMs: () => ++looks * 1_000 };

export class Killed extends Error {}

export class PipelineWorld {
  readonly folder = mkdtempSync(join(tmpdir(), "dcnr-pipeline-"));
  readonly blobs = testBlobs();
  readonly datasets = new Map<string, Manifest>();
  readonly vocabularies = new Map<string, string>();
  readonly asked: Question[] = [];
  models: Partial<Models> = {};

  write(name: string, content: string | Uint8Array): string {
    const path = join(this.folder, name);
    writeFileSync(path, content);
    return path;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  get outside(): Outside {
    return {
      access: {},
      folder: this.folder,
      dataset: async (name) => {
        const manifest = this.datasets.get(name) ?? fail("not_found", `there is no dataset ${name}`);
        return { manifest, fetchBlob: (hash: Sha256) => this.blobs.get(hash) };
      },
      vocabulary: async (name) => this.vocabularies.get(name) ?? fail("not_found", `there is no vocabulary ${name}`),
      models: {
        look: async (name) => fail("failed_precondition", `the model ${name} is not served`),
        tokenizer: async (name) => fail("failed_precondition", `the model ${name} has no vocabulary`),
        generate: async (_name, question) => {
          this.asked.push(question);
          return question.prompt.toUpperCase();
        },
        embed: async (_name, text) => [text.length, 0.5],
        forward: async () => [],
        ...this.models,
      },
    };
  }

  workshop(): Promise<Workshop> {
    return openWorkshop(join(this.folder, "work"), clock);
  }

  /** `writes`: it is killed before it writes once more than that. */
  async run(definition: unknown, writes = Number.POSITIVE_INFINITY): Promise<Map<string, MadeStep>> {
    const pipeline = readPipeline(definition, "test.yaml");
    const { outside } = this;
    const looked = await lookAtPipeline(pipeline, outside);
    const options: RunOptions = {
      workshop: mortal(await this.workshop(), writes),
      outside,
      aside: asideHere,
      threads: 2,
      pieceBytes: 4 << 10,
      signal: new AbortController().signal,
    };
    return runPipeline(pipeline, looked, options);
  }

  async rows(output: Output): Promise<Record<string, unknown>[]> {
    const rows: Record<string, unknown>[] = [];
    for await (const record of this.records(output)) rows.push(rowOf(record));
    return rows;
  }

  async tokens(output: Output): Promise<number[][]> {
    const runs: number[][] = [];
    const facts = output.tokens ?? fail("internal", "no tokens");
    for await (const record of this.records(output)) runs.push([...tokensOf(record, tokenWidth(facts))]);
    return runs;
  }

  async *records(output: Output): AsyncGenerator<Uint8Array> {
    const { blobs } = await this.workshop();
    for (const { hash } of shardsOfOutput(output)) yield* recordsOf(await blobs.get(hash));
  }
}

/** Everything that is written counts; the last one is not written, and nothing after it. */
function mortal(workshop: Workshop, writes: number): Workshop {
  let left = writes;
  const live = () => {
    if (left-- <= 0) throw new Killed("killed");
  };
  return {
    ...workshop,
    blobs: {
      ...workshop.blobs,
      put: (content) => {
        live();
        return workshop.blobs.put(content);
      },
    },
    finish: async (key, result) => {
      live();
      await workshop.finish(key, result);
    },
    bench: async (key) => {
      const bench = await workshop.bench(key);
      return {
        ...bench,
        spill: {
          ...bench.spill,
          put: (content) => {
            live();
            return bench.spill.put(content);
          },
        },
        record: (stage, task, result) => {
          live();
          bench.record(stage, task, result);
        },
      };
    },
  };
}
