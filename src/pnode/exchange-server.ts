// The receiving side of the exchange. A tensor is judged by its announcement: whatever the plan does not
// expect is refused before memory is taken for it.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { messageOf } from "../core/errors.ts";
import type { SessionId, VNodeId } from "../core/ids.ts";
import { sameShape, tensorBytes } from "../core/tensor.ts";
import type { Log } from "../core/world.ts";
import {
  type Ask,
  AskOutcome,
  type Delivery,
  type ExchangeRequest,
  type ExchangeResponseSchema,
  ExchangeService,
  Verdict,
} from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { type Channel, chunkBytesMax, protocolMajor, type ServedService, service } from "../protocol/network.ts";
import type { MessageName } from "../vnode/names.ts";
import { hashOfWire, isFiniteWire, type WireTensor } from "../vnode/wire.ts";
import { fromDataType, fromProtoName, toSource } from "./names.ts";
import type { Directory, OutgoingTensor, Receiver } from "./receiver.ts";
import type { Refusals } from "./refusals.ts";
import type { Resolver } from "./resolver.ts";
import { StoredTensor } from "./retention.ts";

type Response = MessageInitShape<typeof ExchangeResponseSchema>;

export interface ExchangeServerOptions {
  readonly directory: Directory;
  readonly resolver: Resolver;
  readonly log: Log;
  readonly refusals: Refusals;
  /** Sends to one who asked, if the orchestrators know it. */
  readonly deliverTo: (
    session: SessionId,
    asker: { readonly vnode: VNodeId; readonly address: string },
    from: VNodeId,
    message: OutgoingTensor,
  ) => void;
}

/** A sender finishes one tensor before it begins the next; some slack for those that do not. */
const assembliesMax = 8;
const namesMax = 4_096;

interface Judged {
  readonly receiver: Receiver;
  readonly name: MessageName;
  readonly hash: string;
  readonly wire: WireTensor["dtype"];
  readonly shape: readonly number[];
  readonly bytes: number;
  readonly source: string;
}

interface Assembly extends Judged {
  readonly content: Uint8Array;
  filled: number;
}

interface Judgement {
  readonly verdict: Verdict;
  readonly detail: string;
}

export function exchangeService(options: ExchangeServerOptions): ServedService {
  return service(ExchangeService, {
    exchange: async (channel) => new ExchangeStream(options, channel).serve(),
  });
}

class ExchangeStream {
  readonly #options: ExchangeServerOptions;
  readonly #channel: Channel<Response, ExchangeRequest>;
  readonly #assemblies = new Map<bigint, Assembly>();
  #peer = "";

  constructor(options: ExchangeServerOptions, channel: Channel<Response, ExchangeRequest>) {
    this.#options = options;
    this.#channel = channel;
  }

  async serve(): Promise<void> {
    try {
      for await (const { event } of this.#channel.incoming) {
        switch (event.case) {
          case "hello":
            if (event.value.protocolMajor !== protocolMajor) {
              const { pnode, protocolMajor: theirs } = event.value;
              this.#options.log("warn", `PNode ${pnode} speaks protocol ${theirs}, this one ${protocolMajor}`);
              return;
            }
            this.#peer = event.value.pnode;
            break;
          case "delivery":
            await this.#delivery(event.value);
            break;
          case "chunk":
            await this.#chunk(event.value.id, event.value.data);
            break;
          case "ask":
            await this.#ask(event.value);
            break;
          case "ping":
            await this.#channel.send({ event: { case: "pong", value: { id: event.value.id } } });
            break;
          case undefined:
            break;
        }
      }
    } catch (error) {
      this.#options.log("debug", `the stream from PNode ${this.#peer} broke: ${messageOf(error)}`);
    }
  }

  async #delivery(delivery: Delivery): Promise<void> {
    const judged = this.#judge(delivery);
    if ("verdict" in judged) return this.#receipt(delivery.id, judged);
    if (delivery.data.byteLength === judged.bytes) return this.#complete(delivery.id, judged, delivery.data);
    if (delivery.data.byteLength > 0 || this.#assemblies.size >= assembliesMax)
      return this.#receipt(delivery.id, refused(`${delivery.data.byteLength} of ${judged.bytes} bytes came at once`));
    this.#assemblies.set(delivery.id, { ...judged, content: new Uint8Array(judged.bytes), filled: 0 });
  }

