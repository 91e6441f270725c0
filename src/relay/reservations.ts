// Waits for calls at relays: at two that carry tensors, so that the loss of one costs a reconnect, or else at one that
// carries calls. A relay that fails is followed by the next one at once and tried again later.

import { messageOf } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { KeyId, PNodeId } from "../core/ids.ts";
import { Backoff } from "../core/retry.ts";
import { untilEither } from "../core/signals.ts";
import type { Tasks } from "../core/tasks.ts";
import { sleep, type World } from "../core/world.ts";
import { RelayService } from "../protocol/gen/dcnr/v1/relay_pb.ts";
import type { Network } from "../protocol/network.ts";
import { keyOf, withoutKey } from "../protocol/routes/address.ts";
import { answerRing, type Line } from "../protocol/routes/line.ts";
import { formatRelayed } from "../protocol/routes/routes.ts";

export interface RelayPlace {
  /** "host:port#key". */
  readonly address: string;
  /** For people. */
  readonly name: string;
  readonly tensors: boolean;
}

/** What stands now. */
export interface Standing {
  readonly relay: RelayPlace;
  readonly connections: number;
  /** 0: no limit. */
  readonly bytesPerSecond: number;
  /** What holds it up, while something does. */
  readonly slowed?: { readonly bytesPerSecond: number; readonly shared: boolean } | undefined;
}

export interface ReservationsOptions {
  readonly pnode: PNodeId;
  readonly network: Network;
  readonly world: World;
  readonly tasks: Tasks;
  readonly signal: AbortSignal;
  /** Whether it speaks no TLS: callers seal their lines by our own handshake then. */
  readonly sealed?: boolean;
  /** Somebody calls. */
  readonly accept: (line: Line, from: string) => void;
  /** Other reservations stand than before. */
  readonly onChange: () => void;
}

const reservedAtMost = 2;
const relaysMax = 256;
/** One that failed comes after all others for so long. */
const shunnedMs = 30_000;
const retryMinMs = 200;
const retryMaxMs = 5_000;

interface Attempt {
  readonly ending: AbortController;
  standing?: Standing;
}

export class Reservations {
  readonly #options: ReservationsOptions;
  #relays: readonly RelayPlace[] = [];
  readonly #attempts = new Map<string, Attempt>();
  readonly #shunnedUntilMs = new Map<string, number>();

  constructor(options: ReservationsOptions) {
    this.#options = options;
  }

  /** All that there are. */
  learn(relays: readonly RelayPlace[]): void {
    this.#relays = relays.slice(0, relaysMax).filter(({ address }) => keyOf(address) !== undefined);
    this.#reconsider();
  }

  get standing(): readonly Standing[] {
    return [...this.#attempts.values()].flatMap(({ standing }) => standing ?? []);
  }

  /** Those by which the machine is reached now. */
  get routes(): string[] {
    const { pnode: target, sealed = false } = this.#options;
    return this.standing.map(({ relay: { address, tensors } }) =>
      formatRelayed({ target, address: withoutKey(address), relay: keyOf(address) as KeyId, tensors, sealed }),
    );
  }

  #reconsider(): void {
    if (this.#options.signal.aborted) return;
    const wanted = new Map(this.#wanted().map((relay) => [relay.address, relay]));
    for (const [address, { ending }] of [...this.#attempts])
      if (!wanted.has(address)) {
        this.#attempts.delete(address);
        ending.abort();
      }
    for (const relay of wanted.values()) if (!this.#attempts.has(relay.address)) this.#begin(relay);
  }

  /** Machines spread over the relays, each by an order of its own; those of orchestrators, whom everybody reaches, first. */
  #wanted(): RelayPlace[] {
    const { pnode, world, network } = this.#options;
    const nowMs = world.clock.monotonicMs();
    const isShunned = ({ address }: RelayPlace) => nowMs < (this.#shunnedUntilMs.get(address) ?? 0);
    const order = ({ address }: RelayPlace) => sha256(new TextEncoder().encode(`${pnode} ${address}`));
    const all = this.#relays
      .filter(({ address }) => keyOf(address) !== network.id)
      .map((relay) => ({ relay, shunned: isShunned(relay), order: order(relay) }))
      .sort((a, b) => Number(a.shunned) - Number(b.shunned) || (a.order < b.order ? -1 : 1))
      .map(({ relay }) => relay);
    const full = all.filter(({ tensors }) => tensors);
    return full.length > 0 ? full.slice(0, reservedAtMost) : all.slice(0, 1);
  }

  #begin(relay: RelayPlace): void {
    const { tasks, world, signal } = this.#options;
    const attempt: Attempt = { ending: new AbortController() };
    this.#attempts.set(relay.address, attempt);
    const wait = async (ending: AbortSignal) => {
      const backoff = new Backoff(retryMinMs, retryMaxMs, world.chance);
      while (!ending.aborted) {
        try {
          await this.#wait(relay, attempt, ending, backoff);
        } catch (error) {
          if (!ending.aborted) world.log("debug", `relay ${relay.name}: ${messageOf(error)}`);
        }
        const stood = attempt.standing !== undefined;
        delete attempt.standing;
        if (stood) this.#options.onChange();
        if (ending.aborted) return;
        this.#shunnedUntilMs.set(relay.address, world.clock.monotonicMs() + shunnedMs);
        this.#reconsider();
        await sleep(world.timers, backoff.next(), ending);
      }
    };
    tasks.run(`waiting for calls at relay ${relay.name}`, () => untilEither([signal, attempt.ending.signal], wait));
  }

  async #wait(relay: RelayPlace, attempt: Attempt, signal: AbortSignal, backoff: Backoff): Promise<void> {
    const { network, onChange } = this.#options;
    const channel = network.open(relay.address, RelayService.method.reserve, { signal });
    try {
      for await (const { event } of channel.incoming) {
        if (event.case === "reserved") {
          const { tensors, connections, bytesPerSecond } = event.value;
          attempt.standing = { relay: { ...relay, tensors }, connections, bytesPerSecond: Number(bytesPerSecond) };
          backoff.reset();
          this.#shunnedUntilMs.delete(relay.address);
          onChange();
        } else if (event.case === "ring") this.#answer(relay, event.value.ticket, signal);
        else if (event.case === "slowed" && attempt.standing !== undefined) {
          const { limitBytesPerSecond, shared } = event.value;
          const slowed = limitBytesPerSecond > 0n ? { bytesPerSecond: Number(limitBytesPerSecond), shared } : undefined;
          attempt.standing = { ...attempt.standing, slowed };
        }
      }
    } finally {
      channel.close();
    }
  }

  #answer(relay: RelayPlace, ticket: string, signal: AbortSignal): void {
    const { network, tasks, accept, world } = this.#options;
    tasks.run(`a call by relay ${relay.name}`, async () => {
      try {
        const { line, by } = await answerRing(network, relay.address, ticket, signal);
        accept(line, `${by}@${withoutKey(relay.address)}`);
      } catch (error) {
        // The caller has left, or tries again.
        world.log("debug", `a call by relay ${relay.name} came to nothing: ${messageOf(error)}`);
      }
    });
  }
}
