import assert from "node:assert/strict";
import { test } from "node:test";
import { Bandwidth } from "../../core/bandwidth.ts";
import { digestHere, sha256 } from "../../core/hash.ts";
import { sleep, type World } from "../../core/world.ts";
import type { Network } from "../../protocol/network.ts";
import { CrewPeers } from "./peers.ts";

/** A blob on a line over which each of its pieces takes so long, by the test's clock. */
function stage(content: Uint8Array, pieceMs: number) {
  let nowMs = 0;
  const due: { atMs: number; callback: () => void }[] = [];
  const timers = {
    after: (ms: number, callback: () => void) => {
      const timer = { atMs: nowMs + ms, callback };
      due.push(timer);
      return () => void (due.includes(timer) && due.splice(due.indexOf(timer), 1));
    },
  };
  const world = { clock: { monotonicMs: () => nowMs, wallMs: () => nowMs }, timers } as unknown as World;
  const watch = async function* (
    _address: string,
    _method: object,
    _request: object,
    options: { signal: AbortSignal },
  ) {
    for await (const piece of peers.pieces(content, options.signal)) {
      await sleep(timers, pieceMs, options.signal);
      if (options.signal.aborted) throw new Error("given up");
      yield piece;
    }
  };
  const peers: CrewPeers = new CrewPeers({
    ...{ network: { watch } as unknown as Network, world, digest: digestHere, bandwidth: new Bandwidth(world, 0) },
    signal: new AbortController().signal,
  });
  const fetch = (isThere: () => boolean) => {
    const wanted = { session: "s", hash: sha256(content) };
    const signal = new AbortController().signal;
    return peers.fetch({ pnode: "p", routes: "p:1" }, wanted, (bytes) => new Uint8Array(bytes), isThere, signal);
  };
  /** Until nothing is due any more; the time that took. */
  const pass = async () => {
    for (;;) {
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      const next = due.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) return nowMs;
      due.splice(due.indexOf(next), 1);
      nowMs = next.atMs;
      next.callback();
    }
  };
  return { fetch, pass };
}

/** A part of a state as it is cut on real machines. */
const content = new Uint8Array(1 << 20).map((_, index) => index);

test("a blob over a slow line comes, however long it takes, as long as the peer is heard", async () => {
  const { fetch, pass } = stage(content, 20_000);
  const fetching = fetch(() => true);
  assert.ok((await pass()) > 200_000);
  assert.deepEqual(await fetching, content);
});

test("a peer that sends nothing is given up: at once where nobody hears of it, after half a minute else", async () => {
  for (const [isThere, afterMs] of [
    [false, 5_000],
    [true, 30_000],
  ] as const) {
    const { fetch, pass } = stage(content, 3_600_000);
    const failing = assert.rejects(fetch(() => isThere));
    assert.equal(await pass(), afterMs);
    await failing;
  }
});
