import assert from "node:assert/strict";
import { it } from "node:test";
import { SilentPeer } from "./silent-peer.ts";

function scene() {
  const time = { nowMs: 1_000 };
  const peer = new SilentPeer({ wallMs: () => 0, monotonicMs: () => time.nowMs });
  const pass = (ms: number) => {
    time.nowMs += ms;
  };
  return { peer, pass };
}

it("a peer fails from when a connection broke until it answers, as long as it is called", () => {
  const { peer, pass } = scene();
  peer.called();
  pass(3_000);
  assert.equal(peer.failingMs, 0, "it may take its time");
  peer.broke();
  pass(2_000);
  peer.called();
  pass(2_000);
  peer.broke();
  assert.equal(peer.failingMs, 4_000);
  peer.answered();
  assert.equal(peer.failingMs, 0);
});

it("a peer that nobody calls does not fail, and what was long ago does not count", () => {
  const { peer, pass } = scene();
  peer.called();
  peer.broke();
  pass(6_000);
  assert.equal(peer.failingMs, 0);
  peer.called();
  pass(1_000);
  assert.equal(peer.failingMs, 0);
});

it("a call that does not come to an end counts, also when the break that it follows came late", () => {
  const { peer, pass } = scene();
  peer.called();
  // The dead connection took what was sent; only a ping showed that it was dead.
  pass(10_000);
  peer.broke();
  peer.called();
  peer.waiting = true;
  pass(30_000);
  assert.equal(peer.failingMs, 30_000);
});
