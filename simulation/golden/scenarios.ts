// What the golden roots are taken of: all networks that the simulator trains, and a few that use the rest of what decides
// bits, at sizes that train in an instant. A scenario that changes is a new one: give it another name.

import { laned, network, rounds, type Scenario, scenarios, speech } from "../scenarios.ts";

const text = { kind: "tokens", tokens: 200, vocabulary: 13 } as const;
const run = { steps: 5, batch: 4, microbatches: 2, validateEvery: 2, clipNorm: 1 };

export const goldenScenarios: readonly Scenario[] = [
  ...scenarios,
  ...laned,
  ...rounds,
  speech,
  {
    name: "gpt",
    definition: network(
      "gpt",
      [
        "embed: embedder vocab_size=13 dim=8 seq_len=6 position_encoding=learned shared_weight_alias=tokens optimizer=adamw",
        "drop: dropout rate=0.2",
        "fork: broadcast num_outputs=2 colocate_group=block",
        "norm: layernorm colocate_group=block optimizer=adamw",
        "heads: attention num_heads=2 bias=true colocate_group=block optimizer=adamw",
        "join: add colocate_group=block",
        "up: linear out_dim=16 optimizer=adamw",
        "bend: gelu approximate=tanh",
        "late: dropout rate=0.1",
        "down: linear out_dim=8 optimizer=adamw",
        "head: tied_lm_head_ce tie_weight_alias=tokens",
      ],
      [
        "embed -> drop",
        "drop -> fork",
        "fork.0 -> norm",
        "norm -> heads",
        "heads -> join.0",
        "fork.1 -> join.1",
        "join -> up",
        "up -> bend",
        "bend -> late",
        "late -> down",
        "down -> head",
      ],
      "head",
    ),
    data: text,
    ...run,
  },
  {
    name: "llama",
    definition: network(
      "llama",
      [
        "embed: embedder vocab_size=13 dim=8 seq_len=6",
        "norm: rmsnorm",
        "heads: attention num_heads=4 num_kv_heads=2 position_encoding=rope",
        "up: linear out_dim=16 bias=false",
        "gate: swiglu",
        "out: linear out_dim=13 bias=false",
        "loss: cost cost_function=ce_logits",
      ],
      ["embed -> norm", "norm -> heads", "heads -> up", "up -> gate", "gate -> out", "out -> loss"],
    ),
    data: text,
    ...run,
  },
  {
    name: "adapted",
    definition: network(
      "adapted",
      [
        "embed: embedder vocab_size=13 dim=8 seq_len=6 shared_weight_alias=tokens frozen=true",
        "norm: rmsnorm frozen=true",
        "heads: attention num_heads=4 num_kv_heads=2 position_encoding=rope frozen=true adapter_rank=2 adapter_alpha=4",
        "up: linear out_dim=16 frozen=true adapter_rank=3",
        "bend: gelu",
        "down: linear out_dim=8 bias=false frozen=true",
        "last: layernorm",
        "head: tied_lm_head_ce tie_weight_alias=tokens",
      ],
      ["embed -> norm", "norm -> heads", "heads -> up", "up -> bend", "bend -> down", "down -> last", "last -> head"],
      "head",
    ),
    data: text,
    ...run,
  },
  {
    name: "conv",
    definition: network(
      "conv",
      [
        "image: reshape input_shape=36 target_shape=1,6,6",
        "first: conv2d out_channels=3 kernel_size=3 padding=1 optimizer=sgd momentum=0.9",
        "bend: relu",
        "pool: maxpool2d kernel_size=2",
        "second: conv2d out_channels=4 kernel_size=2 optimizer=adam weight_decay=0.01",
        "flat: flatten",
        "out: linear out_dim=3",
        "loss: cost cost_function=ce_logits",
      ],
      [
        "image -> first",
        "first -> bend",
        "bend -> pool",
        "pool -> second",
        "second -> flat",
        "flat -> out",
        "out -> loss",
      ],
    ),
    data: {
      kind: "tensors",
      samples: 24,
      fields: [
        { name: "inputs", dtype: "float32", shape: [36] },
        { name: "labels", dtype: "int32", shape: [] },
      ],
    },
    ...run,
  },
  {
    name: "half",
    definition: network(
      "half",
      [
        "a: linear in_dim=4 out_dim=8 precision=bf16",
        "b: tanh precision=bf16",
        "c: linear out_dim=6 precision=fp16",
        "d: sigmoid",
        "e: linear out_dim=2 optimizer=adamw weight_decay=0.1",
        "loss: cost cost_function=mse",
      ],
      ["a -> b", "b -> c", "c -> d", "d -> e", "e -> loss"],
    ),
    data: {
      kind: "tensors",
      samples: 23,
      fields: [
        { name: "inputs", dtype: "float32", shape: [4] },
        { name: "labels", dtype: "float32", shape: [2] },
      ],
    },
    ...run,
  },
  {
    name: "eight-bits",
    definition: network(
      "eight-bits",
      [
        "a: linear in_dim=4 out_dim=8 activation_precision=int8",
        "b: tanh activation_precision=int8",
        "c: linear out_dim=2",
        "loss: cost cost_function=mse",
      ],
      ["a -> b", "b -> c", "c -> loss"],
    ),
    data: {
      kind: "tensors",
      samples: 23,
      fields: [
        { name: "inputs", dtype: "float32", shape: [4] },
        { name: "labels", dtype: "float32", shape: [2] },
      ],
    },
    ...run,
  },
];
