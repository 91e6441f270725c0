// Tensors between VNodes that learn, wherever they are: handed over within this PNode, sent to peers otherwise, to every
// replica of the receiver.

import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { Log } from "../../core/world.ts";
import type { AskAnswer } from "../../peer/link.ts";
import type { Links } from "../../peer/links.ts";
import type { Parcel } from "../../peer/parcel.ts";
import { keyOf, type MessageName } from "../../vnode/names.ts";
import type { Location, Resolver } from "../resolver.ts";
import { toProtoName, toSource } from "./names.ts";
import type { Directory, OutgoingTensor } from "./receiver.ts";

export interface Sender {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly epoch: number;
}

export interface ExchangeOptions {
  readonly pnode: string;
  /** Where this PNode's peers reach it. */
  readonly address: () => string;
  readonly links: Links;
  readonly resolver: Resolver;
  readonly directory: Directory;
  readonly tasks: Tasks;
  readonly log: Log;
}

export class Exchange {
  readonly #options: ExchangeOptions;

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
    const { pnode, links, resolver, log } = this.#options;
    if (location.pnode === pnode) {
      this.#hand(sender, message);
      return;
    }
    if (location.address === "") return;
    const { session, vnode } = sender;
    links.to(location).deliver(parcelOf(sender, message), (outcome, why) => {
      if (outcome === "moved" || outcome === "broken") resolver.refresh(session);
      if (outcome !== "refused") return;
      const about = { session, vnode, step: message.name.step };
      log("warn", `PNode ${location.pnode} refused ${message.name.edge}: ${why}`, about);
    });
  }

  #hand(sender: Sender, message: OutgoingTensor): void {
    const { directory, pnode, tasks } = this.#options;
    const { name, hash, payload } = message;
    const receiver = directory.find(sender.session, message.to);
    if (receiver === undefined || !receiver.isRunning) return;
    const from = toSource(pnode, sender.epoch);
    const shared = payload.share();
    if (shared !== undefined) {
      receiver.receive({ name, hash, tensor: shared, from });
      return;
    }
    if (receiver.admit(name, hash) !== "wanted") {
      receiver.receive({ name, hash, from });
      return;
    }
    tasks.run("hand over a tensor from disk", async () => {
      receiver.receive({ name, hash, tensor: await payload.copy(), from });
    });
  }

  /** Asks an owner of `whom`; `attempt` goes round its replicas. */
  ask(
    asker: Sender,
    whom: VNodeId,
    names: readonly MessageName[],
    attempt: number,
    done: (answer: AskAnswer) => void,
  ): void {
    const { resolver, directory, pnode, address, links } = this.#options;
    const { session } = asker;
    const locations = resolver.locate(session, whom);
    const location = locations[attempt % Math.max(1, locations.length)];
    if (location === undefined) {
      resolver.refresh(session);
      done("moved");
      return;
    }
    if (location.pnode === pnode) {
      const receiver = directory.find(session, whom);
      const sender = { session, vnode: whom, epoch: location.epoch };
      if (receiver === undefined) done("moved");
      else receiver.asked(names, { answer: done, deliver: (message) => this.#hand(sender, message) });
      return;
    }
    const named = names.map((name) => toProtoName(session, name));
    const ask = { to: asker.vnode, address: address(), from: whom, names: named };
    links.to(location).ask(ask, (answer) => {
      if (answer === "moved" || answer === "broken") resolver.refresh(session);
      done(answer);
    });
  }

  /** The PNode that hosts a VNode as far as is known here; empty if nobody is. */
  ownerOf(session: SessionId, vnode: VNodeId): string {
    return this.#options.resolver.locate(session, vnode)[0]?.pnode ?? "";
  }
}

function parcelOf({ session, vnode, epoch }: Sender, { name, to, hash, payload }: OutgoingTensor): Parcel {
  return {
    label: { name: toProtoName(session, name) },
    ...{ from: vnode, to, epoch },
    key: `${session} ${to} ${epoch} ${keyOf(name)}`,
    urgent: false,
    open: async () => ({ content: await payload.load(), hash, release: () => {} }),
  };
}
