import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { agrees, areSame, blamed, distanceOf, type Repeated, type Ring, type RowsTold, verdictOf } from "./judging.ts";

const [a, b, c] = ["a", "b", "c"] as PNodeId[] as [PNodeId, PNodeId, PNodeId];
const edge = (id: string, from: string, to: string) => ({ id, from, to }) as never;

/** first (on a) → middle (on b) → head (on c). */
const ring: Ring = {
  ...{ head: "head", needed: new Set(["first", "middle", "head"]), order: ["first", "middle", "head"] },
  onward: [edge("f>m", "first", "middle"), edge("m>h", "middle", "head")],
  takesInputs: ["first"],
  owners: new Map([
    ["first", { pnode: a, epoch: 1 }],
    ["middle", { pnode: b, epoch: 1 }],
    ["head", { pnode: c, epoch: 1 }],
  ]),
};
const answered = { answer: [5, 6], finish: "length" };
const truth: Repeated = {
  ...{ tokens: [5, 6], ends: true, sample: [1, 2, 3] },
  roots: { inputs: "i", "f>m": "1", "m>h": "2", logits: "l" },
};
const row = (edge: string, sent: boolean, root: string): RowsTold => ({ edge, sent, root });
const honest = new Map<PNodeId, RowsTold[]>([
  [a, [row("inputs", false, "i"), row("f>m", true, "1")]],
  [b, [row("f>m", false, "1"), row("m>h", true, "2")]],
  [c, [row("inputs", true, "i"), row("m>h", false, "2"), row("logits", true, "l")]],
]);
const told = (...changes: [PNodeId, RowsTold[]][]) => new Map([...honest, ...changes]);

describe("an answer that was repeated", () => {
  it("is right if its tokens and all that passed on the way are", () => {
    assert.ok(agrees(answered, honest, truth));
    assert.ok(!agrees({ ...answered, answer: [5, 7] }, honest, truth));
    assert.ok(!agrees(answered, told([b, [row("m>h", true, "other")]]), truth), "right by chance is not right");
  });

  it("is not found right by somebody who only says so", () => {
    const lazy = { ...truth, roots: { inputs: "i", "f>m": "made up", "m>h": "made up", logits: "made up" } };
    assert.ok(!agrees(answered, honest, lazy));
    assert.ok(!areSame(lazy, truth));
  });

  it("names the first machine that sent something else than follows from what came in", () => {
    const middle = told(
      [b, [row("f>m", false, "1"), row("m>h", true, "x")]],
      [c, [row("inputs", true, "i"), row("m>h", false, "x"), row("logits", true, "y")]],
    );
    assert.deepEqual(kindOf(blamed(ring, answered, middle, truth)), ["machine", b]);
    const first = told([a, [row("inputs", false, "i"), row("f>m", true, "x")]], [b, [row("f>m", false, "x")]]);
    assert.deepEqual(kindOf(blamed(ring, answered, first, truth)), ["machine", a]);
  });

  it("names the head if it chose something else, or from something else", () => {
    const wrong = { ...answered, answer: [5, 7] };
    assert.deepEqual(kindOf(blamed(ring, wrong, honest, truth)), ["machine", c]);
    const logits = told([c, [row("m>h", false, "2"), row("logits", true, "x")]]);
    assert.deepEqual(kindOf(blamed(ring, answered, logits, truth)), ["machine", c]);
    const tokens = told([c, [row("inputs", true, "x")]], [a, [row("inputs", false, "x")]]);
    assert.deepEqual(
      kindOf(blamed(ring, wrong, tokens, truth)),
      ["machine", c],
      "told one thing and passed on another",
    );
  });

  it("names two machines where one of them does not tell the truth about what passed between them", () => {
    const seam = told([c, [row("inputs", true, "i"), row("m>h", false, "x"), row("logits", true, "y")]]);
    assert.deepEqual(kindOf(blamed(ring, answered, seam, truth)), ["seam", b, c]);
  });

  it("names nobody where the head no longer knows what came in", () => {
    const wrong = { ...answered, answer: [5, 7] };
    assert.deepEqual(kindOf(blamed(ring, wrong, new Map(), truth)), ["nobody"]);
    const half = told([c, [row("inputs", true, "i"), row("logits", true, "x")]]);
    assert.deepEqual(kindOf(blamed(ring, wrong, half, truth)), ["nobody"], "nor what its logits should be");
    const alone = { ...ring, owners: new Map(ring.order.map((vnode) => [vnode, { pnode: a, epoch: 1 }])) };
    assert.deepEqual(kindOf(blamed(alone, wrong, new Map(), truth)), ["machine", a], "one machine did it all");
  });

  it("tells a rounding from a lie by its size, and neither from a machine that errs once", () => {
    const own = (sample: number[]): Repeated => ({ ...truth, roots: { ...truth.roots, logits: "own" }, sample });
    assert.equal(verdictOf(truth, truth), "answer");
    assert.equal(verdictOf(truth, own([1, 2, 3.0001])), "class");
    assert.equal(verdictOf(truth, own([-1, -2, -3])), "lie");
    assert.equal(verdictOf(truth, own([1, 2, 3])), "answer", "no difference was measured");
    assert.equal(distanceOf(own([1]), truth), undefined);
  });
});

function kindOf(blame: ReturnType<typeof blamed>): string[] {
  if (blame.kind === "machine") return [blame.kind, blame.pnode];
  return blame.kind === "seam" ? [blame.kind, ...blame.pnodes] : [blame.kind];
}
