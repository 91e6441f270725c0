// Machines that compute or say something else than they should, each in its own way. They run the production code with one
// part exchanged, as a patched PNode would; what they sign, they sign with their own key.

import { hashOfContent, sha256 } from "../src/core/hash.ts";
import type { Tensor } from "../src/core/tensor.ts";
import type { Executor } from "../src/engine/engine.ts";
import { fromDataType } from "../src/peer/travel-types.ts";
import type { BlobTransfer } from "../src/pnode/options.ts";
import { Direction } from "../src/protocol/gen/dcnr/v1/common_pb.ts";
import { type Delivery, ExchangeService } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { TrustService } from "../src/protocol/gen/dcnr/v1/trust_pb.ts";
import type {
  BidiMethod,
  CallOptions,
  Network,
  RequestInit,
  ResponseOf,
  UnaryMethod,
} from "../src/protocol/network.ts";
import { deliveryContent } from "../src/trust/delivery.ts";
import { signed, statementFromWire, statementToWire, type WireStatement } from "../src/trust/statement.ts";
import { nudging } from "./executor.ts";
import { signAs } from "./signing.ts";
import type { Host } from "./world.ts";

export type Behaviour =
  /** Computes with one bit wrong, always alike. */
  | "flips"
  /** Computes nothing: zeros. */
  | "zeros"
  /** Honest at first. */
  | "sleeps"
  /** Sends something else than it states. */
  | "equivocates"
  /** Does not store what others need to check its neighbours. */
  | "withholds"
  /** Says of every audit that it came to something else. */
  | "slanders"
  /** Makes results of audits up. */
  | "idles"
  /** Its memory errs now and then. */
  | "badMemory"
  /** Rounds like another class than it says. */
  | "otherClass";

export const behaviours: readonly Behaviour[] = [
  "flips",
  "zeros",
  "sleeps",
  "equivocates",
  "withholds",
  "slanders",
  "idles",
  "badMemory",
  "otherClass",
];

/** Those who are not dishonest: whatever becomes of them, nobody may call them liars. */
export const honest: ReadonlySet<Behaviour> = new Set(["withholds", "badMemory", "otherClass"]);

const sleepsMs = 1_500;
const badMemoryShare = 0.004;

export function executorOf(behaviour: Behaviour | undefined, inner: Executor, host: Host): Executor {
  const altered = (alter: (tensor: Tensor) => void, isOn: () => boolean = () => true): Executor => ({
    ...inner,
    run: async (name, feeds, options) => {
      const results = await inner.run(name, feeds, options);
      if (isOn()) for (const tensor of Object.values(results)) alter(tensor);
      return results;
    },
  });
  switch (behaviour) {
    case "flips":
      return altered(flip);
    case "sleeps":
      return altered(flip, () => host.world.clock.monotonicMs() > sleepsMs);
    case "zeros":
      return altered(({ data }) => void (data instanceof Float32Array && data.fill(0)));
    case "badMemory":
      return altered(flip, () => host.world.chance.uniform() < badMemoryShare);
    case "otherClass":
      return nudging(inner, 1);
    default:
      return inner;
  }
}

/** A bit in the middle of the first float's fraction. */
function flip({ data }: Tensor): void {
  if (!(data instanceof Float32Array) || data.length === 0) return;
  const words = new Uint32Array(data.buffer, data.byteOffset, 1);
  words[0] = (words[0] as number) ^ (1 << 20);
}

export function transferOf(behaviour: Behaviour | undefined, inner: BlobTransfer): BlobTransfer {
  if (behaviour !== "withholds") return inner;
  return {
    download: (from, into, signal) => inner.download(from, into, signal),
    // Messages begin with their type and shape; states and lists do not.
    upload: async (to, content, signal) => {
      if (/^(float|bfloat|int)\d+\[/.test(new TextDecoder().decode(content.subarray(0, 12)))) return;
      await inner.upload(to, content, signal);
    },
  };
}

export function networkOf(behaviour: Behaviour | undefined, inner: Network, host: Host): Network {
  const signing = signAs(host.name);
  if (behaviour === "slanders" || behaviour === "idles")
    return wrapped(inner, {
      call: async (address, method, request, options) => {
        const { statement } = request as { statement?: WireStatement; session?: string; vnode?: string };
        const isAudit = (method as UnaryMethod) === TrustService.method.recordAudit;
        if (!isAudit || statement === undefined) return inner.call(address, method, request, options);
        const { session, vnode } = request as { session: string; vnode: string };
        const { publicKey: _, signature: __, ...equation } = statementFromWire(statement, session, vnode);
        const made = behaviour === "slanders" ? sha256("slander", equation.after) : sha256(host.world.chance.bytes(8));
        const lie = statementToWire(await signed({ ...equation, after: made, outputs: made }, signing));
        return inner.call(address, method, { ...request, statement: lie } as typeof request, options);
      },
    });
  if (behaviour === "equivocates")
    return wrapped(inner, {
      open: (address, method, options) => {
        const channel = inner.open(address, method, options);
        if ((method as BidiMethod) !== ExchangeService.method.exchange) return channel;
        const send = channel.send.bind(channel);
        return Object.assign(Object.create(channel), {
          incoming: channel.incoming,
          close: () => channel.close(),
          send: (message: { event?: { case?: string; value?: Delivery } }) => {
            const { event } = message;
            if (event?.case !== "delivery" || event.value === undefined) return send(message as never);
            return send({ event: { case: "delivery", value: otherwise(event.value, signing) } } as never);
          },
        }) as typeof channel;
      },
    });
  return inner;
}

/** Every seventh step it sends other numbers than it computed, rightly signed. */
function otherwise(delivery: Delivery, signing: ReturnType<typeof signAs>): Delivery {
  const { name, data, dtype, shape, life, from: vnode } = delivery;
  const type = fromDataType(dtype);
  if (name === undefined || !(data?.byteLength > 0) || type !== "float32" || name.step % 3n !== 2n) return delivery;
  const bytes = data.slice();
  bytes[1] = (bytes[1] as number) ^ 4;
  const hash = hashOfContent({ dtype: type, shape: [...shape], bytes });
  const way = name.direction === Direction.FORWARD ? "f" : "b";
  const key = `${name.step}/${name.microbatch}/${way}/${name.edge}`;
  const signature = signing.sign(deliveryContent({ session: name.session, vnode, life, key, hash }));
  return { ...delivery, data: bytes, hash, signature: new Uint8Array(signature) };
}

function wrapped(
  inner: Network,
  changed: {
    call?: <M extends UnaryMethod>(
      address: string,
      method: M,
      request: RequestInit<M>,
      options?: CallOptions,
    ) => Promise<ResponseOf<M>>;
    open?: Network["open"];
  },
): Network {
  return {
    id: inner.id,
    call: changed.call ?? ((address, method, request, options) => inner.call(address, method, request, options)),
    watch: (address, method, request, options) => inner.watch(address, method, request, options),
    open: changed.open ?? ((address, method, options) => inner.open(address, method, options)),
    serve: (address, services, http, gate) => inner.serve(address, services, http, gate),
    close: () => inner.close(),
  } as Network;
}
