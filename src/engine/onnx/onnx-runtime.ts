// An engine on top of a build of ONNX Runtime. onnxruntime-node is the native engine (native.ts); the benchmark compares
// our portable engine with onnxruntime-web through the same interface.

import type { InferenceSession, Tensor as OrtTensor } from "onnxruntime-common";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { allocate, type DType, type Tensor, type TensorData, tensorBytes } from "../../core/tensor.ts";
import { lowerModel } from "../../graph/lower.ts";
import type { GraphModel, ValueInfo } from "../../graph/model.ts";
import { encodeOnnx } from "../../graph/onnx.ts";
import { operatorOf } from "../../graph/operators/registry.ts";
import { checkTensors } from "../check-tensors.ts";
import type { Engine, Program, Tensors } from "../engine.ts";
import { numericsFingerprint, shortClass } from "../fingerprint.ts";
import { onnxRowProgram } from "./onnx-rows.ts";
import { withRuntimeRows } from "./runtime-rows.ts";
import { isOnlyUnread, unreadOutput, withUnreadOutput } from "./unread-outputs.ts";

/** The part of onnxruntime-node and onnxruntime-web that we call. */
export interface OnnxRuntime {
  readonly InferenceSession: {
    create(model: Uint8Array | string, options: InferenceSession.SessionOptions): Promise<InferenceSession>;
  };
  readonly Tensor: new (type: OrtTensor.Type, data: OrtTensor.DataType, dims: readonly number[]) => OrtTensor;
  /** Sessions that run at once (direct.ts), where the build lets us have them. */
  readonly direct?: (model: Uint8Array | string, options: InferenceSession.SessionOptions) => RowSession;
}

/** What rows are computed with. */
export interface RowSession {
  run(
    feeds: InferenceSession.OnnxValueMapType,
    fetches: InferenceSession.NullableOnnxValueMapType,
  ): InferenceSession.OnnxValueMapType | Promise<InferenceSession.OnnxValueMapType>;
  release(): Promise<void> | void;
}

export interface RuntimeIdentity {
  readonly kind: "native" | "portable" | "cuda";
  readonly version: string;
  /** SHA-256 of the files that hold the runtime's machine code. */
  readonly fileHash: () => Promise<string>;
  readonly outputs: OutputHandling;
  /** Where weights of served models may lie in files while they are loaded; absent: nowhere. */
  readonly folder?: string | undefined;
  /** How often the fingerprint is taken; once if absent. */
  readonly probeRuns?: number;
}

/**
 * `copied`: the runtime allocates outputs, we copy them. `written`: it writes to buffers it is given, shared memory
 * included, and still hands back copies. `unread`: the same without the copies (unread-outputs.ts).
 */
export type OutputHandling = "copied" | "written" | "unread";

/** Below it the copies cost less than what avoids them. */
const unreadBytesMin = 1 << 16;

/** Graphs are written as they shall run; the runtime's own rewriting would change bits from version to version. */
export const optimizationLevel = "disabled";

/** More than one thread changes bits for some shapes; arena and pattern would hold memory between runs. */
const sessionOptions: InferenceSession.SessionOptions = {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: "sequential",
  graphOptimizationLevel: optimizationLevel,
  enableCpuMemArena: false,
  enableMemPattern: false,
  logSeverityLevel: 3,
};

export function onnxRuntimeEngine(
  runtime: OnnxRuntime,
  identity: RuntimeIdentity,
  providers: readonly InferenceSession.ExecutionProviderConfig[],
  extra: Readonly<Record<string, unknown>> = {},
): Engine {
  const { kind } = identity;
  const options = { ...sessionOptions, executionProviders: [...providers], extra };
  const engine: Engine = {
    kind,
    async load(graph) {
      try {
        const outputs = handlingOf(graph, identity.outputs);
        const model = encodeOnnx(onlyOnnx(graph));
        const bytes = outputs === "unread" ? withUnreadOutput(model) : model;
        const session = await runtime.InferenceSession.create(bytes, options);
        return program(runtime, session, graph, outputs);
      } catch (thrown) {
        throw asFailure(thrown, graph, `cannot be loaded by the ${kind} engine`);
      }
    },
    async loadRows(graph, weights) {
      try {
        const model = withRuntimeRows(graph);
        const { outputs, folder } = identity;
        return await onnxRowProgram({ runtime, options, outputs, folder }, model, weights);
      } catch (thrown) {
        throw asFailure(thrown, graph, `cannot be loaded by the ${kind} engine`);
      }
    },
    async numericsClass() {
      const fingerprint = await numericsFingerprint(engine, identity.probeRuns);
      return shortClass(kind, [identity.version, await identity.fileHash(), optimizationLevel, fingerprint]);
    },
    async close() {},
  };
  return engine;
}

