// Where the tensors of passes go: to a VNode here, or over the link to the PNode that owns it. Whoever cannot take
// part tells the conductor, who repeats the passes.

import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { World } from "../../core/world.ts";
import type { Network } from "../../protocol/network.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import type { Location, Resolver } from "../resolver.ts";
import type { Tasks } from "../tasks.ts";
import type { LostPass, Pass, PassTarget } from "./pass.ts";
import { PassLink } from "./pass-link.ts";

export interface PassRoutesOptions {
  readonly pnode: string;
  readonly world: World;
  readonly network: Network;
  readonly tasks: Tasks;
  readonly resolver: Resolver;
  readonly signal: AbortSignal;
  /** False if the VNode is not here. */
  readonly accept: (target: PassTarget, pass: Pass, tensor: WireTensor) => boolean;
  /** For a conductor here. */
  readonly lost: (lost: LostPass) => void;
  /** The VNode whose PNode conducts; undefined if the session is not known here. */
  readonly head: (session: SessionId) => Promise<string> | undefined;
}

export class PassRoutes {
  readonly #options: PassRoutesOptions;
  /** By address. */
  readonly #links = new Map<string, { link: PassLink; pnode: string }>();

  constructor(options: PassRoutesOptions) {
    this.#options = options;
  }

  send(target: PassTarget, pass: Pass, tensor: WireTensor): void {
    const { resolver, pnode } = this.#options;
    const place = resolver.locate(target.session as SessionId, target.vnode as VNodeId)[0];
    if (place === undefined) this.tellConductor({ session: target.session, pass, failure: "" });
    else if (place.pnode === pnode) this.arrive(target, pass, tensor);
    else this.#link(place).send({ target, pass, tensor });
  }

  arrive(target: PassTarget, pass: Pass, tensor: WireTensor): void {
    if (!this.#options.accept(target, pass, tensor)) this.tellConductor({ session: target.session, pass, failure: "" });
  }

  /** The conductor is beside the head, here or elsewhere. */
  tellConductor(lost: LostPass): void {
    const { resolver, pnode, tasks, head } = this.#options;
    const session = lost.session as SessionId;
    resolver.refresh(session);
    if (lost.pass.conductor === pnode) {
      this.#options.lost(lost);
      return;
    }
    tasks.run(`tell the conductor of ${session}`, async () => {
      const vnode = await head(session);
      const place = vnode === undefined ? undefined : resolver.locate(session, vnode as VNodeId)[0];
      if (place?.pnode === lost.pass.conductor) this.#link(place).send(lost);
    });
  }

  /** Peers that do not answer. */
  failing(): { pnode: string; failingMs: number }[] {
    return [...this.#links.values()]
      .map(({ pnode, link }) => ({ pnode, failingMs: link.failingMs }))
      .filter(({ failingMs }) => failingMs > 0);
  }

  #link({ address, pnode }: Location): PassLink {
    const known = this.#links.get(address);
    if (known) return known.link;
    const { network, tasks, world, signal } = this.#options;
    const onLost = (session: string, pass: Pass) => this.tellConductor({ session, pass, failure: "" });
    const link = new PassLink({ address, network, tasks, world, signal, onLost });
    this.#links.set(address, { link, pnode });
    return link;
  }

  /** Peers that own nothing any more, as far as is known here, need no link. */
  prune(): void {
    const addresses = this.#options.resolver.addresses();
    for (const [address, { link }] of this.#links) {
      if (addresses.has(address)) continue;
      this.#links.delete(address);
      link.close();
    }
  }

  close(): void {
    for (const { link } of this.#links.values()) link.close();
  }
}
