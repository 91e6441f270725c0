import assert from "node:assert/strict";
import { test } from "node:test";
import { courseOf, pathOf, pointOn } from "./course.ts";
import { inLanes } from "./lanes.ts";
import { type LayoutEdge, layOut as layOutIn, type Space, vnodeCard, zoomIn } from "./layout.ts";

const edge = (from: string, to: string, kind = "activation"): LayoutEdge => ({ id: `${from}-${to}`, from, to, kind });
const chain = (ids: readonly string[]) => ids.slice(1).map((id, index) => edge(ids[index]!, id));
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `v${index}`);
const laptop: Space = { width: 868, height: 207, narrow: false };
const phone: Space = { width: 304, height: 522, narrow: true };
const layOut = (ids: readonly string[], edges: readonly LayoutEdge[], card = vnodeCard, space = laptop) =>
  layOutIn(ids, edges, card, space);

test("every VNode stands right of those that feed it", () => {
  const edges = [edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d"), edge("a", "d")];
  const { positions, layers } = layOut(["a", "b", "c", "d"], edges);
  for (const { from, to } of edges) assert.ok(positions.get(to)!.x >= positions.get(from)!.x + vnodeCard.width);
  assert.deepEqual(Object.fromEntries(layers), { a: 0, b: 1, c: 1, d: 2 });
});

test("no two VNodes share a place, in a long chain with a tie back to its start", () => {
  const ids = numbered(200);
  const { positions, width, height } = layOut(ids, [...chain(ids), edge("v199", "v0", "tie")]);
  assert.equal(new Set(Array.from(positions.values(), ({ x, y }) => `${x},${y}`)).size, 200);
  const wideness = (width / height) * (laptop.height / laptop.width);
  assert.ok(wideness > 0.6 && wideness < 1.7, `a chain of 200 is folded: ${width} by ${height}`);
});

test("a cycle or an edge to nowhere still gives every VNode a place", () => {
  const { positions } = layOut(["a", "b"], [edge("a", "b"), edge("b", "a"), edge("a", "gone")]);
  assert.equal(positions.size, 2);
});

test("crossing edges are put in order", () => {
  const edges = [edge("a", "y"), edge("b", "x")];
  const { positions } = layOut(["a", "b", "x", "y"], edges);
  assert.equal(positions.get("a")!.y < positions.get("b")!.y, positions.get("y")!.y < positions.get("x")!.y);
});

test("one row while it can be read, further bands where it could not", () => {
  const rows = (count: number, space: Space) => {
    const ids = numbered(count);
    return new Set(Array.from(layOut(ids, chain(ids), vnodeCard, space).positions.values(), ({ y }) => y)).size;
  };
  assert.deepEqual(
    [1, 2, 5, 8].map((count) => rows(count, laptop)),
    [1, 1, 1, 2],
  );
  assert.deepEqual(
    [1, 2, 5, 8].map((count) => rows(count, phone)),
    [1, 1, 3, 4],
  );
});

test("on a phone, what is written on cards can be read: 5 VNodes, and the 8 groups of a network of 140", () => {
  for (const [count, card] of [
    [5, vnodeCard],
    [8, { width: 168, height: 110 }],
  ] as const) {
    const ids = numbered(count);
    const zoom = zoomIn(phone, layOut(ids, chain(ids), card, phone));
    assert.ok(zoom > 0.75, `${count} cards are shown at ${zoom.toFixed(2)} of their size`);
  }
});

test("a way begins and ends at its cards, forth, back and to another band", () => {
  const ids = numbered(8);
  const layout = layOut(ids, chain(ids));
  for (const [from, to] of [
    ["v0", "v1"],
    ["v0", "v2"],
    ["v3", "v4"],
    ["v2", "v1"],
    ["v7", "v0"],
  ] as const) {
    const course = courseOf(layout, from, to)!;
    const [start, end] = [layout.positions.get(from)!, layout.positions.get(to)!];
    const middle = vnodeCard.height / 2;
    assert.deepEqual(pointOn(course, 0), { x: start.x + vnodeCard.width, y: start.y + middle });
    assert.deepEqual(pointOn(course, 1), { x: end.x, y: end.y + middle });
    assert.match(pathOf(course), /^M[\d. -]+(C[\d. -]+)+$/);
  }
  assert.equal(courseOf(layout, "v0", "gone"), undefined);
});

test("what goes on in the next band passes between the bands, behind no card", () => {
  const ids = numbered(8);
  const layout = layOut(ids, chain(ids));
  const course = courseOf(layout, "v3", "v4")!;
  const inside = ({ x, y }: { x: number; y: number }) =>
    Array.from(layout.positions.values()).some(
      (at) => x > at.x && x < at.x + vnodeCard.width && y > at.y && y < at.y + vnodeCard.height,
    );
  for (let t = 0.01; t < 1; t += 0.01) assert.ok(!inside(pointOn(course, t)), `at ${t.toFixed(2)}`);
});

test("lanes stand below each other, each in a row of its own, under the names that their VNodes have", () => {
  const plain = { vnodes: ["a", "b", "c"].map((id) => ({ id })), edges: [edge("a", "b"), edge("b", "c")] };
  const { vnodes, edges } = inLanes(plain as unknown as Parameters<typeof inLanes>[0], 3);
  const ids = vnodes.map(({ id }) => id);
  assert.deepEqual(ids, ["a", "b", "c", "a#1", "b#1", "c#1", "a#2", "b#2", "c#2"]);
  const { positions } = layOut(ids, edges as unknown as LayoutEdge[]);
  for (const mark of ["", "#1", "#2"])
    assert.equal(new Set(["a", "b", "c"].map((id) => positions.get(`${id}${mark}`)!.y)).size, 1, mark);
  assert.equal(new Set(["a", "a#1", "a#2"].map((id) => positions.get(id)!.y)).size, 3);
});

test("larger cards stand as far apart as they are large", () => {
  const card = { width: 300, height: 120 };
  const layout = layOut(["a", "b", "c"], [edge("a", "b"), edge("a", "c")], card);
  const { positions } = layout;
  assert.ok(positions.get("b")!.x >= 300);
  assert.ok(Math.abs(positions.get("b")!.y - positions.get("c")!.y) >= 120);
  assert.equal(pointOn(courseOf(layout, "a", "b")!, 0).x, 300);
});
