// The part of a lent disk where a PNode puts what does not fit into memory: messages that may be asked for again, and
// states on their way to the blob store. What is being written counts from its beginning, so that the disk never holds
// more than its owner lends.

import { mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";

/** Emptied at every start: what was spilled belongs to a process that is gone. */
export async function openSpill(directory: string, bytesMax = Number.POSITIVE_INFINITY) {
  const folder = join(directory, "spill");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const held = new Map<string, number>();
  let bytesHeld = 0;
  const pathOf = (key: string) => join(folder, sha256(key));
  const count = (key: string, bytes: number) => {
    bytesHeld += bytes - (held.get(key) ?? 0);
    if (bytes === 0) held.delete(key);
    else held.set(key, bytes);
  };
  const remove = async (key: string): Promise<void> => {
    await rm(pathOf(key), { force: true });
    count(key, 0);
  };
  return {
    get bytesHeld(): number {
      return bytesHeld;
    },
    async write(key: string, content: Uint8Array): Promise<void> {
      const more = content.byteLength - (held.get(key) ?? 0);
      if (bytesHeld + more > bytesMax)
        fail("resource_exhausted", `the disk that is lent is full: ${bytesMax} bytes are for what memory cannot hold`);
      count(key, content.byteLength);
      try {
        await writeFile(pathOf(key), content);
      } catch (error) {
        // Half of it may be there.
        await remove(key).catch(() => {});
        throw error;
      }
    },
    read: async (key: string, room?: Uint8Array): Promise<Uint8Array> =>
      room === undefined ? readFile(pathOf(key)) : readInto(pathOf(key), room),
    remove,
  };
}

async function readInto(path: string, room: Uint8Array): Promise<Uint8Array> {
  const file = await open(path);
  try {
    for (let at = 0; at < room.byteLength; ) {
      const { bytesRead } = await file.read(room, at, room.byteLength - at, at);
      if (bytesRead === 0) fail("data_loss", `${path} is shorter than what was written to it`);
      at += bytesRead;
    }
    return room;
  } finally {
    await file.close();
  }
}
