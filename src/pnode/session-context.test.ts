import { strict as assert } from "node:assert";
import { test } from "node:test";
import { asideHere, type Work } from "../core/aside.ts";
import { bits } from "../core/bits.ts";
import { DcnrError } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { silentLog, type World } from "../core/world.ts";
import { type Manifest, manifestText } from "../data/manifest.ts";
import type { Engine, EngineKind, Executor, Program } from "../engine/engine.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { arrayDevice, arrayDeviceEngine } from "../engine/webgpu/array-device.testing.ts";
import type { Device } from "../engine/webgpu/device.ts";
import { type SessionIdentity, sessionIdOf } from "../network/settings/session.ts";
import { identityToWire } from "../network/settings/wire.ts";
import { PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import { MemoryNetwork } from "../protocol/memory-network.testing.ts";
import { copiedImage, memoryState } from "../states/in-memory.ts";
import type { BlobClient } from "./blob-client.ts";
import { TestOrchestrator } from "./memory.testing.ts";
import { timingsDefault } from "./options.ts";
import { Orchestrators } from "./orchestrators.ts";
import { NoRoom } from "./room.ts";
import { checkSession, SessionContext, type SessionContextOptions } from "./session-context.ts";

const definition = `
name: small
nodes:
  - { id: layer, type: linear, config: { in_dim: 2, out_dim: 2 } }
  - { id: loss, type: cost, config: { cost_function: mse } }
edges: [{ from: layer, to: loss }]
costs: [{ name: loss, node_id: loss }]
`;

const identity: SessionIdentity = {
  definition: sha256(definition),
  dataset: "cd".repeat(32) as Sha256,
  split: "all",
  validationSplit: "",
  steps: 10,
  batch: 4,
  microbatches: 2,
  seed: 1,
  numerics: "reference",
  bits,
  learningRate: { schedule: "constant", base: 0.1, warmupSteps: 0, finalShare: 0 },
  clipNorm: 0,
  validateEvery: 0,
  validationMicrobatches: 0,
  initialState: "",
};

interface Told {
  readonly session: SessionId;
  readonly definition: string;
  readonly identity: SessionIdentity | undefined;
  readonly checkpointEvery: number;
}

const truth: Told = { session: sessionIdOf(identity, "small"), definition, identity, checkpointEvery: 3 };

type Machine = Pick<SessionContextOptions, "executorFor" | "rounding">;

/** What a PNode makes of a session when it is told this about it. */
async function open(
  told: Partial<Told>,
  ownBits = bits,
  machine: Partial<Machine & Pick<SessionContextOptions, "blobs" | "aside">> = {},
  computes = false,
): Promise<SessionContext> {
  const { session, definition, identity, checkpointEvery } = { ...truth, ...told };
  const network = new MemoryNetwork();
  const value = { ...(identity ? { identity: identityToWire(identity) } : {}), checkpointEvery };
  const described = { id: session, definition, work: { case: "training" as const, value } };
  await network.serve("o1", [new TestOrchestrator(described, new Map()).service()]);
  const clock = { wallMs: () => 0, monotonicMs: () => 0 };
  const chance = { uniform: () => 0.5, bytes: (count: number) => new Uint8Array(count) };
  const world: World = { clock, chance, timers: { after: () => () => {} }, log: silentLog };
  return SessionContext.open(
    {
      session,
      bits: ownBits,
      check: checkSession,
      describe: (id) =>
        new Orchestrators(network, world, timingsDefault, ["o1"]).call(
          PNodeService.method.describeSession,
          { session: id },
          new AbortController().signal,
        ),
      blobs: {} as BlobClient,
      engineOf: () => "reference",
      executorFor: async () => openInlineExecutor(openReferenceEngine()),
      rounding: { classOf: () => undefined, onOther: () => {} },
      shardBytesMax: 1 << 20,
      clock,
      aside: asideHere,
      onDataWait: () => {},
      signal: new AbortController().signal,
      ...machine,
    },
    computes,
  );
}

test("a PNode works for a session whose settings and definition are what its id says", async () => {
  const { schedule, plan, samples } = await open({});
  assert.equal(schedule.steps, 10);
  assert.equal(schedule.checkpointEvery, 3);
  assert.equal(plan.name, "small");
  assert.equal(samples, 2);
});

test("workers start while the definition is compiled, where VNodes are to be computed, and not before it is known to be the session's", async () => {
  const asked: string[] = [];
  const machine = {
    executorFor: async (engine: EngineKind): Promise<Executor> => {
      asked.push(engine);
      throw new Error("this machine has no such engine");
    },
    aside: {
      run: <Input, Piece>(work: Work<Input, Piece>, input: Input): Promise<Piece[]> => {
        asked.push(work.name);
        return asideHere.run(work, input);
      },
    },
  };
  await open({}, bits, machine, true);
  assert.deepEqual(asked.splice(0), [identity.numerics, "compiling"]);
  await open({}, bits, machine);
  assert.deepEqual(asked.splice(0), ["compiling"], "whoever only wants to know the session needs none");
  await assert.rejects(open({ definition: `${definition}\n` }, bits, machine, true), /does not have the hash/);
  assert.deepEqual(asked, []);
});

test("settings that do not hash to the session's id are refused, whatever differs in them", async () => {
  for (const change of [{ seed: 2 }, { steps: 11 }, { clipNorm: 1 }, { dataset: "ab".repeat(32) as Sha256 }])
    await assert.rejects(open({ identity: { ...identity, ...change } }), {
      code: "data_loss",
      message: /do not hash to its id/,
    });
  await assert.rejects(open({ identity: undefined }), /there are none/);
  await assert.rejects(open({ session: "small-000000000000" as SessionId }), /do not hash to its id/);
});

test("a policy is nobody's identity and may differ, but not be nonsense", async () => {
  const { schedule } = await open({ checkpointEvery: 7 });
  assert.equal(schedule.checkpointEvery, 7);
  await assert.rejects(open({ checkpointEvery: 0 }), /checkpoint_every .* is 0, expected/);
});

test("a definition that does not have the hash in the settings is refused", async () => {
  const other = definition.replaceAll("out_dim: 2", "out_dim: 3");
  await assert.rejects(open({ definition: other }), { code: "data_loss", message: /does not have the hash/ });
  await assert.rejects(open({ definition: `${definition}\n` }), /does not have the hash/);
});

test("a session of another version of the bits is refused with both versions named", async () => {
  await assert.rejects(open({}, bits + 1), {
    code: "failed_precondition",
    message: new RegExp(`needs version ${bits} of the bits, this PNode computes ${bits + 1}`),
  });
});

/** A device of arrays that rounds up whatever stayed on it. */
function otherDevice(): Device {
  const device = arrayDevice();
  return {
    ...device,
    async download(value, into) {
      await device.download(value, into);
      if (into instanceof Float32Array) for (const [i, each] of into.entries()) into[i] = each * (1 + 2 ** -23);
    },
  };
}

test("a GPU that gives other bits in a session's graphs than one of its class does not go on with its states", async () => {
  const told: string[] = [];
  const identityOnGpu = { ...identity, numerics: "webgpu" as const };
  const onGpu = { identity: identityOnGpu, session: sessionIdOf(identityOnGpu, "small") };
  const machine = (device: Device, numericsClass: string): Machine => ({
    executorFor: async () => openInlineExecutor(arrayDeviceEngine(device)),
    rounding: { classOf: () => numericsClass, onOther: (tried) => void told.push(tried) },
  });
  const computed = async (device: Device, numericsClass: string) => {
    const context = await open(onGpu, bits, machine(device, numericsClass));
    const compute = await context.computeFor("layer" as VNodeId, "a test");
    return { context, compute };
  };
  const first = await computed(arrayDevice(), "webgpu-a");
  await first.compute.initialise();
  const { reader } = await memoryState(copiedImage(first.compute.state.snapshot(3)));
  assert.match(reader.metadata["rounding"] ?? "", /^webgpu-a [0-9a-f]{64}$/);

  const alike = await computed(arrayDevice(), "webgpu-a");
  alike.context.compare(alike.compute, first.compute.state.rounding ?? "");
  await alike.context.restore(alike.compute, reader, 3);
  const other = await computed(otherDevice(), "webgpu-a");
  await assert.rejects(
    other.context.restore(other.compute, reader, 3),
    (error) => error instanceof NoRoom && /gives other bits in the session's own graphs/.test(error.message),
  );
  assert.equal(told.length, 1);
  assert.ok(!reader.metadata["rounding"]?.includes(told[0] ?? ""));

  assert.throws(
    () => other.context.compare(other.compute, first.compute.state.rounding ?? ""),
    /gives other bits in the session's own graphs/,
    "nor does it begin where the first machine had stored nothing yet",
  );
  other.context.compare(other.compute, "");

  const nextEra = await computed(otherDevice(), "webgpu-b");
  await nextEra.context.restore(nextEra.compute, reader, 3);
  assert.match(nextEra.compute.state.rounding ?? "", /^webgpu-b /);
  for (const { compute } of [first, alike, other, nextEra]) await compute.close();
});

/** CUDA as the reference engine computes, or with its outputs rounded up. */
function cuda(isOther: boolean): Engine {
  const inner = openReferenceEngine();
  const load: Engine["load"] = async (graph) => {
    const program = await inner.load(graph);
    const run: Program["run"] = async (feeds, into) => {
      const results = await program.run(feeds, into);
      for (const { data } of isOther ? Object.values(results) : [])
        if (data instanceof Float32Array) for (const [i, each] of data.entries()) data[i] = each * (1 + 2 ** -23);
      return results;
    };
    return { ...program, run };
  };
  return { ...inner, kind: "cuda", load };
}

test("machines with CUDA are compared by a session's own graphs as well", async () => {
  const told: string[] = [];
  const identityOnGpu = { ...identity, numerics: "cuda" as const };
  const onGpu = { identity: identityOnGpu, session: sessionIdOf(identityOnGpu, "small") };
  const computed = async (isOther: boolean) => {
    const context = await open(onGpu, bits, {
      executorFor: async () => openInlineExecutor(cuda(isOther)),
      rounding: { classOf: () => "cuda-a", onOther: (_, engine) => void told.push(engine) },
    });
    return { context, compute: await context.computeFor("layer" as VNodeId, "a test") };
  };
  const [first, alike, other] = [await computed(false), await computed(false), await computed(true)];
  await first.compute.initialise();
  const { reader } = await memoryState(copiedImage(first.compute.state.snapshot(3)));
  await alike.context.restore(alike.compute, reader, 3);
  await assert.rejects(other.context.restore(other.compute, reader, 3), /gives other bits in the session's own graphs/);
  assert.deepEqual(told, ["cuda"]);
  for (const { compute } of [first, alike, other]) await compute.close();
});

test("data is fetched once, however often the one blob that nobody has is asked for", async () => {
  const shards = [1, 2, 3].map((number) => ({ hash: sha256(`shard ${number}`), bytes: 40, count: 10 }));
  const manifest: Manifest = {
    ...{ version: 1, kind: "tokens", tokens: 30, tokenType: "int32", vocabulary: 7, shards },
    splits: { some: { kind: "range", start: 0, end: 30 } },
  };
  const asked: string[] = [];
  let missing = shards[1]?.hash;
  const fetch: BlobClient["fetch"] = async (_, hash) => {
    if (hash === identity.dataset) return new TextEncoder().encode(manifestText(manifest));
    asked.push(hash);
    if (hash === missing) throw new DcnrError("unavailable", "nobody has it");
    return new Uint8Array(40);
  };
  const context = await open({}, bits, { blobs: { fetch } });
  for (let attempt = 0; attempt < 3; attempt++) await assert.rejects(context.fetchData("p1"), /nobody has it/);
  missing = undefined;
  await context.fetchData("p1");
  const times = shards.map(({ hash }) => asked.filter((one) => one === hash).length);
  assert.deepEqual(times, [1, 4, 1]);
});
