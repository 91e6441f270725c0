import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Meter } from "./meter.ts";

/** A way with a round trip and a rate: when the receipts of parcels come that are sent at given times. */
function overWay(roundTripMs: number, bytesPerMs: number, parcels: readonly { sentMs: number; bytes: number }[]) {
  const meter = new Meter();
  meter.pong(roundTripMs);
  let freeMs = 0;
  const events = parcels.flatMap(({ sentMs, bytes }, index) => {
    freeMs = Math.max(freeMs, sentMs) + bytes / bytesPerMs;
    const receiptMs = freeMs + roundTripMs;
    const id = BigInt(index);
    return [
      { atMs: sentMs, happen: () => meter.sent(id, bytes, sentMs) },
      { atMs: receiptMs, happen: () => meter.receipt(id, receiptMs) },
    ];
  });
  for (const { happen } of events.sort((a, b) => a.atMs - b.atMs)) happen();
  return meter;
}

const near = (value: number, expected: number) =>
  assert.ok(Math.abs(value / expected - 1) < 0.05, `${value} is about ${expected}`);

describe("the meter of a link", () => {
  it("tells the rate of a far and fast way from parcels that follow each other", () => {
    // 100 Mbit/s at 100 ms: the time to one receipt would read as 1.1 MB/s.
    const parcels = Array.from({ length: 40 }, () => ({ sentMs: 0, bytes: 128 << 10 }));
    near(overWay(100, 12_500, parcels).bytesPerSecond, 12_500_000);
  });

  it("takes no rate from parcels with gaps between them, whose receipts tell when they were made", () => {
    const parcels = Array.from({ length: 40 }, (_, index) => ({ sentMs: 130 * index, bytes: 128 << 10 }));
    assert.equal(overWay(100, 12_500, parcels).bytesPerSecond, 0);
  });

  it("tells the rate from one parcel alone if its bytes take longer than the way", () => {
    near(overWay(10, 1_000, [{ sentMs: 0, bytes: 1 << 20 }]).bytesPerSecond, 1_000_000);
  });

  it("takes the least of the last pings for the distance, and forgets old ones", () => {
    const meter = new Meter();
    for (const ping of [3, 50, 4, 60]) meter.pong(ping);
    assert.equal(meter.latencyMs, 3);
    for (let ping = 0; ping < 8; ping++) meter.pong(20 + ping);
    assert.equal(meter.latencyMs, 20);
  });

  it("knows what is on its way, and nothing after the stream broke", () => {
    const meter = new Meter();
    meter.sent(1n, 100, 0);
    meter.sent(2n, 10, 0);
    meter.receipt(1n, 5);
    assert.equal(meter.outstandingBytes, 10);
    meter.broke();
    assert.equal(meter.outstandingBytes, 0);
    meter.receipt(2n, 6);
    assert.equal(meter.outstandingBytes, 0);
  });
});
