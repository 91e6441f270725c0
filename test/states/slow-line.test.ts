// Storing a state over a slow line, killed in the middle: the short form of `npm run states`.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startState } from "./run.ts";
import { openStorekeeper } from "./storekeeper.ts";

const partBytes = 96 << 10;
const bytes = 6 * partBytes;
/** Framing, and what was in the system's buffers when the process was killed. */
const slackBytes = 16 << 10;

test("a state that is killed half-way over a slow line goes on, with at most one part sent again", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-states-"));
  // A part takes longer than what counts as quick, so that one moves at a time.
  const keeper = await openStorekeeper(join(folder, "blobs"), partBytes / 3.3);
  const job = { address: keeper.address, origin: keeper.origin, bytes, partBytes, copyBytesMax: 0 };
  try {
    const first = startState({ ...job, directory: join(folder, "one") });
    while (keeper.sentBytes() < 2.5 * partBytes) await sleep(50);
    first.child.kill("SIGKILL");
    assert.equal(await first.result, undefined);
    assert.equal(keeper.durable.size, 0);
    const second = await startState({ ...job, directory: join(folder, "two") }).result;
    assert.ok(second);
    assert.equal(keeper.durable.get(7), second.state);
    assert.ok(
      keeper.sentBytes() <= bytes + partBytes + slackBytes,
      `${keeper.sentBytes()} bytes were sent for a state of ${bytes}`,
    );
    const again = await startState({ ...job, directory: join(folder, "three"), state: second.state }).result;
    assert.deepEqual(again?.tensors, second.tensors);
  } finally {
    await keeper.close();
    rmSync(folder, { recursive: true });
  }
});
