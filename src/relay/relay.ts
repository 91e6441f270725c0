// A relay: machines that nobody can call wait here, others dial them, and bytes are handed on unread. Flow control is the
// wire's own, hop by hop: the next piece is read when the last was taken. It knows who uses it and how much, nothing else.

import { hexOf } from "../core/bytes.ts";
import { DcnrError, fail } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import { RelayService } from "../protocol/gen/dcnr/v1/relay_pb.ts";
import { type BidiHandler, type CallContext, type ServedService, service } from "../protocol/network.ts";
import { formatAddress } from "../protocol/routes/address.ts";
import { Shares } from "../protocol/server/shares.ts";
import { Budget } from "./budget.ts";
import type { RelayLimits } from "./limits.ts";

type ChannelOf<Method extends (typeof RelayService.method)["reserve" | "dial" | "answer"]> = Parameters<
  BidiHandler<Method>
>[0];
type Reserving = ChannelOf<typeof RelayService.method.reserve>;
type Dialling = ChannelOf<typeof RelayService.method.dial>;
type Answering = ChannelOf<typeof RelayService.method.answer>;
type Piece = Parameters<Dialling["send"]>[0] & Parameters<Answering["send"]>[0];

interface Frame {
  readonly event: { readonly case: string | undefined; readonly value?: unknown };
}

/** The called machine's end of a connection. */
interface CalledEnd {
  readonly channel: Answering;
  readonly frames: AsyncIterator<Frame>;
  done(): void;
}

interface Ring {
  /** Nobody else may answer. */
  readonly target: string;
  answered(end: CalledEnd): void;
}

/** What a relay does now, for people. */
export interface Relayed {
  readonly machines: number;
  readonly connections: number;
  readonly bytes: number;
  readonly slowed: boolean;
}

export class Relay {
  readonly limits: RelayLimits;
  readonly #world: World;
  readonly #budget: Budget;
  readonly #waiting = new Map<string, Reserving>();
  readonly #rings = new Map<string, Ring>();
  /** By machine: ends what is carried from or to it. */
  readonly #endings = new Map<string, Set<() => void>>();
  /** Of connections, by the machine that they lead to and by the one that they come from. */
  readonly #called: Shares;
  readonly #calling: Shares;
  readonly #pairs: Shares;