  /** What it is and who takes it, or why nobody does. */
  #judge(delivery: Delivery): Judged | Judgement {
    const { directory, resolver } = this.#options;
    let named: ReturnType<typeof fromProtoName>;
    try {
      named = fromProtoName(delivery.name);
    } catch (error) {
      return refused(messageOf(error));
    }
    const { name } = named;
    const session = named.session as SessionId;
    const receiver = directory.find(session, delivery.to as VNodeId);
    if (receiver === undefined) return { verdict: Verdict.MOVED, detail: `VNode ${delivery.to} is not here` };
    if (receiver.admit(name, delivery.hash) === "loading")
      return { verdict: Verdict.WAIT, detail: "the VNode is loading its state and will ask" };
    const expected = receiver.expects(name);
    const wire = fromDataType(delivery.dtype);
    if (expected === undefined || expected.from !== delivery.from)
      return refused(`VNode ${delivery.to} takes nothing from ${delivery.from} on ${name.edge}`);
    if (wire !== expected.wire || !sameShape(delivery.shape, expected.shape))
      return refused(`${name.edge} carries ${expected.wire} [${expected.shape}], not ${wire} [${delivery.shape}]`);
    const bytes = tensorBytes(expected.wire, expected.shape);
    if (delivery.bytes !== BigInt(bytes)) return refused(`${name.edge} carries ${bytes} bytes, not ${delivery.bytes}`);
    if (!resolver.isOwner(session, expected.from, this.#peer, Number(delivery.epoch)))
      return refused(`PNode ${this.#peer} does not own VNode ${delivery.from} any more`);
    const source = toSource(this.#peer, Number(delivery.epoch));
    const judged = { receiver, name, hash: delivery.hash, wire: expected.wire, shape: expected.shape, bytes, source };
    return this.#admit(judged) ?? judged;
  }

  #admit({ receiver, name, hash, source }: Judged): Judgement | undefined {
    const admission = receiver.admit(name, hash);
    switch (admission) {
      case "wanted":
        return undefined;
      case "loading":
        return { verdict: Verdict.WAIT, detail: "the VNode is loading its state and will ask" };
      case "beyond":
        // The process notes that this edge has to be asked for.
        receiver.receive(name, hash, undefined, source);
        return { verdict: Verdict.WAIT, detail: `step ${name.step} is beyond the window` };
      case "conflict":
      case "duplicate":
        receiver.receive(name, hash, undefined, source);
        return { verdict: Verdict.DROPPED, detail: "" };
      case "old":
        return { verdict: Verdict.DROPPED, detail: "" };
      case "unknown":
        return refused(`step ${name.step}, microbatch ${name.microbatch} does not exist on ${name.edge}`);
    }
  }

  async #chunk(id: bigint, data: Uint8Array): Promise<void> {
    const assembly = this.#assemblies.get(id);
    // Chunks of a tensor that was dropped or refused are on their way already.
    if (assembly === undefined) return;
    if (data.byteLength > chunkBytesMax || assembly.filled + data.byteLength > assembly.bytes) {
      this.#assemblies.delete(id);
      return this.#receipt(id, refused(`more than the ${assembly.bytes} bytes announced`));
    }
    assembly.content.set(data, assembly.filled);
    assembly.filled += data.byteLength;
    if (assembly.filled < assembly.bytes) return;
    this.#assemblies.delete(id);
    return this.#complete(id, assembly, assembly.content);
  }

  async #complete(id: bigint, judged: Judged, bytes: Uint8Array): Promise<void> {
    const tensor: WireTensor = { dtype: judged.wire, shape: judged.shape, bytes: aligned(bytes) };
    if (hashOfWire(tensor) !== judged.hash)
      return this.#receipt(id, refused("the bytes do not have the hash announced"));
    if (!isFiniteWire(tensor)) return this.#receipt(id, refused("the tensor holds NaN or infinity"));
    // Another copy may have come while this one was assembled.
    const late = this.#admit(judged);
    if (late !== undefined) return this.#receipt(id, late);
    judged.receiver.receive(judged.name, judged.hash, new StoredTensor(tensor), judged.source);
    return this.#receipt(id, { verdict: Verdict.STORED, detail: "" });
  }

  async #receipt(id: bigint, { verdict, detail }: Judgement): Promise<void> {
    if (verdict === Verdict.REFUSED) this.#options.refusals.note(this.#peer, detail);
    await this.#channel.send({ event: { case: "receipt", value: { id, verdict, detail } } });
  }

  async #ask(ask: Ask): Promise<void> {
    const answer = (outcome: AskOutcome) =>
      this.#channel.send({ event: { case: "answer", value: { id: ask.id, outcome } } });
    let names: ReturnType<typeof fromProtoName>[];
    try {
      names = ask.names.slice(0, namesMax).map(fromProtoName);
    } catch {
      return answer(AskOutcome.MOVED);
    }
    const session = names[0]?.session as SessionId | undefined;
    const from = ask.from as VNodeId;
    const receiver = session && this.#options.directory.find(session, from);
    if (!receiver || names.some((each) => each.session !== session)) return answer(AskOutcome.MOVED);
    receiver.asked(
      names.map(({ name }) => name),
      {
        // The asker repeats itself if the answer gets lost.
        answer: (outcome) => void answer(outcome === "gone" ? AskOutcome.GONE : AskOutcome.COMING).catch(() => {}),
        deliver: (message) =>
          this.#options.deliverTo(session, { vnode: ask.to as VNodeId, address: ask.address }, from, message),
      },
    );
  }
}

/** Numbers can only be read in place where they lie on a multiple of their size: one copy now instead of one a look. */
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes);
}

function refused(detail: string): Judgement {
  return { verdict: Verdict.REFUSED, detail };
}
