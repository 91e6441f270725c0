import assert from "node:assert/strict";
import { test } from "node:test";
import { colourOf, giveColours, slots } from "./colours.ts";

const text = (host: string) => {
  const { hue, tone } = colourOf(host);
  return `${hue} ${tone}`;
};

test("as many hosts as there are colours all differ, keep theirs, and none is red", () => {
  const hosts = Array.from({ length: slots }, (_, index) => `host-${index}`);
  giveColours(hosts);
  const before = hosts.map(text);
  assert.equal(new Set(before).size, slots);
  giveColours(["another", ...hosts]);
  assert.deepEqual(hosts.map(text), before);
  for (const host of hosts) assert.ok(colourOf(host).hue > 60 && colourOf(host).hue < 350);
  assert.equal(text("another"), text("another"));
});
