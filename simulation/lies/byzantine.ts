// Machines that compute or say something else than they should, each in its own way. They run the production code with one
// part exchanged, as a patched PNode would; what they sign, they sign with their own key.

import { hashOfContent, sha256 } from "../../src/core/hash.ts";
import type { Tensor } from "../../src/core/tensor.ts";
import type { Executor, KernelCall } from "../../src/engine/engine.ts";
import type { StagePass } from "../../src/engine/stage/stage-pass.ts";
import { logitsOutput } from "../../src/graph/unit.ts";
import { fromDataType } from "../../src/peer/travel-types.ts";
import type { BlobTransfer } from "../../src/pnode/options.ts";
import { Direction } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import { type Delivery, ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { type Heartbeat, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { TrustService } from "../../src/protocol/gen/dcnr/v1/trust_pb.ts";
import type {
  BidiMethod,
  CallOptions,
  Network,
  RequestInit,
  ResponseOf,
  UnaryMethod,
} from "../../src/protocol/network.ts";
import { deliveryContent } from "../../src/trust/delivery.ts";
import type { Signing } from "../../src/trust/signing.ts";
import {
  type Equation,
  signed,
  statementFromWire,
  statementToWire,
  type WireStatement,
} from "../../src/trust/statement.ts";
import { nudging } from "../world/executor.ts";
import { signAs } from "../world/signing.ts";
import type { Host } from "../world/world.ts";

export type Behaviour =
  /** Computes with one bit wrong, always alike. */
  | "flips"
  /** Computes nothing: zeros. */
  | "zeros"
  /** Does not update its weights. */
  | "stale"
  /** Updates its weights a thousand times as far as it should. */
  | "leaps"
  /** Honest at first. */
  | "sleeps"
  /** Sends something else than it states. */
  | "equivocates"
  /** States that something else passed on its edges than it sent. */
  | "seams"
  /** Does not store what others need to check its neighbours. */
  | "withholds"
  /** The same, and says each time that it has begun again since and has nothing any more. */
  | "feigns"
  /** Says of every audit that it came to something else. */
  | "slanders"
  /** Makes results of audits up. */
  | "idles"
  /** Says of every audit that nobody can repeat what was listed. */
  | "disclaims"
  /** Several machines of one owner that say they are fast, and compute the same wrong numbers. */
  | "sybil"
  /** Lies, and says of a friend's work that it is right: friends tell each other what they stated. */
  | "cartel"
  /** Its memory errs now and then. */
  | "badMemory"
  /** Rounds like another class than it says. */
  | "otherClass"
  /** Serves: chooses from logits of its own making. */
  | "misanswers"
  /** Serves: computes with the weights of some other model. */
  | "otherModel"
  /** The same, but not when it is asked to repeat an answer. */
  | "twoFaced"
  /** The same, and honest until it has been tried. */
  | "dozes"
  /** Serves: sends wrong rows, and at once the right ones in a pass of its own making. */
  | "resendsRows"
  /** Serves: rounds like another class than it says. */
  | "roundsAnswers"
  /** Repeats answers of others wrongly. */
  | "misjudges";

export const behaviours: readonly Behaviour[] = [
  "flips",
  "zeros",
  "stale",
  "sleeps",
  "equivocates",
  "seams",
  "withholds",
  "slanders",
  "idles",
  "sybil",
  "cartel",
  "badMemory",
  "otherClass",
  "feigns",
];

/** Those who lie where models answer, and nowhere else. */
export const answering: readonly Behaviour[] = [
  "misanswers",
  "otherModel",
  "twoFaced",
  "dozes",
  "resendsRows",
  "roundsAnswers",
  "misjudges",
];

/** Those who are not dishonest: whatever becomes of them, nobody may call them liars. */
export const honest: ReadonlySet<Behaviour> = new Set([
  "withholds",
  "feigns",
  "badMemory",
  "otherClass",
  "roundsAnswers",
]);

/** Whoever of them computes does so alike: two of them agree on what is wrong. */
export const liars: ReadonlySet<Behaviour> = new Set(["flips", "zeros", "stale", "leaps", "sleeps", "sybil", "cartel"]);

/** Those of them that lie in everything they compute. */
export const constantLiars: ReadonlySet<Behaviour> = new Set(["flips", "zeros", "leaps", "sybil", "cartel"]);

/** Of those who compute what is wrong, what they come to: whoever comes to the same may confirm it. */
export function wrongResultOf(behaviour: Behaviour): string | undefined {
  if (!liars.has(behaviour)) return undefined;
  return behaviour === "zeros" || behaviour === "stale" || behaviour === "leaps" ? behaviour : "flips";
}

/** Whom a machine says it belongs to. */
export function ownerOf(behaviour: Behaviour | undefined, host: string): string {
  return behaviour === "sybil" ? "mallory" : host;
}

/** Whoever wants much of a workload says that it is fast. */
export function claimedGflops(behaviour: Behaviour | undefined): number {
  return behaviour === "sybil" ? 1_000 : 10;
}

const sleepsMs = 1_500;
const badMemoryShare = 0.004;
/** More than the first question takes. */
const dozesPasses = 12;

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
    case "sybil":
    case "cartel":
      return altered(flip);
    case "stale":
      return {
        ...inner,
        kernel: async (call, options) => (isUpdate(call) ? {} : inner.kernel(call, options)),
        kernels: async (calls, options) => {
          const left = calls.filter((call) => !isUpdate(call));
          const results = await inner.kernels(left, options);
          return calls.map((call) => (isUpdate(call) ? {} : (results[left.indexOf(call)] ?? {})));
        },
      };
    case "leaps": {
      const far = (call: KernelCall) => (isUpdate(call) ? ({ ...call, rate: 1_000 * call.rate } as KernelCall) : call);
      return {
        ...inner,
        kernel: (call, options) => inner.kernel(far(call), options),
        kernels: (calls, options) => inner.kernels(calls.map(far), options),
      };
    }
    case "sleeps":
      return altered(flip, () => host.world.clock.monotonicMs() > sleepsMs);
    case "zeros":
      return altered(({ data }) => void (data instanceof Float32Array && data.fill(0)));
    case "badMemory":
      return altered(flip, () => host.world.chance.uniform() < badMemoryShare);
    case "otherClass":
      return nudging(inner, 1);
    case "misanswers":
      return answeringOtherwise(inner, ({ output }) => output === logitsOutput);
    case "otherModel":
      return answeringOtherwise(inner, () => true);
    case "twoFaced":
      return answeringOtherwise(inner, ({ unit }) => unit.startsWith("serve/"));
    case "dozes": {
      let passes = 0;
      return answeringOtherwise(inner, ({ unit }) => unit.startsWith("serve/") && ++passes > dozesPasses);
    }
    case "roundsAnswers":
      return { ...inner, openStage: () => nudging(inner, 1).openStage() };
    case "misjudges":
      return answeringOtherwise(inner, ({ unit }) => unit.startsWith("check "));
    default:
      return inner;
  }
}