/** Composites are ours; the runtime knows ONNX operators only. */
function onlyOnnx(graph: GraphModel): GraphModel {
  return graph.nodes.some(({ op }) => operatorOf(op).lower !== undefined) ? lowerModel(graph) : graph;
}

function handlingOf(graph: GraphModel, possible: OutputHandling): OutputHandling {
  const bytes = graph.outputs.reduce((sum, { dtype, shape }) => sum + tensorBytes(dtype, shape), 0);
  return possible === "unread" && bytes < unreadBytesMin ? "written" : possible;
}

function program(runtime: OnnxRuntime, session: InferenceSession, graph: GraphModel, outputs: OutputHandling): Program {
  return {
    async run(feeds, into = {}) {
      checkTensors(graph, feeds, into);
      try {
        const given = toRuntime(runtime, graph.inputs, feeds);
        if (outputs === "unread") return await runUnread(runtime, session, graph, given, into);
        if (outputs === "copied") return collect(graph, await session.run(given), into, true);
        const fetches: Record<string, OrtTensor | null> = {};
        for (const { name } of graph.outputs) {
          const target = into[name];
          fetches[name] = target === undefined ? null : ortTensor(runtime, target);
        }
        return collect(graph, await session.run(given, fetches), into, false);
      } catch (thrown) {
        throw asFailure(thrown, graph, "failed");
      }
    },
    release: () => session.release(),
  };
}

async function runUnread(
  runtime: OnnxRuntime,
  session: InferenceSession,
  graph: GraphModel,
  feeds: Record<string, OrtTensor>,
  into: Tensors,
): Promise<Tensors> {
  const results: Record<string, Tensor> = {};
  for (const { name, dtype, shape } of graph.outputs) results[name] = into[name] ?? allocate(dtype, shape);
  const fetches = { [unreadOutput]: null, ...toRuntime(runtime, graph.outputs, results) };
  try {
    await session.run(feeds, fetches);
  } catch (thrown) {
    if (isOnlyUnread(thrown)) return results;
    throw thrown;
  }
  return fail("internal", `graph "${graph.name}" handed back what it should not be able to`);
}

function asFailure(thrown: unknown, graph: GraphModel, what: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const reason = messageOf(thrown).replaceAll(/\s+/g, " ").slice(0, 500);
  return new DcnrError("internal", `graph "${graph.name}" ${what}: ${reason}`, { cause: thrown });
}

function toRuntime(runtime: OnnxRuntime, infos: readonly ValueInfo[], tensors: Tensors): Record<string, OrtTensor> {
  const result: Record<string, OrtTensor> = {};
  for (const { name } of infos) result[name] = ortTensor(runtime, tensors[name] as Tensor);
  return result;
}

function ortTensor(runtime: OnnxRuntime, { dtype, data, shape }: Tensor): OrtTensor {
  if (dtype === "bfloat16") fail("unimplemented", "the runtime computes in float32: convert bfloat16 first");
  return new runtime.Tensor(dtype, data as OrtTensor.DataType, shape);
}

function collect(graph: GraphModel, values: InferenceSession.ReturnType, into: Tensors, copies: boolean): Tensors {
  const result: Record<string, Tensor> = {};
  for (const { name, dtype, shape } of graph.outputs) {
    const target = into[name];
    const data = (values[name] as OrtTensor).data as TensorData;
    if (target === undefined) result[name] = { dtype, shape, data: sameType(dtype, data) };
    else {
      if (copies) (target.data as Float32Array).set(data as Float32Array);
      result[name] = target;
    }
  }
  return result;
}

/** The runtime gives float16 as Float16Array where the platform has it; ours is the 16-bit words. */
function sameType(dtype: DType, data: TensorData): TensorData {
  return dtype === "float16" && !(data instanceof Uint16Array)
    ? new Uint16Array((data as Uint8Array).buffer, (data as Uint8Array).byteOffset, (data as Uint8Array).length)
    : data;
}
