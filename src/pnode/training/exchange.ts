// Tensors between VNodes that learn, wherever they are: handed over within this PNode, sent to peers otherwise, to every
// replica of the receiver.

import type { ContentHash } from "../../core/hash.ts";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { Log } from "../../core/world.ts";
import type { AskAnswer } from "../../peer/jobs.ts";
import type { Links } from "../../peer/links.ts";
import type { Parcel, SenderProof } from "../../peer/parcel.ts";
import { deliveryContent } from "../../trust/delivery.ts";
import type { Signing } from "../../trust/signing.ts";
import { keyOf, type MessageName } from "../../vnode/names.ts";
import { giveBack } from "../../vnode/wire.ts";
import type { Location, Resolver } from "../resolver.ts";
import { toProtoName, toSource } from "./names.ts";
import type { Directory, OutgoingTensor } from "./receiver.ts";
import { StoredTensor } from "./retention.ts";

export interface Sender {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly epoch: number;
  /** Where what is sent is signed: the life of the VNode in which it was computed. */
  readonly life?: string | undefined;
}

export interface ExchangeOptions {
  readonly pnode: string;
  readonly links: Links;
  readonly resolver: Resolver;
  readonly directory: Directory;
  readonly tasks: Tasks;
  readonly log: Log;
  /** Hears who has thrown away what a VNode here asked for. */
  readonly onGone: (session: SessionId, pnode: string) => void;
  readonly signing: Signing | undefined;
  /** Names what is sent. */
  readonly hashOf: ContentHash;
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

  /** To a PNode that asked, if it owns the VNode for which it did, as orchestrators say, and the message is for that one. */
  sendToAsker(sender: Sender, asker: { vnode: VNodeId; pnode: string }, message: OutgoingTensor): void {
    if (message.to !== asker.vnode) return;
    const known = this.#options.resolver.locate(sender.session, asker.vnode);
    const location = known.find((candidate) => candidate.pnode === asker.pnode);
    if (location === undefined) this.#options.resolver.refresh(sender.session);
    else this.#sendTo(location, sender, message);
  }

  #sendTo(location: Location, sender: Sender, message: OutgoingTensor): void {
    const { pnode, links, resolver, log } = this.#options;
    if (location.pnode === pnode) {
      this.#hand(sender, message);
      return;
    }
    if (location.routes === "") return;
    const { session, vnode } = sender;
    links.to(location).deliver(parcelOf(sender, message, this.#options), (outcome, why) => {
      if (outcome === "moved" || outcome === "broken") resolver.refresh(session);
      if (outcome !== "refused") return;
      const about = { session, vnode, step: message.name.step };
      log("warn", `PNode ${location.pnode} refused ${message.name.edge}: ${why}`, about);
    });
  }

  #hand(sender: Sender, message: OutgoingTensor): void {
    const { directory, pnode, tasks } = this.#options;
    const { name, payload } = message;
    const receiver = directory.find(sender.session, message.to);
    if (receiver === undefined || !receiver.isRunning) return;
    const from = toSource(pnode, sender.epoch);
    const hand = (tensor: StoredTensor) => {
      // What stays here is compared with nothing, unless the sender has replicas elsewhere that send the same.
      const { length: owners } = this.#options.resolver.locate(sender.session, sender.vnode);
      const content = owners > 1 ? tensor.peek() : undefined;
      const hash = content === undefined ? payload.knownHash : payload.hashOf(content);
      receiver.receive({ name, hash, tensor, from });
    };
    const shared = payload.share();
    if (shared !== undefined) hand(shared);
    else if (receiver.admit(name, "") === "wanted")
      tasks.run("hand over a tensor from disk", async () => {
        const loaded = await payload.borrow();
        hand(new StoredTensor(loaded));
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
    const { resolver, directory, pnode, links } = this.#options;
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
      const sender: Sender = { session, vnode: whom, epoch: location.epoch };
      if (receiver === undefined) done("moved");
      else receiver.asked(names, { answer: done, deliver: (message) => this.#hand(sender, message) });
      return;
    }
    const named = names.map((name) => toProtoName(session, name));
    const ask = { to: asker.vnode, from: whom, names: named };
    links.to(location).ask(ask, (answer) => {
      if (answer === "moved" || answer === "broken") resolver.refresh(session);
      if (answer === "gone") this.#options.onGone(session, location.pnode);
      done(answer);
    });
  }

  /** How many PNodes host a VNode, as far as is known here. */
  owners(session: SessionId, vnode: VNodeId): number {
    return this.#options.resolver.locate(session, vnode).length;
  }

  /** All of them are here and nowhere else, and none of them has begun as one that is not. */
  areTogether({ session, vnode: own }: Sender, vnodes: readonly VNodeId[]): boolean {
    const { pnode, resolver, directory } = this.#options;
    return vnodes.every((vnode) => {
      const [only, ...others] = resolver.locate(session, vnode);
      const isApart = vnode !== own && directory.find(session, vnode)?.isSilent === false;
      return only?.pnode === pnode && others.length === 0 && !isApart;
    });
  }

  /** The PNode that hosts a VNode as far as is known here; empty if nobody is. */
  ownerOf(session: SessionId, vnode: VNodeId): string {
    return this.#options.resolver.locate(session, vnode)[0]?.pnode ?? "";
  }
}

function parcelOf(
  { session, vnode, epoch, life }: Sender,
  { name, to, payload }: OutgoingTensor,
  { signing, hashOf }: Pick<ExchangeOptions, "signing" | "hashOf">,
): Parcel {
  const key = keyOf(name);
  const proofOf = async (hash: string): Promise<SenderProof> => {
    if (life === undefined || signing === undefined) return {};
    const signature = await signing.sign(deliveryContent({ session, vnode, life, key, hash }));
    return { life, signature, publicKey: signing.publicKey };
  };
  return {
    label: { name: toProtoName(session, name) },
    ...{ from: vnode, to, epoch },
    key: `${session} ${to} ${epoch} ${key}`,
    urgent: false,
    open: async () => {
      const content = await payload.borrow();
      const release = () => giveBack(content);
      try {
        const found = payload.hashBy(content, hashOf);
        const hash = typeof found === "string" ? found : await found;
        return { content, hash, proof: await proofOf(hash), release };
      } catch (error) {
        release();
        throw error;
      }
    },
  };
}
