// An audit: one interval of one VNode again, from the state before it and the messages that went in, by the same process and
// numerics as its owner's; of VNodes that share weights and were on one machine, all of them at once. Sends nothing, asks nobody, and knows nothing
// of what should come out.

import { fail } from "../../core/errors.ts";
import { hashOfContent } from "../../core/hash.ts";
import type { Sha256, VNodeId } from "../../core/ids.ts";
import { wireBytes } from "../../core/numbers/wire-types.ts";
import { messageShape } from "../../network/plan.ts";
import type { StateImage } from "../../states/cut.ts";
import type { StateReader } from "../../states/reader.ts";
import type { InputList, ListedInput } from "../../trust/lists.ts";
import type { VNodeCompute } from "../../vnode/compute.ts";
import type { Effect, ProcessEvent } from "../../vnode/effects.ts";
import { keyOf, type MessageName, nameOf } from "../../vnode/names.ts";
import type { Outgoing } from "../../vnode/outbox.ts";
import { isNumeric, isOfTies, performNumeric } from "../../vnode/perform.ts";
import type { OpenProcess, VNodeProcess } from "../../vnode/process.ts";
import { edgeToward, type Role, roleOf } from "../../vnode/role.ts";
import { type Passage, Transcript } from "../../vnode/transcript.ts";
import { giveBack, lend, type WireTensor } from "../../vnode/wire.ts";
import type { SessionContext } from "../session-context.ts";

export interface Subject {
  readonly vnode: VNodeId;
  /** Absent where the state follows from the seed. */
  readonly before: StateReader | undefined;
  readonly inputs: InputList;
}

export interface ReplayOptions extends Subject {
  readonly context: SessionContext;
  readonly from: number;
  readonly to: number;
  /** VNodes that share weights with it and were on its machine: they are repeated with it, and what passes between them is not listed. */
  readonly beside: readonly Subject[];
  /** The blobs of messages (core/hash.ts `wholeContent`) in the order in which they are needed, each by its place in it when its turn comes; verified. */
  readonly openMessages: (hashes: readonly Sha256[]) => (at: number) => Promise<Uint8Array>;
  readonly openProcess: OpenProcess;
  /** Unique among what the executor runs. */
  readonly name: string;
  readonly signal: AbortSignal;
  /** Sees the state that it begins with. */
  readonly onBegin?: (state: StateImage) => void;
}

export interface Replayed {
  readonly passage: Passage;
  /** At the end of the interval; the caller closes it. */
  readonly compute: VNodeCompute;
}

/** A message that goes in, and its place among all that do. */
interface Coming extends ListedInput {
  readonly name: MessageName;
  readonly at: number;
}

/** What is kept of a message: nobody needs more of those that go out than their hash, but for those that stay among the repeated. */
interface Held {
  readonly hash: string;
  tensor?: WireTensor | undefined;
}

type Event = ProcessEvent<Held, never>;

/** The VNode's own first, then those beside it. */
export async function replay(options: ReplayOptions): Promise<readonly [Replayed, ...Replayed[]]> {
  const { context, from, beside, name } = options;
  const parts: Part[] = [];
  try {
    for (const [at, subject] of [options, ...beside].entries()) {
      const compute = await context.computeFor(subject.vnode, at === 0 ? name : `${name}/${subject.vnode}`);
      parts.push(new Part(options, subject, compute));
      if (subject.before === undefined) await compute.initialise();
      else if (from === 0) await compute.adopt(subject.before);
      else await context.restore(compute, subject.before, from);
      if (at === 0) options.onBegin?.(compute.state.snapshot(from));
    }
    await run(parts, options);
    return parts.map(({ compute, passage }) => ({ compute, passage: passage as Passage })) as never;
  } catch (error) {
    for (const { compute } of parts) await compute.close();
    throw error;
  }
}