/** Some results of served units have the opposite sign. */
function answeringOtherwise(
  inner: Executor,
  isAltered: (wanted: { readonly unit: string; readonly output: string }) => boolean,
): Executor {
  return {
    ...inner,
    openStage: () => {
      const stage = inner.openStage();
      return {
        ...stage,
        run: async (pass, feeds) => {
          const results = await stage.run(pass, feeds);
          for (const [index, { data }] of results.entries())
            if (data instanceof Float32Array && isAltered(pass.wanted[index] as StagePass["wanted"][number]))
              for (let i = 0; i < data.length; i++) data[i] = -(data[i] as number);
          return results;
        },
      };
    },
  };
}

function isUpdate(call: KernelCall): call is Extract<KernelCall, { kind: "adam" | "sgd" }> {
  return call.kind === "adam" || call.kind === "sgd";
}

/** A bit in the middle of the first float's fraction. */
function flip({ data }: Tensor): void {
  if (!(data instanceof Float32Array) || data.length === 0) return;
  const words = new Uint32Array(data.buffer, data.byteOffset, 1);
  words[0] = (words[0] as number) ^ (1 << 20);
}

export function transferOf(behaviour: Behaviour | undefined, inner: BlobTransfer): BlobTransfer {
  if (behaviour !== "withholds" && behaviour !== "feigns") return inner;
  return {
    download: (from, into, signal) => inner.download(from, into, signal),
    // Messages begin with their type and shape; states and lists do not.
    upload: async (to, content, signal) => {
      if (/^(float|bfloat|int)\d+\[/.test(new TextDecoder().decode(content.subarray(0, 12)))) return;
      await inner.upload(to, content, signal);
    },
  };
}

/** What friends have stated, by interval and VNode: they tell each other outside of the network. */
export type Whispers = Map<string, { readonly after: string; readonly outputs: string }>;

export function networkOf(
  behaviour: Behaviour | undefined,
  inner: Network,
  host: Host,
  whispers: Whispers = new Map(),
): Network {
  const signing = signAs(host.name);
  if (behaviour === "seams")
    return restating(inner, PNodeService.method.recordDurable, ({ statement, resign }) => {
      const [[edge, root] = ["", ""]] = Object.entries(statement.edges);
      const isTurn = statement.to % 4 === 0 && edge !== "";
      return isTurn
        ? resign({ ...statement, edges: { ...statement.edges, [edge]: sha256("seam", root) } }, signing)
        : undefined;
    });
  if (behaviour === "cartel") {
    const listening = restating(inner, PNodeService.method.recordDurable, ({ statement }) => {
      const { session, vnode, to, after, outputs } = statement;
      whispers.set(`${session}/${vnode}/${to}`, { after, outputs });
      return undefined;
    });
    return restating(listening, TrustService.method.recordAudit, ({ statement, resign }) => {
      const { session, vnode, to } = statement;
      const friend = whispers.get(`${session}/${vnode}/${to}`);
      return friend && resign({ ...statement, ...(friend as Pick<Equation, "after" | "outputs">) }, signing);
    });
  }
  if (behaviour === "slanders" || behaviour === "idles")
    return restating(inner, TrustService.method.recordAudit, ({ statement, resign }) => {
      const { after } = statement;
      const made = behaviour === "slanders" ? sha256("slander", after) : sha256(host.world.chance.bytes(8));
      return resign({ ...statement, after: made, outputs: made }, signing);
    });
  if (behaviour === "disclaims")
    return wrapped(inner, {
      call: (address, called, request, options) => {
        if ((called as UnaryMethod) !== TrustService.method.recordAudit)
          return inner.call(address, called, request, options);
        const { statement: _, ...rest } = request as { statement?: WireStatement };
        const told = { ...rest, failure: "a message does not make sense", impossible: true };
        return inner.call(address, called, told as unknown as typeof request, options);
      },
    });
  if (behaviour === "equivocates")
    return saying(inner, ExchangeService.method.exchange, "delivery", (delivery: Delivery) =>
      otherwise(delivery, signing),
    );
  if (behaviour === "resendsRows") return saying(inner, ExchangeService.method.exchange, "delivery", resent);
  if (behaviour === "feigns")
    return saying(inner, PNodeService.method.attach, "heartbeat", (heartbeat: Heartbeat) => ({
      ...heartbeat,
      vnodes: heartbeat.vnodes.map((one) => ({ ...one, life: sha256(host.world.chance.bytes(8)).slice(0, 24) })),
    }));
  return inner;
}

/** Says something else in one kind of events of one kind of streams, or several things instead of one. */
function saying<Value>(
  inner: Network,
  method: BidiMethod,
  kind: string,
  change: (value: Value) => Value | readonly Value[],
): Network {
  return wrapped(inner, {
    open: (address, opened, options) => {
      const channel = inner.open(address, opened, options);
      if ((opened as BidiMethod) !== method) return channel;
      const send = channel.send.bind(channel);
      return Object.assign(Object.create(channel), {
        incoming: channel.incoming,
        close: () => channel.close(),
        send: async (message: { event?: { case?: string; value?: Value } }) => {
          const { event } = message;
          if (event?.case !== kind || event.value === undefined) return send(message as never);
          for (const value of [change(event.value)].flat()) await send({ event: { case: kind, value } } as never);
        },
      }) as typeof channel;
    },
  });
}

interface Restated {
  readonly statement: Equation;
  readonly resign: (equation: Equation, signing: Signing) => Promise<WireStatement>;
}

/** Changes the statements in one kind of calls, rightly signed by the machine itself. */
function restating(
  inner: Network,
  method: UnaryMethod,
  change: (stated: Restated) => Promise<WireStatement> | undefined,
): Network {
  return wrapped(inner, {
    call: async (address, called, request, options) => {
      const { statement, session, vnode } = request as { statement?: WireStatement; session: string; vnode: string };
      if ((called as UnaryMethod) !== method || statement === undefined)
        return inner.call(address, called, request, options);
      const { publicKey: _, signature: __, ...equation } = statementFromWire(statement, session, vnode);
      const resign = async (other: Equation, signing: Signing) => statementToWire(await signed(other, signing));
      const restated = await change({ statement: equation, resign });
      const told = restated === undefined ? request : ({ ...request, statement: restated } as typeof request);
      return inner.call(address, called, told, options);
    },
  });
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

/** Far from the ids that an honest sender uses. */
const ownIds = 1n << 40n;

/** Rows of a served model with the opposite sign, and then as they should be, as if the conductor had asked for them once more. */
function resent(delivery: Delivery): Delivery | readonly Delivery[] {
  const { pass: label, data, dtype, shape, id } = delivery;
  if (label?.pass === undefined || !(data?.byteLength > 0) || fromDataType(dtype) !== "float32") return delivery;
  const bytes = data.slice();
  for (let sign = 3; sign < bytes.byteLength; sign += 4) bytes[sign] = (bytes[sign] as number) ^ 128;
  const hash = hashOfContent({ dtype: "float32", shape: [...shape], bytes });
  const again = { ...label, pass: { ...label.pass, id: label.pass.id + ownIds } };
  return [
    { ...delivery, data: bytes, hash },
    { ...delivery, id: id + ownIds, pass: again },
  ];
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
