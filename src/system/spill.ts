// The part of a lent disk where a PNode puts what does not fit into memory: messages that may be asked for again, and
// states on their way to the blob store.

import { mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../core/errors.ts";

/** Emptied at every start: what was spilled belongs to a process that is gone. */
export async function openSpill(directory: string) {
  const folder = join(directory, "spill");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const pathOf = (key: string) => join(folder, Buffer.from(key).toString("base64url").slice(0, 200));
  return {
    write: (key: string, content: Uint8Array): Promise<void> => writeFile(pathOf(key), content),
    read: async (key: string, room?: Uint8Array): Promise<Uint8Array> =>
      room === undefined ? readFile(pathOf(key)) : readInto(pathOf(key), room),
    remove: (key: string): Promise<void> => rm(pathOf(key), { force: true }),
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
