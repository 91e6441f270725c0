// Tensors between VNodes wherever they are: handed over within this PNode, sent over one stream per peer
// otherwise, to every replica of the receiver.

import type { SessionId, VNodeId } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import type { Network } from "../protocol/network.ts";
import type { MessageName } from "../vnode/names.ts";
import type { Bandwidth } from "./bandwidth.ts";
import { Link, type Parcel, type QuestionOutcome } from "./link.ts";
import { toSource } from "./names.ts";
import type { Timings } from "./options.ts";
import type { Directory, OutgoingTensor } from "./receiver.ts";
import type { Location, Resolver } from "./resolver.ts";
import { StoredTensor } from "./retention.ts";
import type { Tasks } from "./tasks.ts";

export interface Sender {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly epoch: number;
}

export interface ExchangeOptions {
  readonly pnode: string;
  /** Where this PNode's peers reach it. */
  readonly address: () => string;
  readonly network: Network;
  readonly world: World;
  readonly timings: Timings;
  readonly tasks: Tasks;
  readonly resolver: Resolver;
  readonly directory: Directory;
  readonly bandwidth: Bandwidth;
  readonly signal: AbortSignal;
}

export class Exchange {
  readonly #options: ExchangeOptions;
  /** By address. */
  readonly #links = new Map<string, { link: Link; pnode: string }>();

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** To all owners of the receiver. What cannot be sent now is asked for later. */
  send(sender: Sender, message: OutgoingTensor): void {
    for (const location of this.#options.resolver.locate(sender.session, message.to))
      this.#sendTo(location, sender, message);
  }

  /** To one who asked, at an address that an orchestrator vouches for. */
  sendToAsker(sender: Sender, asker: { vnode: VNodeId; address: string }, message: OutgoingTensor): void {
    const known = this.#options.resolver.locate(sender.session, asker.vnode);
    const location = known.find((candidate) => candidate.address === asker.address);
    if (location === undefined) this.#options.resolver.refresh(sender.session);
    else this.#sendTo(location, sender, message);
  }

  #sendTo(location: Location, sender: Sender, message: OutgoingTensor): void {
    if (location.pnode === this.#options.pnode) {
      this.#hand(sender, message);
      return;
    }
    if (location.address === "") return;
    const parcel: Parcel = { session: sender.session, from: sender.vnode, epoch: sender.epoch, message };
    this.#link(location).deliver(parcel, (outcome, why) => {
      if (outcome === "moved" || outcome === "broken") this.#options.resolver.refresh(sender.session);
      if (outcome === "refused")
        this.#options.world.log("warn", `PNode ${location.pnode} refused ${message.name.edge}: ${why}`, {
          session: sender.session,
          vnode: sender.vnode,
          step: message.name.step,
        });
    });
  }

  #hand(sender: Sender, message: OutgoingTensor): void {
    const { directory, pnode, tasks } = this.#options;
    const receiver = directory.find(sender.session, message.to);
    if (receiver === undefined) return;
    const admission = receiver.admit(message.name, message.hash);
    if (admission === "old" || admission === "unknown" || admission === "loading") return;
    const wanted = admission === "wanted";
    const tensor = message.payload.peek();
    const source = toSource(pnode, sender.epoch);
    if (!wanted || tensor !== undefined) {
      // The receiver gets a handle of its own, since the sender's may move to disk.
      receiver.receive(message.name, message.hash, tensor && new StoredTensor(tensor), source);
      return;
    }
    tasks.run("hand over a tensor from disk", async () => {
      const loaded = await message.payload.load();
      receiver.receive(message.name, message.hash, new StoredTensor(loaded), source);
    });
  }

  /** Asks an owner of `whom`; `attempt` goes round its replicas. */
  ask(
    asker: Sender,
    whom: VNodeId,
    names: readonly MessageName[],
    attempt: number,
    done: (outcome: QuestionOutcome) => void,
  ): void {
    const { resolver, directory, pnode, address } = this.#options;
    const locations = resolver.locate(asker.session, whom);
    const location = locations[attempt % Math.max(1, locations.length)];
    if (location === undefined) {
      resolver.refresh(asker.session);
      done("moved");
      return;
    }
    if (location.pnode === pnode) {
      const receiver = directory.find(asker.session, whom);
      const sender = { session: asker.session, vnode: whom, epoch: location.epoch };
      if (receiver === undefined) done("moved");
      else receiver.asked(names, { answer: done, deliver: (message) => this.#hand(sender, message) });
      return;
    }
    const question = { session: asker.session, to: asker.vnode, address: address(), from: whom, names };
    this.#link(location).ask(question, (outcome) => {
      if (outcome === "moved" || outcome === "broken") resolver.refresh(asker.session);
      done(outcome);
    });
  }

  /** The PNode that hosts a VNode as far as is known here; empty if nobody is. */
  ownerOf(session: SessionId, vnode: VNodeId): string {
    return this.#options.resolver.locate(session, vnode)[0]?.pnode ?? "";
  }

  links(): { pnode: string; latencyMs: number; bytesPerSecond: number; failingMs: number }[] {
    return [...this.#links.values()]
      .map(({ link: { latencyMs, bytesPerSecond, failingMs }, pnode }) => ({
        pnode,
        latencyMs,
        bytesPerSecond,
        failingMs,
      }))
      .filter(({ latencyMs, bytesPerSecond, failingMs }) => latencyMs > 0 || bytesPerSecond > 0 || failingMs > 0);
  }

  /** Ends links to where no VNode is any more: a stalled peer would hold on to what waits for it. */
  prune(): void {
    const used = this.#options.resolver.addresses();
    for (const [address, { link }] of [...this.#links]) {
      if (used.has(address)) continue;
      this.#links.delete(address);
      link.close();
    }
  }

  close(): void {
    for (const { link } of [...this.#links.values()]) link.close();
  }

  #link(location: Location): Link {
    const { address, pnode } = location;
    const known = this.#links.get(address);
    if (known !== undefined) return known.link;
    const { network, world, timings, tasks, bandwidth, signal } = this.#options;
    const shared = { network, world, timings, tasks, bandwidth, signal };
    const link: Link = new Link({ ...shared, address, pnode: this.#options.pnode });
    this.#links.set(address, { link, pnode });
    return link;
  }
}
