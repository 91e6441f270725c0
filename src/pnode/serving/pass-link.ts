// Tensors of passes to one peer: a long-lived stream, opened when first needed and again after it broke. What is
// lost with a stream is not sent again: the conductor repeats the passes.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import type { PassesRequestSchema, PassesResponse } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { type Channel, chunkBytesMax, type Network } from "../../protocol/network.ts";
import { toDataType } from "../names.ts";
import { SilentPeer } from "../silent-peer.ts";
import type { Tasks } from "../tasks.ts";
import { isLater, type LostPass, type Pass, type PassTensor } from "./pass.ts";

type Outgoing = MessageInitShape<typeof PassesRequestSchema>;

export interface PassLinkOptions {
  readonly address: string;
  readonly network: Network;
  readonly tasks: Tasks;
  readonly world: World;
  readonly signal: AbortSignal;
  /** A tensor did not get there, or may not have: the session's passes must be repeated. */
  readonly onLost: (session: string, pass: Pass) => void;
}

export class PassLink {
  readonly #options: PassLinkOptions;
  #queue: (PassTensor | LostPass)[] = [];
  /** The last pass sent on the open stream, by session. */
  readonly #sent = new Map<string, Pass>();
  readonly #peer: SilentPeer;
  #channel: Channel<Outgoing, PassesResponse> | undefined;
  #sending = false;
  #closed = false;

  constructor(options: PassLinkOptions) {
    this.#options = options;
    this.#peer = new SilentPeer(options.world.clock);
  }

  get failingMs(): number {
    return this.#peer.failingMs;
  }

  /** Memory is bounded by what conductors have under way: what a later turn made useless does not wait any more. */
  send(item: PassTensor | LostPass): void {
    const session = sessionOf(item);
    this.#peer.called();
    if (this.#queue.length > 0)
      this.#queue = this.#queue.filter((other) => sessionOf(other) !== session || !isLater(item.pass, other.pass));
    this.#queue.push(item);
    if (this.#sending) return;
    this.#sending = true;
    this.#options.tasks.run(`passes to ${this.#options.address}`, () => this.#drain());
  }

  async #drain(): Promise<void> {
    this.#peer.waiting = true;
    try {
      for (let item = this.#queue.shift(); item; item = this.#queue.shift()) await this.#transmit(item);
    } finally {
      this.#peer.waiting = false;
      this.#sending = false;
    }
  }

  async #transmit(item: PassTensor | LostPass): Promise<void> {
    try {
      const channel = this.#open();
      if ("target" in item) this.#sent.set(item.target.session, item.pass);
      for (const piece of piecesOf(item)) await channel.send(piece);
      // A dead connection takes bytes for a while, but then breaks; after that a new one takes them only if it stands.
      this.#peer.answered();
    } catch (error) {
      this.#options.world.log("debug", `a pass to ${this.#options.address} was lost: ${messageOf(error)}`);
      this.#channel = undefined;
      this.#peer.broke();
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
      for await (const { session, refusal } of channel.incoming) {
        this.#options.world.log("debug", `${this.#options.address} refused a pass of ${session}: ${refusal}`);
        const last = this.#sent.get(session);
        if (last) this.#options.onLost(session, last);
      }
    } catch (error) {
      this.#options.world.log("debug", `passes to ${this.#options.address} broke off: ${messageOf(error)}`);
    }
    if (this.#channel !== channel) return;
    this.#channel = undefined;
    this.#peer.broke();
    // Nobody knows how far the other side came with what was sent.
    const sent = [...this.#sent];
    this.#sent.clear();
    if (!this.#options.signal.aborted && !this.#closed)
      for (const [session, pass] of sent) this.#options.onLost(session, pass);
  }

  close(): void {
    this.#closed = true;
    this.#channel?.close();
  }
}

function sessionOf(item: PassTensor | LostPass): string {
  return "target" in item ? item.target.session : item.session;
}

function* piecesOf(item: PassTensor | LostPass): Generator<Outgoing> {
  if (!("target" in item)) {
    yield { session: item.session, pass: protoPass(item.pass), lost: true, failure: item.failure };
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
  const { id, epoch, rows, dropped } = pass;
  return {
    ...pass,
    id: BigInt(id),
    epoch: BigInt(epoch),
    rows: rows.map((row) => ({ ...row })),
    dropped: [...dropped],
  };
}
