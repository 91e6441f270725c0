// The networks that the compute benchmark trains, as definitions; bench/peers/torch_compute.py has the same ones.

import { t1, transformerYaml } from "../examples/generate.ts";
import { fillNormal, randomKey, randomUint32 } from "../src/core/numbers/random.ts";
import { elementCount, type Tensor } from "../src/core/tensor.ts";
import type { DataPlan } from "../src/network/plan.ts";

export interface Workload {
  readonly name: string;
  readonly title: string;
  readonly batch: number;
  readonly definition: () => string;
  /** Steps of one measurement, so that each takes about a second. */
  readonly steps: number;
}

const mlp = () =>
  `
name: mlp
nodes:
  - { id: first, type: linear, config: { in_dim: 784, out_dim: 512 } }
  - { id: first_relu, type: relu, config: {} }
  - { id: second, type: linear, config: { in_dim: 512, out_dim: 512 } }
  - { id: second_relu, type: relu, config: {} }
  - { id: third, type: linear, config: { in_dim: 512, out_dim: 10 } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: first, to: first_relu }
  - { from: first_relu, to: second }
  - { from: second, to: second_relu }
  - { from: second_relu, to: third }
  - { from: third, to: loss }
costs: [{ name: loss, node_id: loss }]
`
    .replaceAll("config: { ", "config: { colocate_group: all, colocate_policy: required, optimizer: adam, ")
    .replaceAll("config: {}", "config: { colocate_group: all, colocate_policy: required, optimizer: adam }");

/** One pre-norm transformer block with a mean-square loss: nothing but the block costs time. */
const block = (dim: number, heads: number) => () => {
  const group = "colocate_group: all, colocate_policy: required, optimizer: adam";
  return `
name: block
nodes:
  - { id: fan_a, type: broadcast, config: { num_outputs: 2, ${group}, input_shape: [128, ${dim}] } }
  - { id: norm_a, type: layernorm, config: { dim: ${dim}, ${group} } }
  - { id: attention, type: attention, config: { num_heads: ${heads}, head_dim: 64, dim: ${dim}, seq_len: 128, causal: true, position_encoding: rope, output_projection: true, ${group} } }
  - { id: add_a, type: add, config: { ${group} } }
  - { id: fan_b, type: broadcast, config: { num_outputs: 2, ${group} } }
  - { id: norm_b, type: layernorm, config: { dim: ${dim}, ${group} } }
  - { id: up, type: linear, config: { in_dim: ${dim}, out_dim: ${4 * dim}, ${group} } }
  - { id: gelu, type: gelu, config: { ${group} } }
  - { id: down, type: linear, config: { in_dim: ${4 * dim}, out_dim: ${dim}, ${group} } }
  - { id: add_b, type: add, config: { ${group} } }
  - { id: loss, type: cost, config: { cost_function: mse, ${group} } }
edges:
  - { from: fan_a, to: norm_a }
  - { from: norm_a, to: attention }
  - { from: attention, to: add_a }
  - { from: fan_a, from_slot: 1, to: add_a, to_slot: 1 }
  - { from: add_a, to: fan_b }
  - { from: fan_b, to: norm_b }
  - { from: norm_b, to: up }
  - { from: up, to: gelu }
  - { from: gelu, to: down }
  - { from: down, to: add_b }
  - { from: fan_b, from_slot: 1, to: add_b, to_slot: 1 }
  - { from: add_b, to: loss }
costs: [{ name: loss, node_id: loss }]
`;
};

export const workloads: readonly Workload[] = [
  { name: "mlp", title: "MLP 784-512-512-10, batch 128", batch: 128, definition: mlp, steps: 60 },
  { name: "block256", title: "GPT block d=256, T=128, batch 8", batch: 8, definition: block(256, 4), steps: 12 },
  { name: "block512", title: "GPT block d=512, T=128, batch 8", batch: 8, definition: block(512, 8), steps: 4 },
  { name: "t1", title: "T1 whole, batch 4", batch: 4, definition: () => transformerYaml(t1), steps: 1 },
];

/** A fixed random batch that fits what the network reads. */
export function sampleOf(data: DataPlan, batch: number, name: string, classes: number): Tensor {
  const shape = [batch, ...data.shape];
  const key = randomKey("bench", name);
  if (data.wire === "int32") {
    const ids = Int32Array.from(
      { length: elementCount(shape) },
      (_, i) => randomUint32(key, i) % (data.below ?? classes),
    );
    return { dtype: "int32", shape, data: ids };
  }
  const values = new Float32Array(elementCount(shape));
  fillNormal(values, key, 1);
  return { dtype: "float32", shape, data: values };
}
