// Where a PNode can be called: its own addresses, the relays at which it waits, and what an orchestrator found when it
// called back. It may relay for others itself.

import type { PNodeId } from "../core/ids.ts";
import type { Tasks } from "../core/tasks.ts";
import { sleep, type World } from "../core/world.ts";
import type { Reached, Relays } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Network, ServedService, Server } from "../protocol/network.ts";
import type { RelayLimits } from "../relay/limits.ts";
import { Relay, type Relayed } from "../relay/relay.ts";
import { type RelayPlace, Reservations, type Standing } from "../relay/reservations.ts";

/** A question to an orchestrator for each machine that waits here. */
const reviewMs = 20_000;

export interface ReachFound {
  /** "directly", "by relay NAME"; empty while nobody has reached it. */
  readonly how: string;
  /** Why not, and what to do about it; empty before the first attempt. */
  readonly problem: string;
  /** Relays at which it waits for calls. */
  readonly relays: readonly Standing[];
}

export interface WhereaboutsOptions {
  readonly pnode: PNodeId;
  readonly network: Network;
  readonly world: World;
  readonly tasks: Tasks;
  readonly signal: AbortSignal;
  readonly advertise: string | undefined;
  /** It relays for others, within these limits. */
  readonly relay: RelayLimits | undefined;
  /** Nobody can connect to it. */
  readonly onlyByRelays: boolean;
  /** Other routes lead here than before. */
  readonly onMoved: (routes: readonly string[]) => void;
}

export class Whereabouts {
  readonly #options: WhereaboutsOptions;
  readonly #reservations: Reservations;
  readonly #relay: Relay | undefined;
  #server: Server | undefined;
  #direct: readonly string[] = [];
  #relays: readonly RelayPlace[] = [];
  /** By an orchestrator. */
  #isTold = false;
  #reached = { how: "", problem: "" };
  #onCalledBack: () => void = () => {};
  /** Resolves when an orchestrator has called back for the first time, whatever came of it. */
  readonly calledBack = new Promise<void>((resolve) => {
    this.#onCalledBack = resolve;
  });
  #before = { bytes: 0, atMs: 0 };

  constructor(options: WhereaboutsOptions) {
    const { pnode, network, world, tasks, signal, relay, onlyByRelays, onMoved } = options;
    this.#options = options;
    this.#relay = relay && new Relay(world, relay);
    this.#reservations = new Reservations({
      ...{ pnode, network, world, tasks, signal, sealed: onlyByRelays },
      accept: (line, from) => (this.#server === undefined ? line.close() : this.#server.accept(line, from)),
      onChange: () => onMoved(this.routes),
    });
  }

  /** What it serves for others besides its own work. */
  get services(): readonly ServedService[] {
    return this.#relay ? [this.#relay.service()] : [];
  }

  /** The best first. */
  get routes(): string[] {
    return [...this.#direct, ...this.#reservations.routes];
  }

  get reach(): ReachFound {
    return { ...this.#reached, relays: this.#reservations.standing };
  }

  serves(server: Server): void {
    this.#server = server;
    this.locatedAt(server.address);
  }

  /** Machines that were sent away are not relayed for any longer; one that nobody can be asked about stays. */
  review(isStill: (machine: string) => Promise<boolean>): void {
    const { tasks, world, signal } = this.#options;
    const relay = this.#relay;
    if (relay === undefined) return;
    tasks.run("asking about machines that wait here", async () => {
      while (!signal.aborted) {
        await sleep(world.timers, reviewMs, signal);
        for (const machine of relay.machines)
          if (!signal.aborted && !(await isStill(machine).catch(() => true))) relay.dismiss(machine);
      }
    });
  }

  /** Where the server is reached as far as this machine can tell; what its owner says comes first. */
  locatedAt(address: string): void {
    const { advertise, onlyByRelays } = this.#options;
    if (onlyByRelays) return;
    this.#direct = [...new Set([...(advertise === undefined ? [] : [advertise]), address])];
  }

  /** An orchestrator has called back. */
  reached({ how, problem }: Reached): void {
    this.#reached = { how, problem };
    this.#onCalledBack();
    this.#reserve();
  }

  /** What members tell of themselves. Orchestrators know better, but one that starts while none is there has nobody else to ask. */
  gossiped(relays: readonly Omit<RelayPlace, "tensors">[]): void {
    if (this.#isTold) return;
    this.#relays = relays.map((relay) => ({ ...relay, tensors: true }));
    this.#reserve();
  }

  learn({ relays }: Relays): void {
    this.#isTold = true;
    this.#relays = relays.map(({ address, name, tensors }) => ({ address, name, tensors }));
    this.#reserve();
  }

  /** One that is called directly has no use for relays that carry calls alone. */
  #reserve(): void {
    const isDirect = this.#reached.how === "directly";
    this.#reservations.learn(isDirect ? this.#relays.filter(({ tensors }) => tensors) : this.#relays);
  }

  problems(): string[] {
    const { problem } = this.#reached;
    const slow = this.#reservations.standing.flatMap(({ relay, slowed }) => {
      if (slowed === undefined) return [];
      const limit = `${Math.round(slowed.bytesPerSecond / 1000)} kB/s${slowed.shared ? " for all" : ""}`;
      return [`relay ${relay.name} is at its limit of ${limit}: what comes by it is slow`];
    });
    return [...(problem === "" ? [] : [`gets no work: ${problem}`]), ...slow];
  }

  get relayed(): Relayed | undefined {
    return this.#relay?.relayed;
  }

  /** For registrations. */
  offer() {
    return this.#relay && { relay: { bytesPerSecond: BigInt(Math.round(this.#relay.limits.bytesPerSecond)) } };
  }

  /** For heartbeats, since the last one. */
  relaying() {
    if (this.#relay === undefined) return undefined;
    const { relayed, limits } = this.#relay;
    const nowMs = this.#options.world.clock.monotonicMs();
    const { bytes, atMs } = this.#before;
    this.#before = { bytes: relayed.bytes, atMs: nowMs };
    const relaying = {
      ...relayed,
      bytes: BigInt(relayed.bytes),
      bytesPerSecond: ((relayed.bytes - bytes) / Math.max(1, nowMs - atMs)) * 1_000,
      limitBytesPerSecond: BigInt(Math.round(limits.bytesPerSecond)),
    };
    return { relaying };
  }
}
