import assert from "node:assert/strict";
import { test } from "node:test";
import { lineProbeBytesMax } from "../protocol/network.ts";
import { probeLine } from "./line-probe.ts";

/** A line with that way and rate; also says what was sent over it. */
function line(wayMs: number, bytesPerSecond: number) {
  let nowMs = 0;
  const sent: number[] = [];
  const call = async ({ padding = new Uint8Array() }: { padding?: Uint8Array }) => {
    sent.push(padding.byteLength);
    nowMs += wayMs + (padding.byteLength / bytesPerSecond) * 1_000;
    return {} as never;
  };
  return { call, sent, clock: { monotonicMs: () => nowMs, wallMs: () => nowMs } };
}

for (const { name, wayMs, bytesPerSecond } of [
  { name: "a home's", wayMs: 40, bytesPerSecond: 2_500_000 },
  { name: "a slow one far away", wayMs: 300, bytesPerSecond: 100_000 },
  { name: "a fast one", wayMs: 1, bytesPerSecond: 100e6 },
])
  test(`the rate of a line is found whatever its way: ${name}`, async () => {
    const { call, clock } = line(wayMs, bytesPerSecond);
    const found = await probeLine(call, clock);
    assert.ok(Math.abs(found / bytesPerSecond - 1) < 0.01, `${found}`);
  });

test("a slow line is measured by few bytes", async () => {
  const { call, clock, sent } = line(20, 50_000);
  await probeLine(call, clock);
  assert.ok(Math.max(...sent) <= 64 << 10);
});

test("no more is sent than orchestrators take", async () => {
  const { call, clock, sent } = line(500, 1e9);
  await probeLine(call, clock);
  assert.equal(Math.max(...sent), lineProbeBytesMax);
});

test("a line that nobody answers on has no rate", async () => {
  const call = () => Promise.reject(new Error("nothing got through"));
  await assert.rejects(probeLine(call, line(1, 1).clock), /nothing got through/);
});
