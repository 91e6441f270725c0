// A short training run whose every bit is hashed. It runs in Node and, bundled, in a browser: nothing here knows which.

import { sha256 } from "../../src/core/hash.ts";
import { fillNormal, randomKey, randomUint32 } from "../../src/core/numbers/random.ts";
import { bytesOf, elementCount, type Shape, type Tensor } from "../../src/core/tensor.ts";
import type { Engine, Tensors } from "../../src/engine/engine.ts";
import { numericsFingerprint } from "../../src/engine/fingerprint.ts";
import { KernelRunner, lowerCall } from "../../src/engine/kernels/kernels.ts";
import { GraphBuilder } from "../../src/graph/builder.ts";
import { deriveTraining } from "../../src/graph/derive.ts";

const batch = 32;
const steps = 5;

function normal(name: string, shape: Shape, deviation: number): Tensor & { data: Float32Array } {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("portable", name), deviation);
  return { dtype: "float32", shape, data };
}

/** 61-47-10 with GELU, layer norm and cross-entropy: odd sizes, and every function that could differ. */
function network() {
  const graph = new GraphBuilder("portable");
  const x = graph.input("x", "float32", [batch, 61]);
  const labels = graph.input("labels", "int32", [batch]);
  const [w1, scale, shift, w2] = [
    graph.input("w1", "float32", [61, 47]),
    graph.input("scale", "float32", [47]),
    graph.input("shift", "float32", [47]),
    graph.input("w2", "float32", [47, 10]),
  ] as const;
  const hidden = graph.op("Gelu", [graph.op("MatMul", [x, w1])]);
  const level = graph.op("LayerNormalization", [hidden, scale, shift], { axis: -1, epsilon: 1e-5 });
  graph.output(graph.op("SoftmaxCrossEntropy", [graph.op("MatMul", [level, w2]), labels]), "loss");
  return deriveTraining(graph.build(), { loss: "loss", lossScale: 1, gradientsOf: ["w1", "scale", "shift", "w2"] });
}

/** Images through a convolution, a pool and attention: what the first network does not reach. */
function imageNetwork() {
  const graph = new GraphBuilder("images");
  const x = graph.input("x", "float32", [5, 2, 9, 9]);
  const labels = graph.input("labels", "int32", [5]);
  const filter = graph.input("filter", "float32", [6, 2, 3, 3]);
  const weight = graph.input("weight", "float32", [54, 10]);
  const seen = graph.op("Relu", [graph.op("Conv", [x, filter], { pads: [1, 1, 0, 0], strides: [1, 1] })]);
  const pooled = graph.op("MaxPool", [seen], { kernel_shape: [2, 2], strides: [3, 3] });
  const rows = graph.op("Reshape", [pooled], { shape: [5, 6, 9] });
  const mixed = graph.op("Attention", [rows, rows, rows], { causal: 1 });
  const scores = graph.op("MatMul", [graph.op("Reshape", [mixed], { shape: [5, 54] }), weight]);
  graph.output(graph.op("SoftmaxCrossEntropy", [scores, labels]), "loss");
  return deriveTraining(graph.build(), { loss: "loss", lossScale: 1, gradientsOf: ["filter", "weight"] });
}

/** Run often enough that the code is optimised in between; every run must give the same. */
async function hashesOfImages(engine: Engine): Promise<string[]> {
  const program = await engine.load(imageNetwork().graph);
  const feeds: Tensors = {
    x: normal("image", [5, 2, 9, 9], 1),
    filter: normal("filter", [6, 2, 3, 3], 0.3),
    weight: normal("weight", [54, 10], 0.1),
    labels: { dtype: "int32", shape: [5], data: Int32Array.of(3, 1, 4, 1, 5) },
  };
  const hashes = new Set<string>();
  for (let run = 0; run < 200; run++) {
    const results = await program.run(feeds);
    const names = Object.keys(results).sort();
    hashes.add(sha256(...names.map((name) => bytesOf(results[name] as Tensor))));
  }
  await program.release();
  return [...hashes];
}

/** How often the fingerprint is taken: a GPU compiles once, V8 more often. */
const probeRuns = { processor: 30, gpu: 2 };

/**
 * The fingerprint of the engine, then the digests of all weights after a few steps of Adam, then a hash of gradients where the engine
 * has convolutions.
 */
export async function hashesOfTraining(engine: Engine, on: keyof typeof probeRuns = "processor"): Promise<string[]> {
  const program = await engine.load(network().graph);
  const kernels = new KernelRunner();
  const weights: Record<string, Tensor & { data: Float32Array }> = {
    w1: normal("w1", [61, 47], 0.1),
    scale: { dtype: "float32", shape: [47], data: new Float32Array(47).fill(1) },
    shift: normal("shift", [47], 0.01),
    w2: normal("w2", [47, 10], 0.1),
  };
  const moments = Object.fromEntries(
    Object.entries(weights).map(([name, { data }]) => [
      name,
      [new Float32Array(data.length), new Float32Array(data.length)],
    ]),
  );
  const labels = Int32Array.from({ length: batch }, (_, i) => randomUint32(randomKey("labels"), i) % 10);
  for (let step = 0; step < steps; step++) {
    const feeds: Tensors = {
      ...weights,
      x: normal(`x${step}`, [batch, 61], 1),
      labels: { dtype: "int32", shape: [batch], data: labels },
    };
    const results = await program.run(feeds);
    for (const [name, weight] of Object.entries(weights)) {
      const [first, second] = moments[name] as [Float32Array, Float32Array];
      const gradient = results[`grad:${name}`]?.data as Float32Array;
      const call = lowerCall({
        ...{ kind: "adam", weights: weight, gradient: weight, first: weight, second: weight },
        ...{ rate: 0.01, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, gradientScale: 1 },
        ...{ correction1: 0.1 * (step + 1), correction2: 0.05 * (step + 1) },
      });
      kernels.run(
        call,
        [weight.data, gradient, first, second].map((view) => ({ view })),
      );
    }
  }
  await program.release();
  const digests = Object.values(weights).map((of) => {
    const { digest } = kernels.run(lowerCall({ kind: "digest", of }), [{ view: of.data }]);
    return digest as string;
  });
  const images = engine.kind.startsWith("exact") ? [] : await hashesOfImages(engine);
  return [await numericsFingerprint(engine, probeRuns[on]), ...digests, ...images];
}
