import assert from "node:assert/strict";
import { test } from "node:test";
import { LaneMeans } from "./lane-means.ts";

const loss = (vnode: string, step: number, value: number) => ({ name: "loss", vnode, step, value });

test("a step has a loss once all lanes have told theirs: their mean, whoever was first", () => {
  const means = new LaneMeans(() => 3);
  assert.equal(means.add(loss("head#2", 1, 6)), undefined);
  assert.equal(means.add(loss("head", 2, 9)), undefined);
  assert.equal(means.add(loss("head", 1, 1)), undefined);
  assert.deepEqual(means.add(loss("head#1", 1, 2)), loss("head", 1, 3));
});

test("the order of arrival changes no bit of a mean", () => {
  const values: [string, number][] = [
    ["head", 0.1],
    ["head#1", 1e9],
    ["head#2", -1e9],
    ["head#10", 0.3],
  ];
  const meanOf = (order: readonly [string, number][]) => {
    const means = new LaneMeans(() => 4);
    return order.map(([vnode, value]) => means.add(loss(vnode, 1, value))).at(-1)?.value;
  };
  assert.equal(meanOf(values.toReversed()), meanOf(values));
});

test("what has one lane, or belongs to no VNode, is shown as it is", () => {
  const rate = { name: "samples_per_second", vnode: "", step: 1, value: 7 };
  assert.deepEqual(new LaneMeans(() => 1).add(loss("head", 1, 5)), loss("head", 1, 5));
  assert.deepEqual(new LaneMeans(() => 4).add(rate), rate);
});
