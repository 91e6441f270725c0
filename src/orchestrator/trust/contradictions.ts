// A seam that does not fit, looked at closely: which message it is, and what its receiver can show for it. Two signatures of
// one life that contradict each other are proof by themselves.

import type { PNodeId, Sha256, VNodeId } from "../../core/ids.ts";
import { deliveryContent } from "../../trust/delivery.ts";
import type { ListedInput } from "../../trust/lists.ts";
import { firstDifference } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { Stated } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecords } from "../records/workloads.ts";
import { statedAt, type Trouble } from "./seams.ts";

export interface Contradiction {
  readonly message: string;
  /** `equivocation`: the sender signed two contents in one life. `unsigned`: the receiver names one that nobody signed. */
  readonly kind: "equivocation" | "signed" | "own" | "unsigned";
  /** Whose the other content is. */
  readonly pnode: PNodeId;
}

export async function contradictionAt(
  { blobs, verify, aside }: Context,
  session: SessionRecord,
  records: VNodeRecords,
  trouble: Extract<Trouble, { kind: "seam" }>,
): Promise<Contradiction | undefined> {
  const { sender, receiver, edge, from, to } = trouble;
  const sent = statedAt(session, records.get(sender), to)[0];
  const taken = statedAt(session, records.get(receiver), to)[0];
  if (sent === undefined || taken === undefined) return undefined;
  const listed = async (hash: Sha256, vnode: VNodeId) => ({
    content: await blobs.states.get(hash),
    interval: { session: session.id, vnode, from, to },
  });
  const differing = await firstDifference(aside, {
    sent: await listed(sent.statement.outputs, sender),
    taken: await listed(taken.statement.inputs, receiver),
    edge,
  });
  if (differing === undefined) return undefined;
  const { input: found, publicKey } = differing;
  const isValid =
    verify?.(
      found.sender,
      Buffer.from(publicKey, "base64"),
      deliveryContent({ session: session.id, vnode: sender, life: found.life, key: found.key, hash: found.hash }),
      Buffer.from(found.signature, "base64"),
    ) ?? false;
  return judged(found, isValid, sent, taken);
}

function judged(found: ListedInput, isValid: boolean, sent: Stated, taken: Stated): Contradiction {
  const message = found.key;
  if (found.sender === taken.pnode) return { message, kind: "own", pnode: taken.pnode };
  if (!isValid) return { message, kind: "unsigned", pnode: taken.pnode };
  const isSameLife = found.sender === sent.pnode && found.life === sent.statement.life;
  return { message, kind: isSameLife ? "equivocation" : "signed", pnode: found.sender as PNodeId };
}
