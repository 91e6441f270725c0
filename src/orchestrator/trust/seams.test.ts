import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { silentRoot } from "../../trust/silent.ts";
import type { Statement } from "../../trust/statement.ts";
import type { AuditRecord, IntervalRecord, Stated } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { statedTogether, stuckInterval } from "./intervals.ts";
import { countedAt, soundUpTo, uncountedAt } from "./seams.ts";

const [a, b] = ["a", "b"] as VNodeId[] as [VNodeId, VNodeId];
const edges = [{ id: "a>b", from: a, to: b, kind: "activation", gradient: false }];

/** Owners of both VNodes, and what each of them states of steps 0 to 2: a state, and what passed between the two. */
function scene(
  replicas: number,
  owners: Readonly<Record<string, Readonly<Record<string, string | undefined>>>>,
  received = "root",
) {
  const session = {
    ...{ vnodes: [a, b], line: 0, turn: 0, identity: { steps: 10 } },
    policy: { checkpointEvery: 2, replicas },
  } as unknown as SessionRecord;
  const records = new Map(
    [a, b].map((vnode) => {
      const stated = Object.entries(owners[vnode] ?? {}).flatMap(([pnode, after]): Stated[] =>
        after === undefined
          ? []
          : [
              {
                pnode: pnode as PNodeId,
                turn: 0,
                statement: {
                  after,
                  outputs: "o",
                  edges: { "f/a>b": vnode === a ? "root" : received },
                } as unknown as Statement,
              },
            ],
      );
      const members = Object.keys(owners[vnode] ?? {}).map((pnode) => ({ pnode }));
      return [vnode, { vnode, members, statements: { "2": stated } } as unknown as VNodeRecord] as const;
    }),
  );
  return soundUpTo(session, records, edges, 2);
}

/** Whose statements are to be repeated, by VNode. */
function doubtfulIn({ trouble }: ReturnType<typeof soundUpTo>) {
  assert.ok(trouble !== undefined && trouble.kind !== "parted");
  return Object.fromEntries(Array.from(trouble.doubtful, ([vnode, all]) => [vnode, all.map(({ pnode }) => pnode)]));
}

describe("the line", () => {
  it("passes what one owner of each VNode states", () => {
    assert.deepEqual(scene(1, { a: { p: "x" }, b: { q: "y" } }).intervals, [{ from: 0, to: 2 }]);
    assert.deepEqual(scene(1, { a: { p: "x" }, b: { q: undefined } }), { intervals: [] });
  });

  it("waits for all who own a VNode, where several do: the first never wins", () => {
    const early = scene(2, { a: { liar: "lie", p: undefined }, b: { q: "y", r: "y" } });
    assert.deepEqual(early, { intervals: [] });
    const apart = scene(2, { a: { liar: undefined, p: "x" }, b: { q: "y", r: "y" } }, "what the liar sent");
    assert.deepEqual(apart, { intervals: [] }, "whose fault it is says the one who is late");
    assert.equal(scene(1, { a: { p: "x" }, b: { q: "y" } }, "something else").trouble?.kind, "seam");
    const late = scene(2, { a: { liar: "lie", p: "x" }, b: { q: "y", r: "y" } });
    assert.equal(late.trouble?.kind, "disagreement");
    assert.deepEqual(doubtfulIn(late), { a: ["liar", "p"] });
    assert.equal(scene(2, { a: { o: "x", p: "x" }, b: { q: "y", r: "y" } }).intervals.length, 1);
    assert.equal(scene(2, { a: { p: "x" }, b: { q: "y", r: "y" } }).intervals.length, 1, "of those who are left");
  });
});

describe("owners of a VNode that were sent different things", () => {
  const both = [{ id: "a>b", from: a, to: b, kind: "activation", gradient: true }];
  type Said = readonly [pnode: string, forward: string, backward: string, after?: string];
  const session = {
    ...{ id: "s", vnodes: [a, b], line: 0, turn: 0, identity: { steps: 10 } },
    policy: { checkpointEvery: 2, replicas: 2 },
  } as unknown as SessionRecord;

  function recordsOf(said: { readonly a: readonly Said[]; readonly b: readonly Said[] }) {
    return new Map(
      [a, b].map((vnode) => {
        const statements = said[vnode as "a" | "b"].map(([pnode, forward, backward, after = "x"]) => ({
          ...{ pnode, turn: 0 },
          statement: { vnode, after, outputs: after, before: "", edges: { "f/a>b": forward, "b/a>b": backward } },
        }));
        const members = statements.map(({ pnode }) => ({ pnode }));
        return [vnode, { vnode, members, statements: { "2": statements } } as unknown as VNodeRecord] as const;
      }),
    );
  }

  /** The liar states the same as p and sends q something else; what q answers makes a's owners differ, too. */
  const deceived = recordsOf({
    a: [
      ["liar", "true", "mixed", "what follows from it"],
      ["p", "true", "right"],
    ],
    b: [
      ["r", "true", "right"],
      ["q", "a lie", "mixed", "what follows from the lie"],
    ],
  });

  it("do not contradict each other: in doubt is the seam at which somebody took what nobody states", () => {
    const sound = soundUpTo(session, deceived, both, 2);
    assert.deepEqual(sound.intervals, []);
    assert.ok(sound.trouble?.kind === "seam");
    const { edge, sender, receiver } = sound.trouble;
    assert.deepEqual({ edge, sender, receiver }, { edge: "f/a>b", sender: a, receiver: b });
    assert.deepEqual(doubtfulIn(sound), { a: ["liar"], b: ["q"] });
  });

  it("are not measured by each other's, and may confirm what comes out", () => {
    const { trouble } = soundUpTo(session, deceived, both, 2);
    assert.ok(trouble !== undefined && trouble.kind !== "parted");
    const { audits } = stuckInterval(session, countedAt(session, deceived, both, 2), trouble, 0);
    const shown = (vnode: string) => audits[vnode]?.stated.map(({ pnode, apart }) => [pnode, apart === true]);
    assert.deepEqual(Object.keys(audits), ["a", "b"], "the sender first");
    assert.deepEqual(shown(b), [
      ["q", false],
      ["r", true],
    ]);
    assert.deepEqual(
      statedTogether({ audits } as unknown as IntervalRecord, audits[b] as AuditRecord).map(({ pnode }) => pnode),
      ["q"],
      "what was sent to the others is not waited for",
    );
  });

  it("are asked after those that were sent the same and differ", () => {
    const liar = recordsOf({
      a: [
        ["p", "one", "y"],
        ["liar", "two", "y", "lie"],
      ],
      b: [
        ["q", "one", "y"],
        ["r", "two", "y", "z"],
      ],
    });
    assert.deepEqual(doubtfulIn(soundUpTo(session, liar, both, 2)), { a: ["p", "liar"] });
  });

  it("still hold the line up where all of it is stated by somebody", () => {
    const apart = recordsOf({
      a: [
        ["p", "one", "1"],
        ["liar", "two", "2", "lie"],
      ],
      b: [
        ["q", "one", "1"],
        ["r", "two", "2", "z"],
      ],
    });
    const sound = soundUpTo(session, apart, both, 2);
    assert.deepEqual([sound.intervals, doubtfulIn(sound)], [[], { a: ["p"] }]);
  });
});

