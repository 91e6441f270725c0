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

/** Where the sender has several owners, each answers for what it sent itself; what proves something counts before what does not. */
export async function contradictionAt(
  context: Context,
  session: SessionRecord,
  records: VNodeRecords,
  trouble: Extract<Trouble, { kind: "seam" }>,
): Promise<Contradiction | undefined> {
  const [taken] = trouble.doubtful.get(trouble.receiver) ?? [];
  if (taken === undefined) return undefined;
  const senders = statedAt(session, records.get(trouble.sender), trouble.to);
  let found: Contradiction | undefined;
  for (const sent of senders) {
    const others = new Set(senders.map(({ pnode }) => pnode).filter((pnode) => pnode !== sent.pnode));
    const next = await contradictionOf(context, session, trouble, { sent, taken, others });
    if (next?.kind === "equivocation" || next?.kind === "unsigned") return next;
    found ??= next;
  }
  return found;
}

interface Ends {
  readonly sent: Stated;
  readonly taken: Stated;
  readonly others: ReadonlySet<PNodeId>;
}

async function contradictionOf(
  { blobs, verify, aside }: Context,
  session: SessionRecord,
  { sender, receiver, edge, from, to }: Extract<Trouble, { kind: "seam" }>,
  { sent, taken, others }: Ends,
): Promise<Contradiction | undefined> {
  const listed = async (hash: Sha256, vnode: VNodeId) => ({
    content: await blobs.states.get(hash),
    interval: { session: session.id, vnode, from, to },
  });
  const differing = await firstDifference(aside, {
    sent: await listed(sent.statement.outputs, sender),
    taken: await listed(taken.statement.inputs, receiver),
    ...{ edge, others },
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
