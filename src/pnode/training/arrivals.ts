// The exchange as a protocol between PNodes, at the receiving end: which tensor a name stands for, and who takes it. The
// process of the VNode alone decides what becomes of a message; here its verdict is put into words.

import { base64Of } from "../../core/bytes.ts";
import { messageOf } from "../../core/errors.ts";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import { type Expected, type Judgement, type Protocol, refused } from "../../peer/receiving.ts";
import { type Ask, AskOutcome, type Delivery, Verdict } from "../../protocol/gen/dcnr/v1/exchange_pb.ts";
import { deliveryContent } from "../../trust/delivery.ts";
import type { JudgeBy } from "../../trust/signing.ts";
import type { Verdict as ProcessVerdict, Proof } from "../../vnode/effects.ts";
import { keyOf, type MessageName } from "../../vnode/names.ts";
import type { Sender } from "./exchange.ts";
import { fromProtoName, toSource } from "./names.ts";
import type { Directory, OutgoingTensor } from "./receiver.ts";
import { StoredTensor } from "./retention.ts";

const namesMax = 4_096;
const lifeLengthMax = 64;

/** It loads, or has ended in this moment: either way the VNode asks when it knows what it needs. */
const willAsk: Judgement = { verdict: Verdict.WAIT, detail: "the VNode is loading its state and will ask" };

/** Sends to a PNode that asked, if orchestrators say that it owns the VNode. */
export type DeliverToAsker = (
  sender: Sender,
  asker: { readonly vnode: VNodeId; readonly pnode: string },
  message: OutgoingTensor,
) => void;

export class Arrivals implements Protocol {
  readonly #directory: Directory;
  readonly #deliver: DeliverToAsker;
  readonly #verify: JudgeBy | undefined;

  /** `verify` judges signatures; without it nothing is taken for sessions that ask for them. */
  constructor(directory: Directory, deliver: DeliverToAsker, verify?: JudgeBy) {
    this.#directory = directory;
    this.#deliver = deliver;
    this.#verify = verify;
  }

  expects(delivery: Delivery, peer: string): Expected | Judgement {
    const { name: proto, to, hash, epoch } = delivery;
    let named: ReturnType<typeof fromProtoName>;
    try {
      named = fromProtoName(proto);
    } catch (error) {
      return refused(messageOf(error));
    }
    const { name, session } = named;
    const receiver = this.#directory.find(session as SessionId, to as VNodeId);
    if (receiver === undefined) return { verdict: Verdict.MOVED, detail: `VNode ${to} is not here` };
    const { memory } = receiver;
    if (!receiver.isRunning || memory === undefined) return willAsk;
    const planned = receiver.expects(name);
    if (planned === undefined) return refused(`VNode ${to} takes nothing on ${name.edge}`);
    const { wire: dtype, shape, from } = planned;
    const proof = receiver.needsProof ? proofOf(delivery) : undefined;
    const arrival = { name, hash, from: toSource(peer, Number(epoch)), proof };
    return {
      ...{ dtype, shape, from, session },
      refusal: async () => {
        if (receiver.admit(name, hash) !== "wanted") return judgementOf(receiver.receive(arrival), name);
        if (receiver.needsProof && !(await this.#isSigned(delivery, session, name, peer)))
          return refused(`the session is one that is checked: PNode ${peer} has to sign what it sends`);
        const heard = receiver.hears(arrival);
        return heard && judgementOf(heard, name);
      },
      allocate: (bytes) => memory.allocate(bytes),
      discard: (unused) => memory.release(unused),
      take: (content) => {
        const tensor = new StoredTensor({ ...content, memory });
        return judgementOf(receiver.receive({ ...arrival, tensor }), name);
      },
    };
  }

  async #isSigned(
    { from: vnode, life, hash, publicKey, signature }: Delivery,
    session: string,
    name: MessageName,
    peer: string,
  ) {
    if (life === "" || life.length > lifeLengthMax) return false;
    const content = deliveryContent({ session, vnode, life, key: keyOf(name), hash });
    return (await this.#verify?.(peer, publicKey, content, signature)) ?? false;
  }

  asked(ask: Ask, pnode: string, answer: (outcome: AskOutcome) => void): void {
    let names: ReturnType<typeof fromProtoName>[];
    try {
      names = ask.names.slice(0, namesMax).map(fromProtoName);
    } catch {
      answer(AskOutcome.MOVED);
      return;
    }
    const session = names[0]?.session as SessionId | undefined;
    const vnode = ask.from as VNodeId;
    const receiver = session && this.#directory.find(session, vnode);
    if (!receiver || names.some((each) => each.session !== session)) {
      answer(AskOutcome.MOVED);
      return;
    }
    const asker = { vnode: ask.to as VNodeId, pnode };
    receiver.asked(
      names.map(({ name }) => name),
      {
        answer: (outcome) => answer(outcome === "gone" ? AskOutcome.GONE : AskOutcome.COMING),
        deliver: (message) =>
          this.#deliver({ session, vnode, epoch: receiver.epoch, life: receiver.life }, asker, message),
      },
    );
  }
}

function proofOf({ life, signature, publicKey }: Delivery): Proof {
  return { life, signature: base64Of(signature), publicKey: base64Of(publicKey) };
}

function judgementOf(verdict: ProcessVerdict | undefined, { step, microbatch, edge }: MessageName): Judgement {
  switch (verdict) {
    case "stored":
      return { verdict: Verdict.STORED, detail: "" };
    case "dropped":
      return { verdict: Verdict.DROPPED, detail: "" };
    case "wait":
      return { verdict: Verdict.WAIT, detail: `step ${step} is beyond the window` };
    case "refused":
      return refused(`step ${step}, microbatch ${microbatch} does not exist on ${edge}`);
    case undefined:
      return willAsk;
  }
}
