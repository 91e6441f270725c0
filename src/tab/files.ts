// A browser's private disk (OPFS) as what a PNode needs of one: a place for what does not fit into memory, and a cache of
// shards. Whole files by handles that workers alone have; more than was lent is refused or makes room.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { BlobCache, SpillStorage } from "../pnode/options.ts";

/** What workers alone have, and the types of pages therefore do not. */
interface SyncFile extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<{
    truncate(bytes: number): void;
    write(content: Uint8Array): number;
    read(into: Uint8Array): number;
    getSize(): number;
    close(): void;
  }>;
}

/** A folder of this page's origin; undefined where the browser gives none, as in private windows of some. */
export async function openFolder(name: string): Promise<FileSystemDirectoryHandle | undefined> {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(name, { create: true });
  } catch {
    return undefined;
  }
}

function isShared({ buffer }: Uint8Array): boolean {
  return buffer instanceof SharedArrayBuffer;
}

async function writeFile(folder: FileSystemDirectoryHandle, name: string, content: Uint8Array): Promise<void> {
  const file = (await folder.getFileHandle(name, { create: true })) as SyncFile;
  const handle = await file.createSyncAccessHandle();
  try {
    handle.truncate(0);
    // Not every browser takes shared memory here.
    if (handle.write(isShared(content) ? new Uint8Array(content) : content) !== content.byteLength)
      fail("resource_exhausted", "the browser's disk is full");
  } finally {
    handle.close();
  }
}

async function readFile(folder: FileSystemDirectoryHandle, name: string, room?: Uint8Array): Promise<Uint8Array> {
  const file = (await folder.getFileHandle(name)) as SyncFile;
  const handle = await file.createSyncAccessHandle();
  try {
    const content = room ?? new Uint8Array(handle.getSize());
    const into = isShared(content) ? new Uint8Array(content.byteLength) : content;
    if (handle.read(into) !== content.byteLength)
      fail("data_loss", "a file of the browser is shorter than what was written to it");
    if (into !== content) content.set(into);
    return content;
  } finally {
    handle.close();
  }
}

async function empty(folder: FileSystemDirectoryHandle): Promise<void> {
  const names: string[] = [];
  for await (const name of folder.keys()) names.push(name);
  for (const name of names) await folder.removeEntry(name, { recursive: true }).catch(() => {});
}

/**
 * Emptied at the start: what was spilled belongs to a page that is gone. Each tab has a folder of its own, held by a lock of
 * its name, so that no tab empties another's.
 */
export async function openTabSpill(bytesMax: number): Promise<SpillStorage | undefined> {
  const all = await openFolder("spill");
  if (all === undefined) return undefined;
  const folder = await all.getDirectoryHandle(await ownFolder(all), { create: true });
  const held = new Map<string, number>();
  let bytesHeld = 0;
  const count = (key: string, bytes: number) => {
    bytesHeld += bytes - (held.get(key) ?? 0);
    if (bytes === 0) held.delete(key);
    else held.set(key, bytes);
  };
  const remove = async (key: string) => {
    await folder.removeEntry(sha256(key)).catch(() => {});
    count(key, 0);
  };
  return {
    async write(key, content) {
      if (bytesHeld + content.byteLength - (held.get(key) ?? 0) > bytesMax)
        fail("resource_exhausted", `the ${bytesMax} bytes of disk that are lent are full`);
      count(key, content.byteLength);
      try {
        await writeFile(folder, sha256(key), content);
      } catch (error) {
        await remove(key);
        throw error;
      }
    },
    read: (key, room) => readFile(folder, sha256(key), room),
    remove,
  };
}

/** The name of a folder that is this tab's for as long as it lives; folders of tabs that are gone are removed. */
async function ownFolder(all: FileSystemDirectoryHandle): Promise<string> {
  const name = crypto.randomUUID();
  await new Promise<void>((resolve) => {
    void navigator.locks.request(`dcnr spill ${name}`, () => {
      resolve();
      return new Promise(() => {});
    });
  });
  const names: string[] = [];
  for await (const each of all.keys()) names.push(each);
  for (const each of names)
    await navigator.locks.request(`dcnr spill ${each}`, { ifAvailable: true }, async (lock) => {
      if (lock !== null) await all.removeEntry(each, { recursive: true }).catch(() => {});
    });
  return name;
}

/** Shards by their hashes, the same for all tabs of the origin. When it is full, all of it makes room. */
export async function openTabCache(bytesMax: number): Promise<BlobCache | undefined> {
  const folder = await openFolder("shards");
  if (folder === undefined) return undefined;
  let bytesHeld = 0;
  for await (const [, entry] of folder.entries())
    if (entry.kind === "file") bytesHeld += (await (entry as FileSystemFileHandle).getFile()).size;
  return {
    // Another tab may be writing it: then it is fetched, and what was read is checked by its hash in any case.
    get: async (hash: Sha256) => readFile(folder, hash).catch(() => undefined),
    async put(hash, content) {
      if (content.byteLength > bytesMax) return;
      if (bytesHeld + content.byteLength > bytesMax) {
        await empty(folder);
        bytesHeld = 0;
      }
      bytesHeld += content.byteLength;
      // A cache that cannot keep something is slower, not wrong.
      await writeFile(folder, hash, content).catch(() => {});
    },
  };
}
