// What follows from repeating an answer: whether it was right, and if not, which machine of the replica made it wrong. Both ends
// of each edge say what passed there; the first edge over which something else went than should have names its sender.
// Pure functions.

import type { PNodeId } from "../../core/ids.ts";
import type { GenerationWay } from "../../network/graphs/generation.ts";

/** Who computes what of a replica. */
export interface Ring extends GenerationWay {
  /** VNodes on the way to the head, in the order in which values flow. */
  readonly order: readonly string[];
  /** VNodes that take the prompt's tokens. */
  readonly takesInputs: readonly string[];
  readonly owners: ReadonlyMap<string, { readonly pnode: PNodeId; readonly epoch: number }>;
}

export interface Answered {
  readonly answer: readonly number[];
  readonly finish: string;
}

/** What somebody came to who repeated it. */
export interface Repeated {
  readonly tokens: readonly number[];
  readonly ends: boolean;
  readonly roots: Readonly<Record<string, string>>;
  readonly sample: readonly number[];
}

export interface RowsTold {
  readonly edge: string;
  readonly sent: boolean;
  readonly root: string;
}

/** By machine. */
export type Told = ReadonlyMap<PNodeId, readonly RowsTold[]>;

export type Blame =
  | { readonly kind: "machine"; readonly pnode: PNodeId; readonly what: string }
  /** One of the two does not tell the truth about what passed between them. */
  | { readonly kind: "seam"; readonly pnodes: readonly [PNodeId, PNodeId]; readonly what: string }
  | { readonly kind: "nobody"; readonly what: string };

export function isAnswered({ answer }: Answered, { tokens, ends }: Repeated): boolean {
  return ends && tokens.length === answer.length && tokens.every((token, index) => token === answer[index]);
}

/** The answer is what it should be, and so is all that passed on the way to it. */
export function agrees(answered: Answered, told: Told, repeated: Repeated): boolean {
  const isRight = ({ edge, root }: RowsTold) => (repeated.roots[edge] ?? root) === root;
  return isAnswered(answered, repeated) && [...told.values()].every((rows) => rows.every(isRight));
}

export function areSame(one: Repeated, other: Repeated): boolean {
  return (
    one.ends === other.ends &&
    one.tokens.join() === other.tokens.join() &&
    Object.entries(one.roots).every(([edge, root]) => other.roots[edge] === root)
  );
}

/** `truth` is what two machines came to that are not of the ring, or one that somebody trusts. */
export function blamed(ring: Ring, answered: Answered, told: Told, truth: Repeated): Blame {
  const ownerOf = (vnode: string) => ring.owners.get(vnode)?.pnode as PNodeId;
  const rootAt = (pnode: PNodeId, edge: string, sent: boolean) =>
    told.get(pnode)?.find((one) => one.edge === edge && one.sent === sent)?.root;
  const head = ownerOf(ring.head);
  const inputs = ring.takesInputs.map((to) => ({ id: "inputs", from: ring.head, to }));
  const place = ({ from }: { readonly from: string }) => ring.order.indexOf(from);
  const edges = [...inputs, ...[...ring.onward].sort((a, b) => place(a) - place(b))];
  for (const { id, from, to } of edges) {
    const [sender, receiver] = [ownerOf(from), ownerOf(to)];
    if (sender === receiver) continue;
    const [sent, got] = [rootAt(sender, id, true), rootAt(receiver, id, false)];
    if (sent !== undefined && sent !== truth.roots[id])
      return {
        ...{ kind: "machine", pnode: sender },
        what:
          id === "inputs"
            ? "passed other tokens on than it answered"
            : `sent something else over ${id} than follows from what came in`,
      };
    if (got !== undefined && got !== truth.roots[id])
      return { kind: "seam", pnodes: [sender, receiver], what: `they do not say the same of what passed over ${id}` };
  }
  // Logits and tokens follow from what came in: without knowing that nobody can say that they do not.
  const isBlind = edges.some(
    ({ id, from, to }) =>
      id !== "inputs" && ownerOf(to) === head && ownerOf(from) !== head && rootAt(head, id, false) === undefined,
  );
  if (isBlind) return { kind: "nobody", what: "what passed on the way to it is no longer known" };
  const chosenFrom = rootAt(head, "logits", true);
  if (chosenFrom !== undefined && chosenFrom !== truth.roots["logits"])
    return { kind: "machine", pnode: head, what: "chose from other probabilities than follow from what came in" };
  if (isAnswered(answered, truth)) return { kind: "nobody", what: "what passed on the way to it is no longer known" };
  const at = answered.answer.findIndex((token, index) => token !== truth.tokens[index]);
  const where = at < 0 ? "its end" : `token ${at + 1} of ${answered.answer.length}`;
  return { kind: "machine", pnode: head, what: `chose something else than follows from what came in (${where})` };
}

/** How far two machines are apart in the first logits, as a share of their size; undefined where that cannot be said. */
export function distanceOf(one: Repeated, other: Repeated): number | undefined {
  if (one.sample.length === 0 || one.sample.length !== other.sample.length) return undefined;
  let [apart, size] = [0, 0];
  for (const [index, value] of one.sample.entries()) {
    apart += (value - (other.sample[index] as number)) ** 2;
    size += (other.sample[index] as number) ** 2;
  }
  return size === 0 ? undefined : Math.sqrt(apart / size);
}

/** Machines that only round differently stay far below it; a lie that does gains nothing, and is out all the same. */
const roundingShare = 0.01;

/** What a machine is that was found wrong, by what it comes to when it is asked to repeat the answer. */
export function verdictOf(truth: Repeated, own: Repeated): "answer" | "class" | "lie" {
  if (areSame(own, truth)) return "answer";
  const distance = distanceOf(own, truth);
  if (distance === undefined || distance === 0) return "answer";
  return distance < roundingShare ? "class" : "lie";
}
