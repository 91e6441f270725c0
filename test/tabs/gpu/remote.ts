// A browser's GPU as an engine in Node: tests of engines run here, and what they test runs in a page.

import type { Page } from "playwright-core";
import { bytesOf, type Tensor, viewData } from "../../../src/core/tensor.ts";
import { checkTensors } from "../../../src/engine/check-tensors.ts";
import type { Engine, Tensors } from "../../../src/engine/engine.ts";
import type { GraphModel } from "../../../src/graph/model.ts";
import { operatorOf } from "../../../src/graph/operators/registry.ts";

export interface PackedTensor extends Omit<Tensor, "data"> {
  /** In base64. */
  readonly bytes: string;
}

export interface PackedModel {
  readonly model: GraphModel;
  readonly constants: Readonly<Record<string, PackedTensor>>;
}

export interface Trained {
  readonly losses: readonly number[];
  readonly hashes: readonly (readonly [string, string])[];
}

/** What a page does for a test. */
export interface Drive {
  /** The adapter's description; empty where the browser has none. */
  open(): Promise<string>;
  load(model: PackedModel): Promise<number>;
  run(program: number, feeds: Readonly<Record<string, PackedTensor>>): Promise<Record<string, PackedTensor>>;
  release(program: number): Promise<void>;
  numericsClass(): Promise<string>;
  memoryBytes(): Promise<number>;
  train(text: string, on: "webgpu" | "portable"): Promise<Trained>;
  /** What is said of a device that is lost, at once and later. */
  lose(): Promise<string[]>;
  close(): Promise<void>;
}

function packed(tensor: Tensor): PackedTensor {
  return { dtype: tensor.dtype, shape: tensor.shape, bytes: Buffer.from(bytesOf(tensor)).toString("base64") };
}

function unpacked({ dtype, shape, bytes }: PackedTensor): Tensor {
  return { dtype, shape, data: viewData(dtype, new Uint8Array(Buffer.from(bytes, "base64"))) };
}

const mapped = <A, B>(record: Readonly<Record<string, A>>, change: (value: A) => B) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));

/** The page has opened its engine. */
export function remoteEngine(page: Page): Engine {
  return {
    kind: "webgpu",
    async load(graph) {
      for (const { op } of graph.nodes) operatorOf(op);
      const { constants, ...model } = graph;
      const given = { model: { ...model, constants: {} }, constants: mapped(constants, packed) };
      const program = await page.evaluate((it) => window.gpuEngine.load(it), given);
      return {
        async run(feeds: Tensors, into: Tensors = {}) {
          checkTensors(graph, feeds, into);
          const found = await page.evaluate(([id, it]) => window.gpuEngine.run(id, it), [
            program,
            mapped(feeds, packed),
          ] as const);
          const results: Record<string, Tensor> = {};
          for (const [name, one] of Object.entries(found)) {
            const target = into[name];
            const tensor = unpacked(one);
            if (target) (target.data as Float32Array).set(tensor.data as Float32Array);
            results[name] = target ?? tensor;
          }
          return results;
        },
        release: () => page.evaluate((id) => window.gpuEngine.release(id), program),
      };
    },
    numericsClass: () => page.evaluate(() => window.gpuEngine.numericsClass()),
    close: () => page.evaluate(() => window.gpuEngine.close()),
  };
}
