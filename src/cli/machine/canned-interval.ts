// An interval whose result is known: a small network learns for a few steps on samples that follow from names, in numerics whose bits are ours alone
// and the same everywhere. Whoever comes to something else is broken, also where it is so each time and no comparison with itself would show it.

import { sha256 } from "../../core/hash.ts";
import type { VNodeId } from "../../core/ids.ts";
import { fillNormal, randomKey } from "../../core/numbers/random.ts";
import { openBatches } from "../../data/batches.ts";
import { buildTensors } from "../../data/build.ts";
import type { Executor } from "../../engine/engine.ts";
import { portableClass } from "../../engine/portable/bits.ts";
import { compileText } from "../../network/compile.ts";
import { buildTraining } from "../../network/graphs/graphs.ts";
import { openMemoryBlobs } from "../../store/memory.ts";
import { VNodeCompute } from "../../vnode/compute.ts";
import { type InOnePlace, runInOnePlace } from "../../vnode/one-place.ts";
import { Process } from "../../vnode/process.ts";
import { roleOf } from "../../vnode/role.ts";

/** By numerics class. Where it has no entry `canned-interval.test.ts` says what to write down. */
const known: Readonly<Record<string, string>> = {
  "portable-2": "5a8e5c2670d7ee1c5b95fd1d9b15ae7d84d7d166e965239c96baba7d0be3c742",
};

const [steps, batch, microbatches, width, samples] = [4, 8, 2, 32, 32];
const seed = 7;

const definition = `
name: canned
nodes:
  - { id: in, type: linear, config: { in_dim: "${width}", out_dim: "${width}", optimizer: adam } }
  - { id: norm, type: layernorm, config: { dim: "${width}", optimizer: adam } }
  - { id: bend, type: gelu }
  - { id: out, type: linear, config: { in_dim: "${width}", out_dim: "5", optimizer: adam } }
  - { id: cost, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: in, from_slot: 0, to: norm, to_slot: 0 }
  - { from: norm, from_slot: 0, to: bend, to_slot: 0 }
  - { from: bend, from_slot: 0, to: out, to_slot: 0 }
  - { from: out, from_slot: 0, to: cost, to_slot: 0 }
costs: [{ name: loss, node_id: cost, slot_id: 0 }]
`;

/** What is wrong with what it comes to, as a sentence; undefined: nothing. The executor is of the portable engine. */
export async function cannedTrouble(executor: Executor): Promise<string | undefined> {
  const result = await cannedResult(executor);
  return result === known[portableClass]
    ? undefined
    : `the portable engine comes to another result than everywhere else (${result.slice(0, 12)}…): the processor computes wrongly, the same each time`;
}

/** Hash of all states after each step. */
export async function cannedResult(executor: Executor): Promise<string> {
  const plan = compileText(definition);
  const blobs = openMemoryBlobs();
  const manifest = await cannedData(blobs);
  const fetchBlob: Parameters<typeof openBatches>[0]["fetchBlob"] = (hash) => blobs.datasets.get(hash);
  const cut = { seed, split: "all", validationSplit: "", batch, microbatches };
  const batches = openBatches({ manifest, fetchBlob, cacheBytesMax: 1 << 20, ...cut });
  const vnodes = new Map<VNodeId, InOnePlace>();
  const schedule = { steps, validateEvery: 0, microbatches, validationMicrobatches: 0, checkpointEvery: steps };
  const hashes: string[] = [];
  try {
    for (const vnode of plan.vnodes) {
      const compute = new VNodeCompute({
        ...{ name: vnode.id, plan: vnode, executor, batches, data: plan },
        training: buildTraining(plan, vnode, { microbatch: batch / microbatches, lossScale: 1 / microbatches }),
        settings: {
          ...{ seed, steps, batch, microbatches, validationMicrobatches: 0, clipNorm: 0 },
          learningRate: { schedule: "constant", base: 0.01, warmupSteps: 0, finalShare: 1 },
        },
      });
      const role = roleOf(plan, vnode.id);
      const process: InOnePlace["process"] = new Process({
        role,
        schedule,
        line: 0,
        parallel: 1,
        persistsPendingMax: 9,
      });
      vnodes.set(vnode.id, { process, compute });
      await compute.initialise();
    }
    await runInOnePlace(plan, vnodes, {
      published: (vnode, { step, hash }) => void hashes.push(`${vnode} ${step} ${hash}`),
      evaluated: () => {},
      persist: async () => {},
    });
  } finally {
    for (const { compute } of vnodes.values()) await compute.close();
  }
  return sha256(hashes.sort().join("\n"));
}

async function cannedData({ datasets }: ReturnType<typeof openMemoryBlobs>) {
  const fields = [
    { name: "inputs", dtype: "float32", shape: [width] },
    { name: "labels", dtype: "int32", shape: [] },
  ] as const;
  const builder = buildTensors(fields, { blobs: datasets });
  const inputs = new Float32Array(samples * width);
  fillNormal(inputs, randomKey("canned interval", "inputs"), 1);
  const labels = Int32Array.from({ length: samples }, (_, index) => index % 5);
  await builder.add({ inputs, labels });
  return builder.finish();
}