describe("VNodes that share weights on one machine", () => {
  const tie = [{ id: "a=b", from: a, to: b, kind: "tie", gradient: true }];
  const session = {
    ...{ vnodes: [a, b], line: 0, turn: 0, identity: { steps: 10 } },
    policy: { checkpointEvery: 2, replicas: 1 },
  } as unknown as SessionRecord;
  type Said = readonly [pnode: string, root: string, after?: string];

  function recordsOf(said: { readonly a: readonly Said[]; readonly b: readonly Said[] }) {
    return new Map(
      [a, b].map((vnode) => {
        const statements = (vnode === a ? said.a : said.b).map(([pnode, root, after = "x"]) => ({
          ...{ pnode, turn: 0 },
          statement: {
            after,
            outputs: "o",
            before: `${vnode} before`,
            inputs: `${vnode} in`,
            edges: { "f/a=b": root, "b/a=b": root },
          },
        }));
        return [vnode, { vnode, members: [], statements: { "2": statements } } as unknown as VNodeRecord] as const;
      }),
    );
  }
  const kindOf = (said: Parameters<typeof recordsOf>[0]) => soundUpTo(session, recordsOf(said), tie, 2).trouble?.kind;

  it("state nothing of what passes between them, and each names what the others began with", () => {
    const records = recordsOf({ a: [["p", silentRoot]], b: [["p", silentRoot]] });
    assert.equal(soundUpTo(session, records, tie, 2).intervals.length, 1);
    const beside = countedAt(session, records, tie, 2).get(a)?.[0]?.beside;
    assert.deepEqual(beside, [{ vnode: b, before: "b before", inputs: "b in" }]);
    assert.equal(
      countedAt(session, recordsOf({ a: [["p", "r"]], b: [["q", "r"]] }), tie, 2).get(a)?.[0]?.beside,
      undefined,
    );
  });

  it("count only together: whoever was parted computes again, and nobody is blamed", () => {
    assert.equal(kindOf({ a: [["p", silentRoot]], b: [["q", "r"]] }), "parted");
    assert.equal(kindOf({ a: [["p", silentRoot]], b: [["q", silentRoot]] }), "parted", "of two machines");
    assert.equal(
      kindOf({
        a: [
          ["p", silentRoot],
          ["q", "r"],
        ],
        b: [["q", "r"]],
      }),
      "parted",
      "moved apart",
    );
    assert.equal(
      kindOf({
        a: [
          ["p", silentRoot, "y"],
          ["q", silentRoot],
        ],
        b: [["q", silentRoot]],
      }),
      "parted",
    );
  });

  it("that never stand together are stated in vain by whoever leaves out what passed, and by nobody else", () => {
    const liar = recordsOf({ a: [["honest", "r"]], b: [["liar", silentRoot]] });
    assert.deepEqual(uncountedAt(session, liar, tie, 2), [{ pnode: "liar", vnode: b }]);
    const together = recordsOf({ a: [["p", silentRoot]], b: [["p", silentRoot]] });
    assert.deepEqual(uncountedAt(session, together, tie, 2), []);
  });

  it("that moved together are as good as before, also if one of them had stated something elsewhere", () => {
    const records = recordsOf({
      a: [
        ["p", silentRoot],
        ["q", silentRoot],
      ],
      b: [["q", silentRoot]],
    });
    assert.equal(soundUpTo(session, records, tie, 2).intervals.length, 1);
    assert.deepEqual(
      countedAt(session, records, tie, 2)
        .get(a)
        ?.map(({ pnode }) => pnode),
      ["q"],
    );
  });

  it("contradict each other as others do", () => {
    assert.equal(kindOf({ a: [["p", "r"]], b: [["q", "other"]] }), "seam");
    const both: Said[] = [
      ["p", silentRoot, "y"],
      ["q", silentRoot],
    ];
    assert.equal(
      kindOf({
        a: both,
        b: [
          ["p", silentRoot],
          ["q", silentRoot],
        ],
      }),
      "disagreement",
    );
  });
});
