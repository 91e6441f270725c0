import assert from "node:assert/strict";
import { test } from "node:test";
import { colourOf, giveColours, slots } from "./colours.ts";

const text = (host: string) => {
  const { hue, tone } = colourOf(host);
  return `${hue} ${tone}`;
};
const hosts = Array.from({ length: slots }, (_, index) => `host-${String(index).padStart(2, "0")}`);

test("the first few hosts get colours that are far apart", () => {
  giveColours(hosts.slice(0, 4));
  const hues = hosts.slice(0, 4).map((host) => colourOf(host).hue);
  for (const [index, hue] of hues.entries())
    for (const other of hues.slice(index + 1)) {
      const apart = Math.abs(hue - other);
      assert.ok(Math.min(apart, 360 - apart) >= 60, `${hue} and ${other}`);
    }
});

test("as many hosts as there are colours all differ, keep theirs, and none is red", () => {
  giveColours(hosts);
  const before = hosts.map(text);
  assert.equal(new Set(before).size, slots);
  giveColours(["another", ...hosts]);
  assert.deepEqual(hosts.map(text), before);
  for (const host of [...hosts, "another"]) assert.ok(colourOf(host).hue > 60 && colourOf(host).hue < 350);
});
