import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { create } from "@bufbuild/protobuf";
import { sha256 } from "../../core/hash.ts";
import { buildTensors } from "../../data/build.ts";
import { checkpointsBetween } from "../../network/checkpoints.ts";
import { compileText } from "../../network/compile.ts";
import { settingsToWire } from "../../network/settings/wire.ts";
import { type SessionSettings, SessionSettingsSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { openMemoryBlobs } from "../../store/memory.ts";
import { identityOf, policyOf, requirementsOf, usualValidation } from "./settings.ts";

const plan = compileText(`
name: small
nodes:
  - { id: first, type: linear, config: { in_dim: 4, out_dim: 3 } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges: [{ from: first, to: loss }]
costs: [{ name: loss, node_id: loss }]
`);

async function smallDataset() {
  const fields = [
    { name: "inputs", dtype: "float32", shape: [4] },
    { name: "labels", dtype: "int32", shape: [] },
  ] as const;
  const builder = buildTensors(fields, { blobs: openMemoryBlobs().datasets });
  await builder.add({ inputs: new Float32Array(4 * 96), labels: new Int32Array(96) });
  const manifest = await builder.finish();
  return { hash: sha256("manifest"), manifest };
}

const parameterOf = ({ vnodes }: typeof plan) => vnodes[0]!.parameters[0]!;

type Asked = Parameters<typeof create<typeof SessionSettingsSchema>>[1];

async function settled(asked: Asked) {
  const settings: SessionSettings = create(SessionSettingsSchema, asked);
  const identity = identityOf(settings, plan, await smallDataset());
  return { identity, policy: policyOf(settings, plan), requirements: requirementsOf(settings) };
}

const everything: Asked = {
  split: "all",
  validationSplit: "all",
  steps: 77n,
  batch: 24,
  microbatches: 3,
  lanes: 3,
  syncEvery: 10,
  syncAfter: 20n,
  seed: 1n << 50n,
  numerics: "portable",
  checkpointEvery: 9,
  learningRate: { schedule: "cosine", base: 0.1 + 0.2, warmupSteps: 5n, finalShare: 1 / 3 },
  clipNorm: 0.7,
  replicas: 3,
  validateEvery: 11,
  validationMicrobatches: 3,
  maxRuntimeSeconds: 90.5,
  spread: 4,
  budget: 2_000_000_000_000n,
  requirements: {
    gpus: 2,
    gpuMemoryBytes: 1n << 40n,
    memoryBytes: 1n << 33n,
    cpus: 8,
    region: "eu",
    trust: "known",
    maxPricePerHour: 0.25,
    priority: -3,
  },
};

describe("the settings of a session", () => {
  it("are the same when somebody asks for what a session's message shows", async () => {
    const inRounds = { steps: 900n, lanes: 2, syncEvery: 50 };
    for (const asked of [
      everything,
      inRounds,
      { steps: 5n },
      { epochs: 1.5, validateEvery: 2, validationSplit: "all" },
    ]) {
      const settings = await settled(asked);
      assert.deepEqual(await settled(settingsToWire(settings)), settings);
    }
  });

  it("hold everything that was asked for", async () => {
    const { identity, policy, requirements } = await settled(everything);
    const { initialState, ...shown } = settingsToWire({ identity, policy, requirements });
    const { maxRuntimeSeconds, ...needs } = shown.requirements;
    assert.deepEqual({ ...shown, requirements: needs }, everything);
    assert.deepEqual([initialState, maxRuntimeSeconds], ["", 90.5]);
  });

  it("are what is usual where nothing was said", async () => {
    const { identity, policy } = await settled({ steps: 5n });
    const { batch, microbatches, seed, learningRate, split, numerics } = identity;
    assert.deepEqual(
      { batch, microbatches, seed, split, numerics },
      { batch: 32, microbatches: 4, seed: 1, split: "all", numerics: "native" },
    );
    assert.deepEqual(learningRate, { schedule: "constant", base: 0.001, warmupSteps: 0, finalShare: 0 });
    assert.deepEqual(policy, { checkpointEvery: 20, replicas: 1 });
    assert.equal((await settled({ steps: 5n, batch: 6 })).identity.microbatches, 3, "what divides the batch");
  });

  it("give each lane as many microbatches as is usual, and validations that lanes can share", async () => {
    const { identity } = await settled({ steps: 5n, batch: 24, lanes: 3, validateEvery: 9, validationSplit: "all" });
    assert.deepEqual([identity.lanes, identity.microbatches], [3, 12]);
    assert.equal(identity.validationMicrobatches % 3, 0);
    assert.ok(!("lanes" in (await settled({ steps: 5n, lanes: 1 })).identity), "one lane is as if nobody had said it");
  });

  it("store lanes more often the larger the network, since what they add up is kept until then", async () => {
    const parameter = { ...parameterOf(plan), shape: [40 << 20] };
    const large = { ...plan, vnodes: [{ ...plan.vnodes[0]!, parameters: [parameter] }] };
    const every = (asked: Asked, of: typeof plan) => policyOf(create(SessionSettingsSchema, asked), of).checkpointEvery;
    assert.deepEqual([every({ lanes: 2 }, plan), every({ lanes: 2 }, large), every({}, large)], [20, 1, 20]);
    assert.equal(every({ lanes: 2, checkpointEvery: 7 }, large), 7, "as somebody says");
  });

  it("store states within rounds at their ends alone, unless somebody says how often", async () => {
    const inRounds = { steps: 900n, lanes: 2, syncEvery: 50 };
    const { policy } = await settled(inRounds);
    assert.deepEqual(policy, { checkpointEvery: 20, roundCheckpoints: "ends", replicas: 1 });
    assert.deepEqual((await settled({ ...inRounds, checkpointEvery: 20 })).policy, {
      checkpointEvery: 20,
      replicas: 1,
    });
    assert.ok(!("roundCheckpoints" in (await settled({ steps: 900n, lanes: 2 })).policy), "without rounds");
  });

  it("have rounds send little of what adding up every gradient sends, their states included", () => {
    const weights = 27 << 20;
    const large = {
      ...plan,
      vnodes: [{ ...plan.vnodes[0]!, parameters: [{ ...parameterOf(plan), shape: [weights] }] }],
    };
    const [lanes, every, after, steps] = [4, 50, 200, 200 + 20 * 51];
    const sessions = create(SessionSettingsSchema, { lanes, syncEvery: every });
    const times = { ...policyOf(sessions, large), steps, sync: { every, after } };
    // Each lane has weights and two moments of its own where lanes are apart.
    const stored = checkpointsBetween(times, after, steps) * 3 * 4 * weights;
    const reduced = (steps - after) * ((2 * (lanes - 1)) / lanes) * 4 * weights;
    assert.ok(stored < reduced / 20, `${stored} bytes of states beside ${reduced} of gradients`);
    assert.equal(times.checkpointEvery, 2, "while lanes are together");
  });

  it("are refused by field and flag where they make no sense", async () => {
    const elastic: Asked = {
      steps: 9n,
      batch: 4,
      microbatches: 2,
      lanes: 2,
      syncEvery: 3,
      syncAfter: 2n,
      elastic: "on",
    };
    const refused: readonly (readonly [Asked, RegExp])[] = [
      [{}, /needs `steps` or `epochs`/],
      [{ steps: 100_000_001n }, /^steps is 100000001, expected a whole number from 1 to 100000000$/],
      [{ steps: 1n, learningRate: { base: -1 } }, /^learning_rate\.base \(--rate\) is -1, expected a number/],
      [{ steps: 1n, clipNorm: Number.NaN }, /^clip_norm \(--clip-norm\) is NaN/],
      [{ steps: 1n, batch: 5, microbatches: 2 }, /a batch of 5 cannot be cut into 2/],
      [{ steps: 1n, batch: 8, lanes: 3 }, /^a batch of 8 cannot be shared by 3 lanes: choose a divisor of it$/],
      [{ steps: 1n, batch: 8, microbatches: 2, lanes: 4 }, /^4 lanes cannot share 2 microbatches: give each lane/],
      [{ steps: 1n, batch: 12, microbatches: 6, lanes: 4 }, /^6 microbatches cannot be shared by 4 lanes/],
      [{ steps: 9n, syncEvery: 3, syncAfter: 2n }, /^rounds are for lanes that learn apart for a while/],
      [{ steps: 9n, lanes: 2, syncEvery: 3 }, /^rounds would begin after 200 steps, and the session has 9/],
      [{ steps: 9n, lanes: 2, syncAfter: 3n }, /^sync_after says when rounds begin, and sync_every is not there/],
      [{ steps: 9n, lanes: 2, syncEvery: 200_000 }, /^sync_every \(--sync-every\) is 200000/],
      [{ steps: 9n, lanes: 2, syncEvery: 3, syncAfter: 8n }, /a round takes two at least, let them begin earlier/],
      [
        { steps: 9n, lanes: 2, elastic: "on" },
        /^lanes come and go between rounds: an elastic session needs rounds, too/,
      ],
      [{ ...elastic, autonomy: "on" }, /^rounds of an elastic session are closed by orchestrators/],
      [{ ...elastic, assurance: "checked" }, /^an elastic session cannot be checked yet/],
      [{ ...elastic, eras: "on" }, /^an elastic session has a class for each lane and no eras/],
      [{ steps: 9n, cap: "on" }, /^cap on: what is not checked is not capped/],
      [
        { ...elastic, elastic: "", assurance: "sampled", cap: "on" },
        /^cap on: what lanes come to at the end of a round/,
      ],
      [
        { steps: 9n, batch: 4, lanes: 2, numerics: "mixed" },
        /^lanes of several numerics classes do not add up step by step/,
      ],
      [
        { ...elastic, numerics: "mixed", elastic: "off" },
        /^which lane computes in which class is recorded round by round: mixed numerics need elastic on$/,
      ],
      [{ ...elastic, elastic: "perhaps" }, /^elastic "perhaps" is unknown: choose off or on$/],
      [{ steps: 1n, lanes: 65 }, /^lanes is 65, expected a whole number from 1 to 64$/],
      [
        { steps: 1n, lanes: 2, validateEvery: 1, validationSplit: "all", validationMicrobatches: 3 },
        /^3 microbatches of a validation cannot be shared by 2 lanes/,
      ],
      [
        { steps: 1n, numerics: "analog" },
        /^numerics "analog" is unknown: choose native, portable, reference, webgpu, cuda, exact or mixed$/,
      ],
      [{ steps: 1n, checkpointEvery: 2_000 }, /^checkpoint_every \(--checkpoint-every\) is 2000/],
      [{ steps: 1n, requirements: { trust: "blind" } }, /^requirements\.trust \(--needs-trust\) "blind" is unknown/],
      [{ steps: 1n, requirements: { priority: 5_000 } }, /^requirements\.priority \(--priority\) is 5000/],
    ];
    assert.equal((await settled(elastic)).policy.elastic, "on");
    assert.equal((await settled({ steps: 9n, assurance: "sampled", cap: "on" })).policy.cap, "on");
    assert.equal((await settled({ ...elastic, numerics: "mixed" })).identity.numerics, "mixed");
    for (const [asked, sentence] of refused)
      await assert.rejects(settled(asked), { code: "invalid_argument", message: sentence });
  });
});

describe("a validation, unless someone says how long it is", () => {
  const often = { samples: 8, trained: 1_000_000 };

  it("covers a small split once and takes no sample twice", () => {
    assert.equal(usualValidation(100, often), 12);
    assert.equal(usualValidation(8, often), 1);
  });

  it("takes about a thousand samples of a large split", () => {
    assert.equal(usualValidation(60_000, often) * often.samples, 1_024);
  });

  it("stays small beside the training that it follows", () => {
    assert.equal(usualValidation(60_000, { samples: 8, trained: 320 }) * 8, 160);
  });

  it("has at least one microbatch, whatever the split", () => {
    assert.equal(usualValidation(3, often), 1);
    assert.equal(usualValidation(60_000, { samples: 64, trained: 64 }), 1);
  });
});
