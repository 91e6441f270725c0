// The receiving end of streams between PNodes: who calls, in which version, and whether what comes is what was announced.
// A tensor is judged once by its announcement, before memory is taken for it; the protocol it belongs to gives that
// judgement, and the last word when its bytes are there.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf } from "../core/errors.ts";
import type { ContentHash } from "../core/hash.ts";
import { areFiniteOnWire, type WireType, wireBytes } from "../core/numbers/wire-types.ts";
import { sameShape } from "../core/tensor.ts";
import type { Log } from "../core/world.ts";
import {
  type Ask,
  type AskOutcome,
  type Delivery,
  type ExchangeRequest,
  type ExchangeResponseSchema,
  ExchangeService,
  type LostPass,
  Verdict,
} from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { type Channel, chunkBytesMax, protocolMajor, type ServedService, service } from "../protocol/network.ts";
import { Shares } from "../protocol/server/shares.ts";
import type { Refusals } from "./refusals.ts";
import { type Content, fromDataType } from "./travel-types.ts";

type Response = MessageInitShape<typeof ExchangeResponseSchema>;

export interface Judgement {
  readonly verdict: Verdict;
  /** For people: why not, or what for. */
  readonly detail: string;
}

/** What a protocol expects under a label, and what it does once the bytes are there and have the hash announced. */
export interface Expected {
  readonly dtype: WireType;
  readonly shape: readonly number[];
  /** The sender, as the plan says. */
  readonly from: string;
  readonly session: string;
  /** Whether and why nobody wants it; asked last, and once. */
  refusal(): Judgement | undefined | Promise<Judgement | undefined>;
  /** Memory for so many bytes, where whoever computes with them reads them. */
  allocate(bytes: number): Uint8Array;
  /** Gives memory back that did not become a tensor. */
  discard(memory: Uint8Array): void;
  take(content: Content): Judgement;
}

/** One of the protocols on a stream. */
export interface Protocol {
  /** By the label alone; a judgement if nobody here knows it. */
  expects(delivery: Delivery, peer: string): Expected | Judgement;
}

export interface ReceivingOptions {
  /** Tensors that are trained with, and those of served networks. */
  readonly exchange: Protocol;
  readonly passes: Protocol;
  readonly onAsk: (ask: Ask, peer: string, answer: (outcome: AskOutcome) => void) => void;
  readonly onLost: (lost: LostPass, peer: string) => void;
  /** Whether a PNode speaks for a VNode under an epoch. */
  readonly ownership: (session: string, vnode: string, pnode: string, epoch: number) => Ownership;
  readonly hashOf: ContentHash;
  readonly refusals: Refusals;
  readonly log: Log;
}

/** "unknown": somebody newer than anybody known here; it is looked up, and nothing is taken until that has an answer. */
export type Ownership = "owner" | "other" | "unknown";

/** A sender finishes one tensor before it begins the next, but for urgent ones in between; some slack beyond that. */
const assembliesMax = 8;
/** Of one peer on all its streams: one that broke may not have been noticed yet when the next one comes. */
const assembliesPerPeerMax = 2 * assembliesMax;

interface Assembly {
  readonly expected: Expected;
  readonly hash: string;
  readonly memory: Uint8Array;
  filled: number;
}

export function peerService(options: ReceivingOptions): ServedService {
  const unfinished = new Shares(assembliesPerPeerMax, Number.POSITIVE_INFINITY);
  return service(ExchangeService, {
    exchange: (channel, { caller }) => new PeerStream(options, channel, caller.id, unfinished).serve(),
  });
}

class PeerStream {
  readonly #options: ReceivingOptions;
  readonly #channel: Channel<Response, ExchangeRequest>;
  readonly #assemblies = new Map<bigint, Assembly>();
  /** By the key that its connection has proved. */
  readonly #peer: string | undefined;
  /** Tensors of each peer that have begun to come. */
  readonly #unfinished: Shares;
  #greeted = false;

  constructor(
    options: ReceivingOptions,
    channel: Channel<Response, ExchangeRequest>,
    peer: string | undefined,
    unfinished: Shares,
  ) {
    this.#options = options;
    this.#channel = channel;
    this.#peer = peer;
    this.#unfinished = unfinished;
  }