async function run(parts: readonly Part[], { signal }: ReplayOptions): Promise<void> {
  const byVNode = new Map(parts.map((part) => [part.vnode, part]));
  const events: { readonly to: Part; readonly event: Promise<Event> }[] = [];
  const post = (to: Part) => (event: Promise<Event>) => events.push({ to, event });
  const hand = (to: VNodeId, name: MessageName, tensor: WireTensor, from: VNodeId) => {
    const receiver = byVNode.get(to) as Part;
    const payload = { hash: "", tensor: lend(tensor) };
    events.push({ to: receiver, event: Promise.resolve({ kind: "arrived", name, hash: "", payload, from }) });
  };
  try {
    for (const part of parts) await part.begin(post(part), hand);
    for (let next = events.shift(); next !== undefined; next = events.shift()) {
      if (signal.aborted) fail("cancelled", "the audit is not wanted any more");
      const event = await next.event;
      if (next.to.passage !== undefined) discard(event);
      else await next.to.step(event);
      if (parts.every(({ passage }) => passage !== undefined)) return;
    }
  } finally {
    for (const { event } of events) void event.then(discard, () => {});
    for (const part of parts) part.end();
  }
  fail("data_loss", "the list of inputs does not hold all that the interval needs");
}

function discard(event: Event): void {
  if (event.kind === "arrived" && event.payload?.tensor !== undefined) giveBack(event.payload.tensor);
}

type Post = (event: Promise<Event>) => void;
type Hand = (to: VNodeId, name: MessageName, tensor: WireTensor, from: VNodeId) => void;

/** One of the VNodes that are repeated together. */
class Part {
  readonly vnode: VNodeId;
  readonly compute: VNodeCompute;
  /** Once it has come to the end of the interval. */
  passage: Passage | undefined;
  readonly #options: ReplayOptions;
  readonly #inputs: InputList;
  readonly #role: Role;
  readonly #transcript: Transcript;
  readonly #byStep: ReadonlyMap<number, readonly Coming[]>;
  readonly #fetch: (at: number) => Promise<Uint8Array>;
  readonly #isTogether: boolean;
  /** Handed to others in this step. */
  #handed = new Set<Held>();
  #process: VNodeProcess<Held, never> | undefined;
  #post: Post = () => {};
  #hand: Hand = () => {};

  constructor(options: ReplayOptions, { vnode, inputs }: Subject, compute: VNodeCompute) {
    const { context, from, beside } = options;
    this.vnode = vnode;
    this.compute = compute;
    this.#options = options;
    this.#inputs = inputs;
    this.#role = roleOf(context.plan, vnode);
    this.#transcript = new Transcript(this.#role, context.schedule, from);
    this.#isTogether = beside.length > 0;
    if (this.#isTogether) this.#transcript.silence([...this.#role.tiesIn, ...this.#role.tiesOut].map(({ id }) => id));
    const named = inputs.messages.map((message) => {
      const name = nameOf(message.key);
      return name === undefined ? fail("data_loss", `"${message.key}" is no name of a message`) : { ...message, name };
    });
    const inOrder = named.toSorted((a, b) => a.name.step - b.name.step);
    this.#byStep = Map.groupBy(
      inOrder.map((message, at) => ({ ...message, at })),
      ({ name }) => name.step,
    );
    this.#fetch = options.openMessages(inOrder.map(({ hash }) => hash as Sha256));
  }

  async begin(post: Post, hand: Hand): Promise<void> {
    const { context, from, openProcess } = this.#options;
    const { schedule } = context;
    [this.#post, this.#hand] = [post, hand];
    this.#process = openProcess<Held, never>({
      ...{ role: this.#role, schedule, line: from, parallel: 1, persistsPendingMax: 2 },
    });
    post(Promise.resolve({ kind: "start" }));
    await this.#give(from);
  }

  async step(event: Event): Promise<void> {
    for (const effect of this.#process?.step(event) ?? []) {
      await this.#perform(effect);
      if (this.passage !== undefined) return;
    }
  }

