// Passes as a protocol between PNodes: their tensors go to a VNode here, or over the link to the PNode that owns it.
// Nothing is sent again: whoever cannot take part tells the conductor, who repeats the passes.

import { fail, messageOf } from "../../core/errors.ts";
import { hashOfContent } from "../../core/hash.ts";
import type { ReplicaId, VNodeId } from "../../core/ids.ts";
import { wireBytes } from "../../core/numbers/wire-types.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { Log } from "../../core/world.ts";
import type { Links } from "../../peer/links.ts";
import type { Parcel } from "../../peer/parcel.ts";
import { type Expected, type Judgement, type Protocol, refused } from "../../peer/receiving.ts";
import { type Delivery, type LostPass as ProtoLost, Verdict } from "../../protocol/gen/dcnr/v1/exchange_pb.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import type { Resolver } from "../resolver.ts";
import { isLater, type LostPass, type Pass, type PassTarget, type Turn } from "./pass.ts";
import { fromProtoPass, toProtoPass } from "./pass-wire.ts";
import type { ServingVNode } from "./serving-vnode.ts";

/** The VNode that speaks, and the epoch under which this PNode owns it. */
export interface PassSender {
  readonly vnode: string;
  readonly epoch: number;
}

export interface PassesOptions {
  readonly pnode: string;
  readonly links: Links;
  readonly resolver: Resolver;
  readonly tasks: Tasks;
  readonly log: Log;
  /** A VNode that answers here. */
  readonly find: (session: string, vnode: string) => ServingVNode | undefined;
  /** For a conductor here. */
  readonly onLost: (lost: LostPass) => void;
  /** The VNode whose PNode conducts; undefined if the replica is not known here. */
  readonly head: (replica: ReplicaId) => Promise<string> | undefined;
}

/** What a peer may say about a failure. */
const failureLengthMax = 1_000;

export class Passes implements Protocol {
  readonly #options: PassesOptions;
  /** By replica, the newest turn that was sent anywhere: what is left of earlier ones is not sent any more. */
  readonly #turns = new Map<string, Turn>();
  #sent = 0;

  constructor(options: PassesOptions) {
    this.#options = options;
  }

  send(sender: PassSender, target: PassTarget, pass: Pass, tensor: WireTensor): void {
    const { resolver, pnode, links, log } = this.#options;
    const { session } = target;
    const lost = () => this.tellConductor({ session, pass, failure: "" });
    const place = resolver.locate(session as ReplicaId, target.vnode as VNodeId)[0];
    if (place === undefined || place.pnode === pnode) {
      const host = place && this.#options.find(session, target.vnode);
      if (host === undefined) lost();
      else host.accept(target.port, pass, tensor);
      return;
    }
    if (!pass.plain) this.#follow(session, pass);
    links.to(place).deliver(this.#parcel(sender, target, pass, tensor), (outcome, why) => {
      if (outcome === "stored" || outcome === "dropped") return;
      log("debug", `pass ${pass.id} did not reach ${target.vnode} on PNode ${place.pnode}: ${why || outcome}`);
      lost();
    });
  }

  #follow(session: string, turn: Turn): void {
    const known = this.#turns.get(session);
    if (known === undefined || isLater(turn, known)) this.#turns.set(session, turn);
  }

  #parcel({ vnode, epoch }: PassSender, target: PassTarget, pass: Pass, content: WireTensor): Parcel {
    const { session, port } = target;
    return {
      label: { pass: { session, port, pass: toProtoPass(pass) } },
      ...{ from: vnode, to: target.vnode, epoch },
      // A pass is sent once: each parcel is one of its own.
      key: `pass ${this.#sent++}`,
      urgent: true,
      open: async () => {
        const newest = this.#turns.get(session);
        if (!pass.plain && newest && isLater(newest, pass)) fail("cancelled", "a later turn made it useless");
        return { content, hash: hashOfContent(content), release: () => {} };
      },
    };
  }

  expects({ pass: proto, to, shape }: Delivery): Expected | Judgement {
    const { session = "", port = "" } = proto ?? {};
    const host = this.#options.find(session, to);
    if (host === undefined) return { verdict: Verdict.MOVED, detail: `VNode ${to} does not serve here` };
    let pass: Pass;
    let planned: ReturnType<ServingVNode["expects"]>;
    try {
      pass = fromProtoPass(proto?.pass);
      planned = host.expects(port, pass, shape[0] ?? 0);
    } catch (error) {
      return refused(messageOf(error));
    }
    if (planned === undefined) return { verdict: Verdict.WAIT, detail: `VNode ${to} is still loading` };
    const { head, ...input } = planned;
    if (!this.#isConducted(session as ReplicaId, head as VNodeId, pass))
      return { verdict: Verdict.WAIT, detail: `who conducts ${session} is looked up` };
    const { waiting } = host;
    const full = { verdict: Verdict.WAIT, detail: `VNode ${to} has as many passes to compute as it takes` };
    return {
      ...input,
      session,
      refusal: () => (waiting.hasRoom(wireBytes(input.dtype, input.shape)) ? undefined : full),
      allocate: (bytes) => {
        waiting.take(bytes);
        return new Uint8Array(bytes);
      },
      discard: ({ byteLength }) => waiting.give(byteLength),
      take: (content) => {
        waiting.give(content.bytes.byteLength);
        host.accept(port, pass, content);
        return { verdict: Verdict.STORED, detail: "" };
      },
    };
  }

  /** Turns are the conductor's alone: whoever hands a pass on in the name of another could end them for everybody. */
  #isConducted(session: ReplicaId, head: VNodeId, { conductor, epoch }: Pass): boolean {
    const { resolver } = this.#options;
    const place = resolver.locate(session, head)[0];
    const isSo = place?.pnode === conductor && place.epoch === epoch;
    if (!isSo) resolver.refresh(session);
    return isSo;
  }

  /** The conductor is beside the head, here or elsewhere. */
  tellConductor(lost: LostPass): void {
    const { resolver, pnode, tasks, head, links } = this.#options;
    const session = lost.session as ReplicaId;
    resolver.refresh(session);
    if (lost.pass.conductor === pnode) {
      this.#options.onLost(lost);
      return;
    }
    tasks.run(`tell the conductor of ${session}`, async () => {
      const vnode = await head(session);
      const place = vnode === undefined ? undefined : resolver.locate(session, vnode as VNodeId)[0];
      if (place?.pnode === lost.pass.conductor) links.to(place).note({ ...lost, pass: toProtoPass(lost.pass) });
    });
  }

  /** A peer could not take part. */
  heard({ session, pass, failure }: ProtoLost, peer: string): void {
    const { resolver, log } = this.#options;
    if (!resolver.ownsAny(session as ReplicaId, peer)) {
      log("debug", `PNode ${peer} speaks of ${session}, of which it owns nothing`);
      return;
    }
    try {
      this.#options.onLost({ session, pass: fromProtoPass(pass), failure: failure.slice(0, failureLengthMax) });
    } catch (error) {
      log("debug", `PNode ${peer} speaks of a pass that cannot be: ${messageOf(error)}`);
    }
  }

  forget(session: string): void {
    this.#turns.delete(session);
  }
}