  constructor(world: World, limits: RelayLimits) {
    this.#world = world;
    this.limits = limits;
    this.#called = new Shares(limits.connectionsPerMachine, limits.connectionsMax);
    // Orchestrators call many.
    this.#calling = new Shares(limits.connectionsMax / 4, limits.connectionsMax);
    this.#pairs = new Shares(limits.connectionsPerPair, limits.connectionsMax);
    this.#budget = new Budget(world, limits, (machine, limitBytesPerSecond, shared) => {
      const value = { limitBytesPerSecond: BigInt(Math.round(limitBytesPerSecond)), shared };
      this.#waiting
        .get(machine)
        ?.send({ event: { case: "slowed", value } })
        .catch(() => {});
    });
  }

  service(): ServedService {
    return service(RelayService, {
      reserve: (channel, { caller }) => this.#reserve(channel, known(caller.id)),
      dial: (channel, context) => this.#dial(channel, context),
      answer: (channel, { caller }) => this.#answer(channel, known(caller.id)),
      locate: async (_, { caller: { address, port } }) => {
        if (port === undefined)
          fail("failed_precondition", "your connection is carried by somebody: ask over one of your own");
        return { place: formatAddress(address, port) };
      },
    });
  }

  /** Those that wait here. */
  get machines(): readonly string[] {
    return [...this.#waiting.keys()];
  }

  /** It is not of the network any more: it waits here no longer, and nothing is carried from or to it. */
  dismiss(machine: string): void {
    const waiting = this.#waiting.get(machine);
    this.#waiting.delete(machine);
    waiting?.close();
    for (const end of [...(this.#endings.get(machine) ?? [])]) end();
  }

  get relayed(): Relayed {
    const { bytes, slowed } = this.#budget;
    return { machines: this.#waiting.size, connections: this.#called.total, bytes, slowed };
  }

  async #reserve(channel: Reserving, machine: KeyId): Promise<void> {
    const { machinesMax, tensors, connectionsPerMachine, bytesPerSecondPerMachine, idleMs } = this.limits;
    const before = this.#waiting.get(machine);
    if (before === undefined && this.#waiting.size >= machinesMax)
      fail("resource_exhausted", `${machinesMax} machines wait at this relay already: try another`);
    this.#waiting.set(machine, channel);
    before?.close();
    const bytesPerSecond = BigInt(Math.round(bytesPerSecondPerMachine));
    try {
      const value = { tensors, connections: connectionsPerMachine, bytesPerSecond, idleMs };
      await channel.send({ event: { case: "reserved", value } });
      for await (const _ of channel.incoming);
    } finally {
      if (this.#waiting.get(machine) === channel) this.#waiting.delete(machine);
    }
  }

  async #dial(channel: Dialling, { caller, signal }: CallContext): Promise<void> {
    const by = known(caller.id);
    const frames = channel.incoming[Symbol.asyncIterator]();
    const first = await frames.next();
    if (first.done || first.value.event.case !== "target")
      fail("invalid_argument", "the first message of a dial says for whom it is");
    const target = first.value.event.value;
    const waiting = this.#waiting.get(target);
    if (waiting === undefined) fail("unavailable", `PNode ${target.slice(0, 60)} does not wait at this relay`);
    this.#take(target, by);
    try {
      const end = await this.#ring(waiting, target, signal);
      try {
        await end.channel.send({ event: { case: "called", value: { by } } });
        await channel.send({ event: { case: "answered", value: {} } });
        await this.#splice({ channel, frames }, end, { target, by }, signal);
      } finally {
        end.channel.close();
        end.done();
      }
    } finally {
      this.#called.give(target);
      this.#calling.give(by);
      this.#pairs.give(pairOf(by, target));
    }
  }

  #take(target: string, by: string): void {
    const full = (whose: string) =>
      new DcnrError("resource_exhausted", `this relay is full: it carries no more connections ${whose}`, {
        outlook: "elsewhere",
      });
    const pair = pairOf(by, target);
    if (!this.#pairs.take(pair)) throw full(`of ${by} to ${target}`);
    if (!this.#called.take(target)) {
      this.#pairs.give(pair);
      throw full(`to ${target}`);
    }
    if (this.#calling.take(by)) return;
    this.#pairs.give(pair);
    this.#called.give(target);
    throw full(`of ${by}`);
  }

  #ring(waiting: Reserving, target: string, signal: AbortSignal): Promise<CalledEnd> {
    const { timers, chance } = this.#world;
    const { ringMs } = this.limits;
    const ticket = hexOf(chance.bytes(16));
    const { promise, resolve, reject } = Promise.withResolvers<CalledEnd>();
    const late = timers.after(ringMs, () =>
      reject(new DcnrError("unavailable", `PNode ${target} was rung and did not answer within ${ringMs} ms`)),
    );
    const left = () => reject(new DcnrError("cancelled", "the caller went away"));
    signal.addEventListener("abort", left, { once: true });
    this.#rings.set(ticket, { target, answered: resolve });
    waiting.send({ event: { case: "ring", value: { ticket } } }).catch(reject);
    return promise.finally(() => {
      late();
      signal.removeEventListener("abort", left);
      this.#rings.delete(ticket);
    });
  }

  async #answer(channel: Answering, machine: KeyId): Promise<void> {
    const frames = channel.incoming[Symbol.asyncIterator]();
    const first = await frames.next();
    const ticket = !first.done && first.value.event.case === "ticket" ? first.value.event.value : "";
    const ring = this.#rings.get(ticket);
    if (ring?.target !== machine) fail("not_found", "nobody waits for an answer to this ticket");
    // Good once.
    this.#rings.delete(ticket);
    await new Promise<void>((done) => ring.answered({ channel, frames, done }));
  }

  /** Until either end leaves, or nothing has moved for a while. */
  async #splice(
    caller: { readonly channel: Dialling; readonly frames: AsyncIterator<Frame> },
    called: CalledEnd,
    users: { readonly target: string; readonly by: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { timers } = this.#world;
    const ending = new AbortController();
    const both = [users.target, users.by];
    let moved = true;
    const carry = async (from: AsyncIterator<Frame>, to: { send(piece: Piece): Promise<void> }) => {
      for (let next = await from.next(); !next.done && !ending.signal.aborted; next = await from.next()) {
        const { event } = next.value;
        if (event.case !== "data" || !(event.value instanceof Uint8Array)) continue;
        await this.#budget.take(event.value.byteLength, users, ending.signal);
        await to.send({ event: { case: "data", value: event.value } });
        moved = true;
      }
    };
    await new Promise<void>((resolve) => {
      let cancel = () => {};
      const watch = () => {
        if (!moved) return end();
        moved = false;
        cancel = timers.after(this.limits.idleMs, watch);
      };
      const end = () => {
        for (const one of both) this.#forget(one, end);
        cancel();
        signal.removeEventListener("abort", end);
        ending.abort();
        resolve();
      };
      for (const one of both) this.#endings.set(one, (this.#endings.get(one) ?? new Set()).add(end));
      signal.addEventListener("abort", end, { once: true });
      watch();
      // An end that breaks is like one that leaves: whoever is left notices and dials again.
      carry(caller.frames, called.channel).then(end, end);
      carry(called.frames, caller.channel).then(end, end);
    });
  }

  #forget(machine: string, end: () => void): void {
    const endings = this.#endings.get(machine);
    endings?.delete(end);
    if (endings?.size === 0) this.#endings.delete(machine);
  }
}

const pairOf = (by: string, target: string) => `${by}>${target}`;

function known(id: KeyId | undefined): KeyId {
  return id ?? fail("unauthenticated", "a relay is for machines that show a key");
}
