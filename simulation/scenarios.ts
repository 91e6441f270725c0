// The small networks that the simulator trains: every shape of graph that the protocol must bear, at sizes whose
// arithmetic costs next to nothing. What a seed draws on top of them (fleet, policy) never changes their bits.

import type { TensorData } from "../src/core/tensor.ts";
import type { FieldSpec } from "../src/data/build.ts";
import { SeededChance } from "./world/chance.ts";

export interface Scenario {
  readonly name: string;
  /** YAML, as a maintainer would write it. */
  readonly definition: string;
  readonly data: ScenarioData;
  readonly steps: number;
  readonly batch: number;
  readonly microbatches: number;
  /** Copies of the pipeline; one unless it says more. */
  readonly lanes?: number;
  readonly sync?: { readonly every: number; readonly after: number };
  readonly validateEvery: number;
  readonly clipNorm: number;
  /** Its network goes on with a text. */
  readonly speaks?: boolean;
}

export type ScenarioData =
  | { readonly kind: "tensors"; readonly fields: readonly FieldSpec[]; readonly samples: number }
  | { readonly kind: "tokens"; readonly tokens: number; readonly vocabulary: number };

/** Decides initial weights, dropout and the order of samples in every scenario. */
export const sessionSeed = 7;

export const sessionRate = { schedule: "cosine", base: 0.05, warmupSteps: 2, finalShare: 0.1 } as const;

export const validationMicrobatches = 2;

const classes: ScenarioData = {
  kind: "tensors",
  samples: 20,
  fields: [
    { name: "inputs", dtype: "float32", shape: [4] },
    { name: "labels", dtype: "int32", shape: [] },
  ],
};

const targets: ScenarioData = {
  kind: "tensors",
  samples: 23,
  fields: [
    { name: "inputs", dtype: "float32", shape: [4] },
    { name: "labels", dtype: "float32", shape: [2] },
  ],
};

/** `id: type key=value ...` per node and `a -> b` per edge (`a.1 -> b.0` names slots), as YAML. */
export function network(
  name: string,
  nodes: readonly string[],
  edges: readonly string[],
  cost = nodes.find((line) => line.includes("cost"))?.split(":")[0],
): string {
  const node = (line: string) => {
    const [id, type, ...settings] = line.split(/[: ]+/);
    const config = settings.map((setting) => setting.replace("=", ': "').concat('"'));
    return `  - { id: ${id}, type: ${type}, config: { ${config.join(", ")} } }`;
  };
  const edge = (line: string) => {
    const [from, to] = line.split(" -> ").map((end) => end.split("."));
    return `  - { from: ${from?.[0]}, from_slot: ${from?.[1] ?? 0}, to: ${to?.[0]}, to_slot: ${to?.[1] ?? 0} }`;
  };
  return [
    `name: ${name}`,
    "nodes:",
    ...nodes.map(node),
    "edges:",
    ...edges.map(edge),
    `costs: [{ name: loss, node_id: ${cost}, slot_id: 0 }]`,
    "",
  ].join("\n");
}

