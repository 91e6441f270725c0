// What orchestrators make of lists of messages (lists.ts), as works for another thread (core/aside.ts): a list is as long as
// whoever states it likes, and 16 MB of one take 140 ms to read.

import type { Aside, Lane, Work } from "../core/aside.ts";
import { DcnrError, hasCode, messageOf } from "../core/errors.ts";
import {
  edgeOfKey,
  edgeRoot,
  type InputList,
  type Interval,
  type ListedInput,
  readInputs,
  readOutputMessages,
  readOutputSteps,
} from "./lists.ts";

/** The longest list needs a quarter of it. */
const lane: Lane = { name: "lists", memoryMib: 512, idleMs: 30_000 };
const common = { lane, module: import.meta.url, what: "a list of messages", deadlineMs: 10_000 };
/** Told at once: some 300 KB. */
const hashesAtOnce = 4_096;
const inputsAtOnce = 1_024;

interface Listed {
  readonly content: Uint8Array;
  readonly interval: Interval;
}

export const listing: Work<Listed, readonly string[]> = {
  ...common,
  name: "listing",
  run: function* ({ content, interval }) {
    const hashes = [...new Set(readInputs(content, interval).messages.map(({ hash }) => hash))];
    for (let at = 0; at < hashes.length; at += hashesAtOnce) yield hashes.slice(at, at + hashesAtOnce);
  },
};

/** Of all messages that went into an interval, each once. */
export async function inputHashes(aside: Aside, content: Uint8Array, interval: Interval): Promise<string[]> {
  return (await read(aside, listing, { content, interval })).flat();
}

/** A list that takes more time or memory than the thread has is none, like one with another form. */
async function read<Input, Piece>(aside: Aside, work: Work<Input, Piece>, input: Input): Promise<Piece[]> {
  try {
    return await aside.run(work, input);
  } catch (thrown) {
    if (!hasCode(thrown, "invalid_argument")) throw thrown;
    throw new DcnrError("data_loss", `a list of messages cannot be used: ${messageOf(thrown)}`, { cause: thrown });
  }
}

export const reading: Work<Listed, Pick<InputList, "messages" | "keys">> = {
  ...common,
  name: "reading",
  run: function* ({ content, interval }) {
    const { messages, keys } = readInputs(content, interval);
    yield { messages: [], keys };
    for (let at = 0; at < messages.length; at += inputsAtOnce)
      yield { messages: messages.slice(at, at + inputsAtOnce), keys: {} };
  },
};

/** All that went into an interval, for whoever repeats it. */
export async function inputsRead(aside: Aside, content: Uint8Array, interval: Interval): Promise<InputList> {
  const pieces = await read(aside, reading, { content, interval });
  const messages = pieces.flatMap((piece) => piece.messages);
  return { ...interval, messages, keys: pieces[0]?.keys ?? {} };
}

export const stepping: Work<Listed, readonly (readonly [step: number, hash: string])[]> = {
  ...common,
  name: "stepping",
  run: function* ({ content, interval }) {
    const steps = [...readOutputSteps(content, interval)];
    for (let at = 0; at < steps.length; at += hashesAtOnce) yield steps.slice(at, at + hashesAtOnce);
  },
};

/** Hashes of the states after each step of an interval. */
export async function outputSteps(
  aside: Aside,
  content: Uint8Array,
  interval: Interval,
): Promise<ReadonlyMap<number, string>> {
  return new Map((await read(aside, stepping, { content, interval })).flat());
}

interface Looked extends Listed {
  /** As the list's statement says. */
  readonly edges: Readonly<Record<string, string>>;
  /** Hashes of messages that are stored. */
  readonly present: ReadonlySet<string>;
}

/** Why an interval cannot be repeated from its list. */
export type Lacking =
  /** The list is not what its statement says of it. */
  | { readonly kind: "unfit"; readonly reason: string }
  /** Messages are not stored, by the edge ("f/edge" or "b/edge") on which they came. */
  | {
      readonly kind: "missing";
      readonly edges: readonly { readonly edge: string; readonly first: string; readonly count: number }[];
    };

export const lacking: Work<Looked, Lacking> = {
  ...common,
  name: "lacking",
  run: function* ({ content, interval, edges, present }) {
    const { messages: listed } = readInputs(content, interval);
    const byEdge = Map.groupBy(listed, ({ key }) => edgeOfKey(key));
    for (const [edge, messages] of byEdge)
      if (edges[edge] !== edgeRoot(messages.map(({ key, hash }) => [key, hash] as const)))
        return yield { kind: "unfit", reason: `on ${edge.slice(2)} it stated other messages` };
    const missing = Array.from(byEdge, ([edge, messages]) => {
      const lost = messages.filter(({ hash }) => !present.has(hash));
      return { edge, first: lost[0]?.key ?? "", count: lost.length };
    });
    yield { kind: "missing", edges: missing.filter(({ count }) => count > 0) };
  },
};

/** What it takes to repeat an interval and is not there. */
export async function lackingIn(aside: Aside, looked: Looked): Promise<Lacking> {
  try {
    const [found] = await read(aside, lacking, looked);
    return found as Lacking;
  } catch (thrown) {
    if (hasCode(thrown, "data_loss")) return { kind: "unfit", reason: messageOf(thrown) };
    throw thrown;
  }
}

export interface Differing {
  readonly input: ListedInput;
  /** Of its sender, base64; empty if the list names none. */
  readonly publicKey: string;
}

interface Compared {
  readonly sent: Listed;
  readonly taken: Listed;
  /** "f/edge" or "b/edge". */
  readonly edge: string;
  /** Machines whose messages are not looked at: what they sent stands in lists of their own. */
  readonly others?: ReadonlySet<string>;
}

export const comparing: Work<Compared, Differing | undefined> = {
  ...common,
  name: "comparing",
  run: function* ({ sent, taken, edge, others }) {
    const outputs = readOutputMessages(sent.content, sent.interval);
    const { messages, keys } = readInputs(taken.content, taken.interval);
    const input = messages.find(
      ({ key, hash, sender }) => edgeOfKey(key) === edge && !others?.has(sender) && outputs.get(key) !== hash,
    );
    yield input && { input, publicKey: keys[input.sender] ?? "" };
  },
};

/** The first message of an edge that its receiver lists otherwise than its sender. */
export async function firstDifference(aside: Aside, compared: Compared): Promise<Differing | undefined> {
  const [found] = await read(aside, comparing, compared);
  return found;
}