  async serve(): Promise<void> {
    const { log } = this.#options;
    try {
      for await (const { event } of this.#channel.incoming) if (!(await this.#handle(event))) return;
    } catch (error) {
      log("debug", `the stream from PNode ${this.#peer ?? "without a key"} broke: ${messageOf(error)}`);
    } finally {
      for (const id of [...this.#assemblies.keys()]) this.#drop(id);
    }
  }

  /** False if the stream cannot go on. */
  async #handle(event: ExchangeRequest["event"]): Promise<boolean> {
    if (this.#peer === undefined) {
      this.#options.log("warn", "a caller that shows no key is not listened to");
      return false;
    }
    if (event.case === "hello") return this.#hello(event.value.protocolMajor, this.#peer);
    if (!this.#greeted) {
      this.#options.log("warn", `PNode ${this.#peer} sends "${event.case}" before it greets: it is not listened to`);
      return false;
    }
    switch (event.case) {
      case "delivery":
        await this.#delivery(event.value, this.#peer);
        break;
      case "chunk":
        await this.#chunk(event.value.id, event.value.data);
        break;
      case "ask":
        this.#ask(event.value, this.#peer);
        break;
      case "lost":
        this.#options.onLost(event.value, this.#peer);
        break;
      case "ping":
        await this.#channel.send({ event: { case: "pong", value: { id: event.value.id } } });
        break;
      case undefined:
        break;
    }
    return true;
  }

  #hello(theirs: number, peer: string): boolean {
    this.#greeted = theirs === protocolMajor;
    if (!this.#greeted)
      this.#options.log("warn", `PNode ${peer} speaks protocol ${theirs}, this one ${protocolMajor}: update the older`);
    return this.#greeted;
  }

  async #delivery(delivery: Delivery, peer: string): Promise<void> {
    const { id, hash, data } = delivery;
    const { exchange, passes } = this.#options;
    const expected = (delivery.pass === undefined ? exchange : passes).expects(delivery, peer);
    if ("verdict" in expected) return this.#receipt(id, expected);
    const bytes = wireBytes(expected.dtype, expected.shape);
    const judgement = this.#judge(delivery, expected, bytes, peer) ?? (await expected.refusal());
    if (judgement !== undefined) return this.#receipt(id, judgement);
    // What is announced under the same number takes the place of what was, or its memory would be nobody's.
    this.#drop(id);
    if (data.byteLength === bytes)
      return this.#fill(id, { expected, hash, memory: expected.allocate(bytes), filled: 0 }, data);
    if (!this.#unfinished.take(peer)) return this.#receipt(id, refused(tooMany(assembliesPerPeerMax)));
    this.#assemblies.set(id, { expected, hash, memory: expected.allocate(bytes), filled: 0 });
  }

  /** Nothing more of it is waited for. */
  #drop(id: bigint): void {
    const assembly = this.#end(id);
    assembly?.expected.discard(assembly.memory);
  }

  #end(id: bigint): Assembly | undefined {
    const assembly = this.#assemblies.get(id);
    if (assembly !== undefined) this.#unfinished.give(this.#peer ?? "");
    this.#assemblies.delete(id);
    return assembly;
  }

  /** Whether the announcement is what the plan says, from somebody who may say it. */
  #judge(delivery: Delivery, expected: Expected, bytes: number, peer: string): Judgement | undefined {
    const { to, from, dtype, shape, epoch, data } = delivery;
    const { session } = expected;
    if (from !== expected.from) return refused(`VNode ${to} takes nothing of the kind from ${from}`);
    const type = fromDataType(dtype);
    if (type !== expected.dtype || !sameShape(shape, expected.shape))
      return refused(`VNode ${to} takes ${expected.dtype} [${expected.shape}] there, not ${type} [${shape}]`);
    if (delivery.bytes !== BigInt(bytes)) return refused(`[${shape}] has ${bytes} bytes, not ${delivery.bytes}`);
    const ownership = this.#options.ownership(session, expected.from, peer, Number(epoch));
    if (ownership === "unknown") return { verdict: Verdict.WAIT, detail: `who owns VNode ${from} is looked up` };
    if (ownership === "other") return refused(`PNode ${peer} does not own VNode ${from}, or not any more`);
    if (data.byteLength === bytes) return undefined;
    if (data.byteLength > 0) return refused(`${data.byteLength} of ${bytes} bytes came at once`);
    if (this.#assemblies.size >= assembliesMax) return refused(tooMany(assembliesMax));
    return undefined;
  }

  async #chunk(id: bigint, data: Uint8Array): Promise<void> {
    const assembly = this.#assemblies.get(id);
    // Chunks of a tensor that was dropped or refused are on their way already.
    if (assembly === undefined) return;
    const { memory, filled } = assembly;
    if (data.byteLength <= chunkBytesMax && filled + data.byteLength <= memory.byteLength)
      return this.#fill(id, assembly, data);
    this.#drop(id);
    return this.#receipt(id, refused(`more than the ${memory.byteLength} bytes announced`));
  }

  async #fill(id: bigint, assembly: Assembly, data: Uint8Array): Promise<void> {
    const { memory, expected, hash } = assembly;
    memory.set(data, assembly.filled);
    assembly.filled += data.byteLength;
    if (assembly.filled < memory.byteLength) return;
    this.#end(id);
    const content: Content = { dtype: expected.dtype, shape: expected.shape, bytes: memory };
    const found = this.#options.hashOf(content);
    const damage = damageOf(content, hash === (typeof found === "string" ? found : await found));
    if (damage !== undefined) expected.discard(memory);
    return this.#receipt(id, damage ?? expected.take(content));
  }

  async #receipt(id: bigint, { verdict, detail }: Judgement): Promise<void> {
    if (verdict === Verdict.REFUSED) this.#options.refusals.note(this.#peer ?? "", detail);
    await this.#channel.send({ event: { case: "receipt", value: { id, verdict, detail } } });
  }

  #ask(ask: Ask, peer: string): void {
    // The asker repeats itself if the answer gets lost.
    const answer = (outcome: AskOutcome) =>
      this.#channel.send({ event: { case: "answer", value: { id: ask.id, outcome } } }).catch(() => {});
    this.#options.onAsk(ask, peer, answer);
  }
}

function tooMany(most: number): string {
  return `${most} other tensors are not finished yet`;
}

function damageOf({ dtype, shape, bytes }: Content, hasHash: boolean): Judgement | undefined {
  if (!hasHash) return refused("the bytes do not have the hash announced");
  return areFiniteOnWire(dtype, shape, bytes) ? undefined : refused("the tensor holds NaN or infinity");
}

export function refused(detail: string): Judgement {
  return { verdict: Verdict.REFUSED, detail };
}