  /** Whatever it still holds is given back. */
  end(): void {
    this.#letGo();
    for (const { tensor } of this.#process?.payloads() ?? []) if (tensor !== undefined) giveBack(tensor);
  }

  async #perform(effect: Effect<Held, never>): Promise<void> {
    const { to, context } = this.#options;
    if (isNumeric(effect)) {
      const keeping = this.#isTogether && isOfTies(effect) ? keepingWhole : keepingHashes;
      const performing = performNumeric(this.compute, this.#role, keeping, effect);
      // Nobody waits for it if the audit ends before its turn comes.
      performing.catch(() => {});
      this.#post(performing);
      return;
    }
    switch (effect.kind) {
      case "accumulate":
        this.compute.accumulate(effect.microbatch);
        break;
      case "send":
        this.#send(effect.message);
        break;
      case "publish":
        this.#letGo();
        this.#transcript.published(effect.step, effect.hash, effect.measures);
        if (effect.step < to || effect.step === context.schedule.steps) await this.#give(effect.step);
        break;
      case "publishEvaluation":
        this.#transcript.evaluated(effect.step, effect.measures);
        break;
      case "collect":
        for (const { tensor } of effect.released) if (tensor !== undefined) giveBack(tensor);
        break;
      case "persist":
        this.passage = this.#transcript.take(to);
        break;
      case "fail":
        fail("data_loss", effect.reason);
        break;
      default:
        break;
    }
  }

  #send({ name, to, payload }: Outgoing<Held>): void {
    this.#transcript.sent(name, payload.hash);
    if (payload.tensor === undefined || !this.#transcript.isSilent(name.edge)) return;
    this.#hand(to, name, payload.tensor, this.vnode);
    this.#handed.add(payload);
  }

  /** What was handed on in the last step is its receivers' now: an interval of tied weights would not fit into memory. */
  #letGo(): void {
    for (const held of this.#handed) {
      if (held.tensor !== undefined) giveBack(held.tensor);
      held.tensor = undefined;
    }
    this.#handed = new Set();
  }

  /** A step's messages, when the process comes to it: memory holds one step of them. */
  async #give(step: number): Promise<void> {
    for (const { name, hash, sender, life, signature, at } of this.#byStep.get(step) ?? []) {
      const tensor = this.#tensorOf(name, await this.#fetch(at));
      const publicKey = this.#inputs.keys[sender] ?? "";
      this.#transcript.received(name, hash, sender, { life, signature, publicKey });
      this.#post(Promise.resolve({ kind: "arrived", name, hash, payload: { hash, tensor }, from: sender }));
    }
  }

  #tensorOf(name: MessageName, blob: Uint8Array): WireTensor {
    const { context } = this.#options;
    const edge = edgeToward(this.#role, name.edge, name.direction);
    if (edge === undefined) return fail("data_loss", `nothing comes in as ${keyOf(name)}`);
    const shape = messageShape(edge, context.samples);
    const head = new TextEncoder().encode(`${edge.wire}[${shape}]`);
    const length = wireBytes(edge.wire, shape);
    const isHead = head.every((byte, at) => blob[at] === byte);
    if (!isHead || blob.byteLength !== head.byteLength + length)
      fail("data_loss", `the blob of ${keyOf(name)} is no ${edge.wire} [${shape}]`);
    const { memory } = this.compute;
    const bytes = memory.allocate(length);
    bytes.set(blob.subarray(head.byteLength));
    return { dtype: edge.wire, shape, bytes, memory };
  }
}

const using = {
  take: async ({ tensor }: Held) => tensor ?? fail("internal", "an output is not used here"),
  borrow: async ({ tensor }: Held) => (tensor ? lend(tensor) : fail("internal", "an output is not used here")),
};

const keepingHashes = {
  ...using,
  keep: (tensor: WireTensor): Held => {
    const hash = hashOfContent(tensor);
    giveBack(tensor);
    return { hash };
  },
};

const keepingWhole = { ...using, keep: (tensor: WireTensor): Held => ({ hash: "", tensor }) };
