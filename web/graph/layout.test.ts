import assert from "node:assert/strict";
import { test } from "node:test";
import { inLanes } from "./lanes.ts";
import { curveOf, type LayoutEdge, layOut, pointOn, vnodeCard } from "./layout.ts";

const edge = (from: string, to: string, kind = "activation"): LayoutEdge => ({ id: `${from}-${to}`, from, to, kind });

test("every VNode stands right of those that feed it", () => {
  const edges = [edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d"), edge("a", "d")];
  const { positions, layers } = layOut(["a", "b", "c", "d"], edges);
  for (const { from, to } of edges) assert.ok(positions.get(to)!.x >= positions.get(from)!.x + vnodeCard.width);
  assert.deepEqual(Object.fromEntries(layers), { a: 0, b: 1, c: 1, d: 2 });
});

test("no two VNodes share a place, in a long chain with a tie back to its start", () => {
  const ids = Array.from({ length: 200 }, (_, index) => `v${index}`);
  const edges = ids.slice(1).map((id, index) => edge(ids[index]!, id));
  const { positions, width, height } = layOut(ids, [...edges, edge("v199", "v0", "tie")]);
  assert.equal(new Set(Array.from(positions.values(), ({ x, y }) => `${x},${y}`)).size, 200);
  assert.ok(width / height > 1.2 && width / height < 4, `a chain of 200 is folded: ${width} by ${height}`);
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

test("a curve begins and ends at its cards", () => {
  const curve = curveOf({ x: 0, y: 0 }, { x: 400, y: 90 });
  assert.deepEqual(pointOn(curve, 0), curve[0]);
  assert.deepEqual(pointOn(curve, 1), curve[3]);
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
  const { positions } = layOut(["a", "b", "c"], [edge("a", "b"), edge("a", "c")], card);
  assert.ok(positions.get("b")!.x >= 300);
  assert.ok(Math.abs(positions.get("b")!.y - positions.get("c")!.y) >= 120);
  assert.equal(curveOf({ x: 0, y: 0 }, { x: 400, y: 0 }, card)[0].x, 300);
});
