import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { asideHere } from "../../core/aside.ts";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { writeInputs, writeOutputs } from "../../trust/lists.ts";
import type { Statement } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import type { Stated } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { contradictionAt } from "./contradictions.ts";
import type { Trouble } from "./seams.ts";

const [a, b] = ["a", "b"] as VNodeId[] as [VNodeId, VNodeId];
const [first, second] = ["1/0/f/a>b", "2/0/f/a>b"];
const [right, lie] = [sha256("right"), sha256("lie")];

interface Taken {
  readonly sender: string;
  readonly hash: string;
  readonly life?: string;
  readonly signature?: string;
}

/** What q can show for its input, of which it took the second message like this; each owner of a states what it says it sent of that. */
async function found(taken: Taken, sent: Readonly<Record<string, string>>) {
  const span = { session: "s", from: 0, to: 2 };
  const blobs = new Map<string, Uint8Array>();
  const stored = ({ hash, content }: { hash: string; content: Uint8Array }) => {
    blobs.set(hash, content);
    return hash;
  };
  const statedBy = (pnode: string, vnode: VNodeId, lists: Partial<Statement>): Stated =>
    ({ pnode, turn: 0, statement: { vnode, life: `${pnode} lives`, ...lists } }) as unknown as Stated;
  const nothing = { steps: [], measures: [], evaluations: [] };
  const senders = Object.entries(sent).map(([pnode, hash]) => {
    const messages = [[first, right] as const, [second, hash] as const];
    const outputs = stored(writeOutputs({ ...span, vnode: a, messages, ...nothing }));
    return statedBy(pnode, a, { outputs } as Partial<Statement>);
  });
  const valid = (sender: string) => ({ sender, life: `${sender} lives`, signature: "valid" });
  const messages = [
    { key: first, hash: right, ...valid("p") },
    { key: second, ...valid(taken.sender), ...taken },
  ];
  const inputs = stored(writeInputs({ ...span, vnode: b, messages, keys: {} }));
  const receiver = statedBy("q", b, { inputs } as Partial<Statement>);
  const context = {
    aside: asideHere,
    blobs: { states: { get: async (hash: string) => blobs.get(hash) } },
    verify: (_pnode: string, _key: Uint8Array, _content: Uint8Array, signature: Uint8Array) =>
      Buffer.from(signature).toString("base64").startsWith("vali"),
  } as unknown as Context;
  const trouble = {
    ...{ from: 0, to: 2, kind: "seam", edge: "f/a>b", sender: a, receiver: b },
    doubtful: new Map([
      [a, senders.slice(0, 1)],
      [b, [receiver]],
    ]),
  } as Extract<Trouble, { kind: "seam" }>;
  const records = new Map([[a, { vnode: a, statements: { "2": senders } } as unknown as VNodeRecord]]);
  const contradiction = await contradictionAt(context, { id: "s" } as unknown as SessionRecord, records, trouble);
  return contradiction && { kind: contradiction.kind, pnode: contradiction.pnode as PNodeId };
}

describe("a seam at which several own the sending VNode", () => {
  const honest = { p: right, liar: right };

  it("tells who signed another content than it states, whichever of them stated first", async () => {
    const proven = { kind: "equivocation", pnode: "liar" };
    assert.deepEqual(await found({ sender: "liar", hash: lie }, honest), proven);
    assert.deepEqual(await found({ sender: "liar", hash: lie }, { liar: right, p: right }), proven);
  });

  it("proves nothing against whoever stands by what it sent, however the others differ", async () => {
    assert.equal(await found({ sender: "liar", hash: lie }, { p: right, liar: lie }), undefined);
    assert.equal(await found({ sender: "p", hash: right }, { liar: lie, p: right }), undefined);
  });

  it("proves nothing by another life, nor by somebody who does not own it any more", async () => {
    assert.equal((await found({ sender: "liar", hash: lie, life: "earlier" }, honest))?.kind, "signed");
    assert.equal((await found({ sender: "former", hash: lie }, honest))?.kind, "signed");
  });

  it("tells whoever names a content that nobody signed", async () => {
    const unsigned = { kind: "unsigned", pnode: "q" };
    assert.deepEqual(await found({ sender: "liar", hash: lie, signature: "none" }, honest), unsigned);
  });
});
