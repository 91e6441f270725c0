// An audit: one interval of one VNode again, from the state before it and the messages that went in, by the same process and
// numerics as its owner's. Sends nothing, asks nobody, and knows nothing of what should come out.

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
import { isNumeric, performNumeric } from "../../vnode/perform.ts";
import type { OpenProcess } from "../../vnode/process.ts";
import { edgeToward, type Role, roleOf } from "../../vnode/role.ts";
import { type Passage, Transcript } from "../../vnode/transcript.ts";
import { giveBack, lend, type WireTensor } from "../../vnode/wire.ts";
import type { SessionContext } from "../session-context.ts";

export interface ReplayOptions {
  readonly context: SessionContext;
  readonly vnode: VNodeId;
  readonly from: number;
  readonly to: number;
  /** Absent where the state follows from the seed. */
  readonly before: StateReader | undefined;
  readonly inputs: InputList;
  /** The blob of a message (training/locker.ts `blobOf`), verified against its hash. */
  readonly fetchMessage: (hash: Sha256) => Promise<Uint8Array>;
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

/** What is kept of a message: nobody needs more of those that go out than their hash. */
interface Held {
  readonly hash: string;
  readonly tensor?: WireTensor;
}

type Event = ProcessEvent<Held, never>;

export async function replay(options: ReplayOptions): Promise<Replayed> {
  const { context, vnode, from, before, name } = options;
  const compute = await context.computeFor(vnode, name);
  try {
    if (before === undefined) await compute.initialise();
    else if (from === 0) await compute.adopt(before);
    else await context.restore(compute, before, from);
    options.onBegin?.(compute.state.snapshot(from));
    return { passage: await new Replay(options, compute).run(), compute };
  } catch (error) {
    await compute.close();
    throw error;
  }
}

class Replay {
  readonly #options: ReplayOptions;
  readonly #compute: VNodeCompute;
  readonly #role: Role;
  readonly #transcript: Transcript;
  readonly #byStep: ReadonlyMap<number, readonly (ListedInput & { readonly name: MessageName })[]>;
  readonly #events: Promise<Event>[] = [Promise.resolve({ kind: "start" })];

  constructor(options: ReplayOptions, compute: VNodeCompute) {
    const { context, vnode, inputs, from } = options;
    this.#options = options;
    this.#compute = compute;
    this.#role = roleOf(context.plan, vnode);
    this.#transcript = new Transcript(this.#role, context.schedule, from);
    const named = inputs.messages.map((message) => {
      const name = nameOf(message.key);
      return name === undefined ? fail("data_loss", `"${message.key}" is no name of a message`) : { ...message, name };
    });
    this.#byStep = Map.groupBy(named, (message) => message.name.step);
  }

  async run(): Promise<Passage> {
    const { context, from, signal, openProcess } = this.#options;
    const { schedule } = context;
    const process = openProcess<Held, never>({
      ...{ role: this.#role, schedule, line: from, parallel: 1, persistsPendingMax: 2 },
    });
    try {
      await this.#give(from);
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
        if (signal.aborted) fail("cancelled", "the audit is not wanted any more");
        for (const effect of process.step(await next)) {
          const passage = await this.#perform(effect);
          if (passage !== undefined) return passage;
        }
      }
    } finally {
      for (const { tensor } of process.payloads()) if (tensor !== undefined) giveBack(tensor);
    }
    return fail("data_loss", "the list of inputs does not hold all that the interval needs");
  }

  async #perform(effect: Effect<Held, never>): Promise<Passage | undefined> {
    const { to, context } = this.#options;
    if (isNumeric(effect)) {
      const performing = performNumeric(this.#compute, this.#role, keeping, effect);
      // Nobody waits for it if the audit ends before its turn comes.
      performing.catch(() => {});
      this.#events.push(performing);
      return undefined;
    }
    switch (effect.kind) {
      case "accumulate":
        this.#compute.accumulate(effect.microbatch);
        return undefined;
      case "send":
        this.#transcript.sent(effect.message.name, effect.message.payload.hash);
        return undefined;
      case "publish":
        this.#transcript.published(effect.step, effect.hash, effect.measures);
        if (effect.step < to || effect.step === context.schedule.steps) await this.#give(effect.step);
        return undefined;
      case "publishEvaluation":
        this.#transcript.evaluated(effect.step, effect.measures);
        return undefined;
      case "collect":
        for (const { tensor } of effect.released) if (tensor !== undefined) giveBack(tensor);
        return undefined;
      case "persist":
        return this.#transcript.take(to);
      case "fail":
        return fail("data_loss", effect.reason);
      default:
        return undefined;
    }
  }

  /** A step's messages, when the process comes to it: memory holds one step of them. */
  async #give(step: number): Promise<void> {
    for (const { name, hash, sender, life, signature } of this.#byStep.get(step) ?? []) {
      const tensor = this.#tensorOf(name, await this.#options.fetchMessage(hash as Sha256));
      const publicKey = this.#options.inputs.keys[sender] ?? "";
      this.#transcript.received(name, hash, sender, { life, signature, publicKey });
      this.#events.push(Promise.resolve({ kind: "arrived", name, hash, payload: { hash, tensor }, from: sender }));
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
    const { memory } = this.#compute;
    const bytes = memory.allocate(length);
    bytes.set(blob.subarray(head.byteLength));
    return { dtype: edge.wire, shape, bytes, memory };
  }
}

const keeping = {
  keep: (tensor: WireTensor): Held => {
    const hash = hashOfContent(tensor);
    giveBack(tensor);
    return { hash };
  },
  take: async ({ tensor }: Held) => tensor ?? fail("internal", "an output is not used here"),
  borrow: async ({ tensor }: Held) => (tensor ? lend(tensor) : fail("internal", "an output is not used here")),
};
