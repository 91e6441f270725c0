// Tensors of passes to one peer: a long-lived stream, opened when first needed and again after it broke. What is
// lost with a stream is not sent again: the conductor repeats the passes.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf } from "../../core/errors.ts";
import type { Log } from "../../core/world.ts";
import type { PassesRequestSchema, PassesResponse } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { type Channel, chunkBytesMax, type Network } from "../../protocol/network.ts";
import { toDataType } from "../names.ts";
import type { Tasks } from "../tasks.ts";
import type { LostPass, Pass, PassTensor } from "./pass.ts";

type Outgoing = MessageInitShape<typeof PassesRequestSchema>;

export interface PassLinkOptions {
  readonly address: string;
  readonly network: Network;
  readonly tasks: Tasks;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** A tensor did not get there: the session's passes must be repeated. */
  readonly onLost: (session: string, pass: Pass) => void;
}

const rememberedMax = 256;

export class PassLink {
  readonly #options: PassLinkOptions;
  readonly #queue: (PassTensor | LostPass)[] = [];
  /** Passes sent lately, by id: a refusal names one of them. */
  readonly #sent = new Map<number, Pass>();
  #channel: Channel<Outgoing, PassesResponse> | undefined;
  #sending = false;

  constructor(options: PassLinkOptions) {
    this.#options = options;
  }

  send(item: PassTensor | LostPass): void {
    this.#queue.push(item);
    if (this.#sending) return;
    this.#sending = true;
    this.#options.tasks.run(`passes to ${this.#options.address}`, () => this.#drain());
  }

  async #drain(): Promise<void> {
    try {
      for (let item = this.#queue.shift(); item; item = this.#queue.shift()) await this.#transmit(item);
    } finally {
      this.#sending = false;
    }
  }

  async #transmit(item: PassTensor | LostPass): Promise<void> {
    try {
      const channel = this.#open();
      this.#sent.set(item.pass.id, item.pass);
      if (this.#sent.size > rememberedMax) this.#sent.delete(this.#sent.keys().next().value as number);
      for (const piece of piecesOf(item)) await channel.send(piece);
    } catch (error) {
      this.#options.log("debug", `a pass to ${this.#options.address} was lost: ${messageOf(error)}`);
      this.#channel = undefined;
      if ("target" in item) this.#options.onLost(item.target.session, item.pass);
    }
  }

  #open(): Channel<Outgoing, PassesResponse> {
    if (this.#channel) return this.#channel;
    const { network, address, signal, tasks } = this.#options;
    const channel = network.open(address, ServingService.method.passes, { signal });
    this.#channel = channel;
    tasks.run(`answers to passes from ${address}`, () => this.#read(channel));
    return channel;
  }

  async #read(channel: Channel<Outgoing, PassesResponse>): Promise<void> {
    try {
      for await (const { session, pass, refusal } of channel.incoming) {
        this.#options.log("warn", `${this.#options.address} refused a pass of ${session}: ${refusal}`);
        const known = this.#sent.get(Number(pass));
        if (known) this.#options.onLost(session, known);
      }
    } catch {
      // The next tensor opens a new stream; the conductor repeats what was under way.
    }
    if (this.#channel === channel) this.#channel = undefined;
  }

  close(): void {
    this.#channel?.close();
  }
}

function* piecesOf(item: PassTensor | LostPass): Generator<Outgoing> {
  if (!("target" in item)) {
    yield { session: item.session, pass: protoPass(item.pass), lost: true };
    return;
  }
  const { target, pass, tensor } = item;
  const head = {
    session: target.session,
    to: target.vnode,
    port: target.port,
    pass: protoPass(pass),
    dtype: toDataType(tensor.dtype),
    shape: [...tensor.shape],
    bytes: BigInt(tensor.bytes.byteLength),
  };
  for (let at = 0; at === 0 || at < tensor.bytes.byteLength; at += chunkBytesMax) {
    const data = tensor.bytes.subarray(at, at + chunkBytesMax);
    const more = at + chunkBytesMax < tensor.bytes.byteLength;
    yield at === 0 ? { ...head, data, more } : { data, more };
  }
}

function protoPass(pass: Pass) {
  return { ...pass, id: BigInt(pass.id), rows: pass.rows.map((row) => ({ ...row })), dropped: [...pass.dropped] };
}
