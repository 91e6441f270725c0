// Explicit tensors through a served network: each is a pass of its own, without caches.

import { DcnrError, fail } from "../../core/errors.ts";
import { wireBytes } from "../../core/numbers/wire-types.ts";
import { bytesOf, elementCount, type Tensor, tensorBytes } from "../../core/tensor.ts";
import { canGenerate, contextOf } from "../../network/graphs/generation.ts";
import type { Plan } from "../../network/plan.ts";
import { fromDataType } from "../../peer/travel-types.ts";
import { DataType, type Tensor as ProtoTensor } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { messageBytesMax } from "../../protocol/network.ts";
import { positionsMax } from "../../vnode/serving/plain.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import type { ServingContext } from "./serving-context.ts";

const samplesMax = 1_024;
/** Room for names and shapes beside the values of an answer. */
const answerBytesMax = messageBytesMax - (64 << 10);
/** Far above the ids of a conductor's passes, which count from 1. */
const firstId = 2 ** 40;
const waitingMax = 256;

/** Samples of one pass: they came in one message, and no more positions are computed than are taken at once. `asInputs`: before that is looked at. */
export function samplesMaxOf(plan: Plan, asInputs: boolean): number {
  const { wire, shape } = plan.inputs ?? fail("failed_precondition", `network ${plan.name} takes no inputs`);
  const inMessage = Math.floor(messageBytesMax / Math.max(1, wireBytes(wire, [1, ...shape])));
  const atOnce = asInputs || !canGenerate(plan) ? samplesMax : Math.floor(positionsMax / contextOf(plan));
  return Math.max(1, Math.min(samplesMax, inMessage, atOnce));
}

interface Waiting {
  readonly resolve: (outputs: Readonly<Record<string, Tensor>>) => void;
  readonly reject: (error: DcnrError) => void;
}

export class Forwards {
  readonly #waiting = new Map<number, Waiting>();
  #next = firstId;

  async run(
    context: ServingContext,
    input: ProtoTensor,
    feed: (id: number, tensor: WireTensor) => void,
    signal: AbortSignal,
  ): Promise<{ outputs: Record<string, { dtype: DataType; shape: number[]; data: Uint8Array }> }> {
    const tensor = checkInput(context, input);
    if (this.#waiting.size >= waitingMax)
      fail("resource_exhausted", `${waitingMax} forward passes are under way already: try again later`);
    const outputs = await this.#through(tensor, feed, signal);
    const named = context.plan.outputs.filter(({ vnode, port }) => vnode === context.head && outputs[port]);
    const bytes = named.reduce((sum, { port }) => sum + (outputs[port] as Tensor).data.byteLength, 0);
    if (bytes > answerBytesMax)
      fail("resource_exhausted", `the outputs have ${bytes} bytes, more than a message may: send fewer samples`);
    return {
      outputs: Object.fromEntries(
        named.map(({ name, port }) => {
          const { dtype, shape, data } = outputs[port] as Tensor;
          const type = dtype === "int32" ? DataType.INT32 : DataType.FLOAT32;
          return [name, { dtype: type, shape: [...shape], data: data as unknown as Uint8Array }];
        }),
      ),
    };
  }

  #through(
    tensor: WireTensor,
    feed: (id: number, tensor: WireTensor) => void,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, Tensor>>> {
    const id = this.#next++;
    const gone = () => this.fail(id, "");
    return new Promise<Readonly<Record<string, Tensor>>>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      signal.addEventListener("abort", gone, { once: true });
      feed(id, tensor);
    }).finally(() => signal.removeEventListener("abort", gone));
  }

  /** Copies what is asked for: the tensors go back to the pool. */
  finish(id: number, outputs: Readonly<Record<string, Tensor>>): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    waiting?.resolve(
      Object.fromEntries(
        Object.entries(outputs).map(([name, tensor]) => [name, { ...tensor, data: bytesOf(tensor).slice() }]),
      ),
    );
  }

  fail(id: number, failure: string): void {
    const error = failure
      ? new DcnrError("failed_precondition", `the model cannot compute this: ${failure}`)
      : new DcnrError("unavailable", "a PNode of the model was lost, or still loads: try again");
    this.#waiting.get(id)?.reject(error);
    this.#waiting.delete(id);
  }

  failAll(): void {
    for (const id of [...this.#waiting.keys()]) this.fail(id, "");
  }
}

function checkInput({ plan }: ServingContext, input: ProtoTensor): WireTensor {
  const wanted = plan.inputs ?? fail("failed_precondition", `network ${plan.name} takes no inputs`);
  const dtype = fromDataType(input.dtype);
  const [samples = 0, ...rest] = input.shape;
  if (
    dtype !== wanted.wire ||
    rest.length !== wanted.shape.length ||
    rest.some((size, axis) => size !== wanted.shape[axis])
  )
    fail(
      "invalid_argument",
      `inputs are ${wanted.wire} [samples, ${wanted.shape}], not ${dtype ?? "unknown"} [${input.shape}]`,
    );
  if (samples < 1 || samples > samplesMax)
    fail("invalid_argument", `${samples} samples came, 1 to ${samplesMax} are taken`);
  if (input.data.byteLength !== tensorBytes(dtype, input.shape))
    fail("invalid_argument", `${elementCount(input.shape)} elements do not have ${input.data.byteLength} bytes`);
  if (wanted.below !== undefined) checkIds(input.data, wanted.below);
  return { dtype, shape: input.shape, bytes: input.data };
}

/** An engine would name its own operators, or count an id below 0 from the table's end. */
function checkIds(data: Uint8Array, below: number): void {
  const bad = new Int32Array(data.slice().buffer).find((id) => id < 0 || id >= below);
  if (bad !== undefined) fail("invalid_argument", `token ${bad} is outside the model's vocabulary of ${below}`);
}
