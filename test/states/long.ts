// `npm run states`: a state of 200 MB over 5 Mbit/s, killed in the middle, and one of 3 GiB stored and read back. Takes
// about seven minutes, 10 GB of disk and 4 GB of memory.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { statePartBytes as partBytes } from "../../src/core/blobs.ts";
import { boundsDefault } from "../../src/pnode/options.ts";
import { startState } from "./run.ts";
import { openStorekeeper } from "./storekeeper.ts";

const { copyBytesMax } = boundsDefault;
const mega = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const say = (line: string) => process.stdout.write(`${line}\n`);

async function slowLine(folder: string): Promise<void> {
  const bytes = 200_000_004;
  const keeper = await openStorekeeper(join(folder, "slow"), 5e6 / 8);
  const job = { address: keeper.address, origin: keeper.origin, bytes, partBytes, copyBytesMax };
  const first = startState({ ...job, directory: join(folder, "one") });
  while (keeper.sentBytes() < bytes / 2) await sleep(200);
  first.child.kill("SIGKILL");
  await first.result;
  const killedAt = keeper.sentBytes();
  const second = await startState({ ...job, directory: join(folder, "two") }).result;
  assert.ok(second && keeper.durable.get(7) === second.state);
  const twice = keeper.sentBytes() - bytes;
  say(
    `slow line: killed after ${mega(killedAt)}, durable after ${mega(keeper.sentBytes())} in all: ${mega(twice)} sent twice (a part is ${mega(partBytes)})`,
  );
  assert.ok(twice <= partBytes * 1.01);
  await keeper.close();
}

async function large(folder: string, gibibytes: number): Promise<void> {
  const bytes = gibibytes * 2 ** 30;
  const keeper = await openStorekeeper(join(folder, "large"), 0);
  const job = { address: keeper.address, origin: keeper.origin, bytes, partBytes, copyBytesMax };
  const stored = await startState({ ...job, directory: join(folder, "three") }).result;
  assert.ok(stored && keeper.durable.get(7) === stored.state);
  const read = await startState({ ...job, directory: join(folder, "four"), state: stored.state }).result;
  assert.deepEqual(read?.tensors, stored.tensors);
  for (const [what, result] of Object.entries({ stored, read })) {
    if (!result) continue;
    const { extraBytes, busyMs, blockedMs, tookMs } = result;
    say(
      `${gibibytes} GiB ${what} in ${(tookMs / 1000).toFixed(0)} s with ${mega(extraBytes)} beyond the state; at most ${busyMs.toFixed(0)} ms of work and ${blockedMs.toFixed(0)} ms of waiting in one turn of the thread`,
    );
    assert.ok(extraBytes < 256e6);
    assert.ok(busyMs < 50, "heartbeats, calls and streams wait for as long as that");
  }
  await keeper.close();
}

const folder = mkdtempSync(join(tmpdir(), "dcnr-states-"));
try {
  const which = process.argv[2] ?? "all";
  if (which !== "slow") await large(folder, Number(process.argv[3] ?? 3));
  if (which !== "large") await slowLine(folder);
} finally {
  rmSync(folder, { recursive: true });
}
