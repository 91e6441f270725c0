// The numerics fingerprint: a small fixed graph whose output bits tell apart engines that would disagree somewhere. Two
// engines with equal runtime, files, settings and fingerprint form one class and may replace each other.

import { sha256 } from "../core/hash.ts";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import { bytesOf, elementCount, type Shape, type Tensor } from "../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../graph/model.ts";
import type { Engine, Tensors } from "./engine.ts";

const float = (name: string, ...shape: number[]): ValueInfo => ({ name, dtype: "float32", shape });

function node(op: string, inputs: string[], output: string, attributes: GraphNode["attributes"] = {}): GraphNode {
  return { op, name: output, inputs, outputs: [output], attributes };
}

/**
 * Odd matrix shapes reach the edges of every kernel's tiles; 64x784x128 is a shape that threads are known to change.
 * `tiny` holds denormals: an engine that flushes them to zero shows here.
 */
export const probeGraph: GraphModel = {
  name: "numerics-probe",
  inputs: [
    float("a", 37, 131),
    float("b", 131, 67),
    float("x", 64, 784),
    float("w", 784, 128),
    float("bias", 128),
    float("scale", 67),
    float("shift", 67),
    float("tiny", 33),
  ],
  outputs: [
    float("product", 37, 67),
    float("gemm", 64, 128),
    float("transposed", 67, 67),
    float("normal", 37, 67),
    float("shares", 37, 67),
    float("exponential", 37, 67),
    float("squashed", 37, 67),
    float("error", 37, 67),
    float("sum", 37),
    float("mean", 64),
    float("halved", 33),
  ],
  nodes: [
    node("MatMul", ["a", "b"], "product"),
    node("Gemm", ["x", "w", "bias"], "gemm"),
    node("Gemm", ["product", "product"], "transposed", { transA: 1, alpha: 0.37 }),
    node("LayerNormalization", ["product", "scale", "shift"], "normal", { axis: -1, epsilon: 1e-5 }),
    node("Softmax", ["product"], "shares", { axis: -1 }),
    node("Exp", ["normal"], "exponential"),
    node("Tanh", ["normal"], "squashed"),
    node("Erf", ["normal"], "error"),
    node("ReduceSum", ["product"], "sum", { axes: [-1], keepdims: 0 }),
    node("ReduceMean", ["gemm"], "mean", { axes: [-1], keepdims: 0 }),
    node("Mul", ["tiny", "half"], "halved"),
  ],
  constants: { half: { dtype: "float32", shape: [], data: Float32Array.of(0.5) } },
};

function probeFeeds(): Tensors {
  const feeds: Record<string, Tensor> = {};
  for (const { name, shape } of probeGraph.inputs) feeds[name] = drawn(name, shape);
  return feeds;
}

function drawn(name: string, shape: Shape): Tensor {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("numerics-probe", name), name === "tiny" ? 1e-38 : 1);
  return { dtype: "float32", shape, data };
}

/**
 * The hash of the probe's output bits; none of them is NaN, whose bits mean nothing. With several runs it is the hash of
 * what they all gave, or of everything that any of them gave.
 */
export async function numericsFingerprint(engine: Engine, runs = 1): Promise<string> {
  const program = await engine.load(probeGraph);
  const found = new Set<string>();
  try {
    const feeds = probeFeeds();
    for (let run = 0; run < runs; run++) {
      const outputs = await program.run(feeds);
      found.add(sha256(...probeGraph.outputs.map(({ name }) => bytesOf(outputs[name] as Tensor))));
    }
  } finally {
    await program.release();
  }
  return found.size === 1 ? ([...found][0] as string) : sha256([...found].sort().join());
}

/** `native-3f9a0c51d2e4`: short enough for a table, long enough to tell all classes apart. */
export function shortClass(kind: string, parts: readonly string[]): string {
  return `${kind}-${sha256(parts.join("\n")).slice(0, 12)}`;
}