export const scenarios: readonly Scenario[] = [
  {
    name: "chain",
    definition: network(
      "chain",
      [
        "a: linear in_dim=4 out_dim=6 optimizer=adam",
        "b: gelu",
        "c: linear in_dim=6 out_dim=3 optimizer=adam",
        "d: cost cost_function=ce_logits",
      ],
      ["a -> b", "b -> c", "c -> d"],
    ),
    data: classes,
    steps: 9,
    batch: 4,
    microbatches: 2,
    validateEvery: 0,
    clipNorm: 0,
  },
  {
    name: "branch",
    definition: network(
      "branch",
      [
        "in: linear in_dim=4 out_dim=4 optimizer=sgd",
        "split: broadcast num_outputs=2",
        "left: linear in_dim=4 out_dim=4 optimizer=adam",
        "right: linear in_dim=4 out_dim=4 optimizer=adam",
        "join: add",
        "out: linear in_dim=4 out_dim=3 optimizer=adam",
        "loss: cost cost_function=ce_logits",
      ],
      [
        "in -> split",
        "split.0 -> left",
        "split.1 -> right",
        "left -> join.0",
        "right -> join.1",
        "join -> out",
        "out -> loss",
      ],
    ),
    data: classes,
    steps: 7,
    batch: 6,
    microbatches: 3,
    validateEvery: 3,
    clipNorm: 0.5,
  },
  {
    name: "tie",
    definition: network(
      "tie",
      [
        "embed: embedder vocab_size=11 dim=4 seq_len=3 position_encoding=none shared_weight_alias=tokens optimizer=adam",
        "mix: linear in_dim=4 out_dim=4 optimizer=adam",
        "head: linear in_dim=4 out_dim=11 tie_weight_alias=tokens optimizer=adam",
        "loss: cost cost_function=ce_logits",
      ],
      ["embed -> mix", "mix -> head", "head -> loss"],
    ),
    data: { kind: "tokens", tokens: 100, vocabulary: 11 },
    steps: 7,
    batch: 4,
    microbatches: 2,
    validateEvery: 4,
    clipNorm: 0,
  },
  {
    name: "dropout",
    definition: network(
      "dropout",
      [
        "a: linear in_dim=4 out_dim=8 optimizer=adam colocate_group=front colocate_policy=required",
        "b: silu colocate_group=front colocate_policy=required",
        "drop: dropout rate=0.3",
        "c: linear in_dim=8 out_dim=2 optimizer=adam",
        "loss: cost cost_function=mse",
      ],
      ["a -> b", "b -> drop", "drop -> c", "c -> loss"],
    ),
    data: targets,
    steps: 10,
    batch: 4,
    microbatches: 4,
    validateEvery: 5,
    clipNorm: 0,
  },
  {
    name: "residual",
    definition: network(
      "residual",
      [
        "in: linear in_dim=4 out_dim=4 optimizer=adam",
        "fan: broadcast num_outputs=3",
        "norm: layernorm dim=4 optimizer=adam",
        "up: linear in_dim=4 out_dim=8 optimizer=adam",
        "gate: swiglu",
        "sum: add",
        "out: linear in_dim=4 out_dim=2 optimizer=sgd",
        "loss: cost cost_function=mse",
      ],
      [
        "in -> fan",
        "fan.0 -> norm",
        "norm -> up",
        "up -> gate",
        "gate -> sum.0",
        "fan.1 -> sum.1",
        "fan.2 -> sum.2",
        "sum -> out",
        "out -> loss",
      ],
    ),
    data: targets,
    steps: 6,
    batch: 2,
    microbatches: 1,
    validateEvery: 0,
    clipNorm: 1,
  },
];

/** A language of eleven words. */
export const speech: Scenario = {
  name: "speech",
  definition: network(
    "speech",
    [
      "embed: embedder vocab_size=11 dim=4 seq_len=8 position_encoding=learned shared_weight_alias=words optimizer=adam",
      "norm: layernorm optimizer=adam",
      "heads: attention num_heads=2 optimizer=adam",
      "head: linear tie_weight_alias=words optimizer=adam",
      "loss: cost cost_function=ce_logits",
    ],
    ["embed -> norm", "norm -> heads", "heads -> head", "head -> loss"],
  ),
  data: { kind: "tokens", tokens: 120, vocabulary: 11 },
  steps: 4,
  batch: 4,
  microbatches: 2,
  validateEvery: 0,
  clipNorm: 0,
  speaks: true,
};

/** Networks that are trained in several lanes; some of their weights fill several shards, some less than one. */
export const laned: readonly Scenario[] = [
  {
    name: "lanes",
    definition: network(
      "lanes",
      [
        "embed: embedder vocab_size=11 dim=8 seq_len=3 position_encoding=none shared_weight_alias=tokens optimizer=adam",
        "up: linear in_dim=8 out_dim=80 optimizer=adamw weight_decay=0.1",
        "drop: dropout rate=0.2",
        "down: linear in_dim=80 out_dim=8 optimizer=adam",
        "head: linear in_dim=8 out_dim=11 tie_weight_alias=tokens optimizer=adam",
        "loss: cost cost_function=ce_logits",
      ],
      ["embed -> up", "up -> drop", "drop -> down", "down -> head", "head -> loss"],
    ),
    data: { kind: "tokens", tokens: 100, vocabulary: 11 },
    steps: 6,
    batch: 4,
    microbatches: 4,
    lanes: 2,
    validateEvery: 3,
    clipNorm: 0.5,
  },
  {
    name: "four-lanes",
    definition: network(
      "four-lanes",
      [
        "a: linear in_dim=4 out_dim=120 optimizer=sgd momentum=0.9",
        "b: gelu",
        "c: linear in_dim=120 out_dim=3 optimizer=adam",
        "d: cost cost_function=ce_logits",
      ],
      ["a -> b", "b -> c", "c -> d"],
    ),
    data: classes,
    steps: 5,
    batch: 8,
    microbatches: 4,
    lanes: 4,
    validateEvery: 0,
    clipNorm: 0,
  },
];

/** Lanes that come and go between rounds. */
export const elasticScenarios: readonly Scenario[] = [
  {
    name: "elastic",
    definition: network(
      "elastic",
      [
        "a: linear in_dim=4 out_dim=90 optimizer=adam",
        "b: gelu",
        "c: dropout rate=0.1",
        "d: linear in_dim=90 out_dim=3 optimizer=adamw weight_decay=0.1",
        "e: cost cost_function=ce_logits",
      ],
      ["a -> b", "b -> c", "c -> d", "d -> e"],
    ),
    data: classes,
    steps: 28,
    batch: 6,
    microbatches: 6,
    lanes: 3,
    sync: { every: 5, after: 2 },
    validateEvery: 0,
    clipNorm: 0.5,
  },
  {
    name: "elastic-pair",
    definition: network(
      "elastic-pair",
      [
        "a: linear in_dim=4 out_dim=70 optimizer=sgd momentum=0.9",
        "b: linear in_dim=70 out_dim=2",
        "c: cost cost_function=mse",
      ],
      ["a -> b", "b -> c"],
    ),
    data: targets,
    steps: 24,
    batch: 4,
    microbatches: 4,
    lanes: 2,
    sync: { every: 4, after: 1 },
    validateEvery: 5,
    clipNorm: 0,
  },
];

/** Lanes that learn apart for a few steps at a time; the last round is a short one. */
export const rounds: readonly Scenario[] = [
  {
    name: "rounds",
    definition: network(
      "rounds",
      [
        "embed: embedder vocab_size=11 dim=8 seq_len=3 position_encoding=none shared_weight_alias=tokens optimizer=adam",
        "up: linear in_dim=8 out_dim=80 optimizer=adamw weight_decay=0.1",
        "drop: dropout rate=0.2",
        "down: linear in_dim=80 out_dim=8 optimizer=sgd momentum=0.9",
        "head: linear in_dim=8 out_dim=11 tie_weight_alias=tokens optimizer=adam",
        "loss: cost cost_function=ce_logits",
      ],
      ["embed -> up", "up -> drop", "drop -> down", "down -> head", "head -> loss"],
    ),
    data: { kind: "tokens", tokens: 100, vocabulary: 11 },
    steps: 10,
    batch: 4,
    microbatches: 4,
    lanes: 2,
    sync: { every: 3, after: 2 },
    validateEvery: 2,
    clipNorm: 0.5,
  },
  {
    name: "four-rounds",
    definition: network(
      "four-rounds",
      [
        "a: linear in_dim=4 out_dim=120 optimizer=adam",
        "b: gelu",
        "c: linear in_dim=120 out_dim=3 optimizer=adam",
        "d: cost cost_function=ce_logits",
      ],
      ["a -> b", "b -> c", "c -> d"],
    ),
    data: classes,
    steps: 9,
    batch: 8,
    microbatches: 4,
    lanes: 4,
    sync: { every: 4, after: 1 },
    validateEvery: 0,
    clipNorm: 0,
  },
];

/** A scenario's data: the same in every run. */
export function samplesOf(data: ScenarioData & { kind: "tensors" }): Record<string, TensorData> {
  const chance = new SeededChance(20, "data");
  const values: Record<string, TensorData> = {};
  for (const { name, dtype, shape } of data.fields) {
    const count = data.samples * shape.reduce((product, size) => product * size, 1);
    values[name] =
      dtype === "int32"
        ? Int32Array.from({ length: count }, () => chance.whole(0, 2))
        : Float32Array.from({ length: count }, () => chance.between(-1, 1));
  }
  return values;
}

export function tokensOf(data: ScenarioData & { kind: "tokens" }): Int32Array {
  const chance = new SeededChance(21, "tokens");
  return Int32Array.from({ length: data.tokens }, () => chance.whole(0, data.vocabulary - 1));
}
