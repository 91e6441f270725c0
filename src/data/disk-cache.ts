// Blobs kept on the disk of a machine that someone lends, within the limit its owner set. The least recently
// used go first. It is only a cache: whatever is lost or damaged is fetched again, so nothing here is an error.

import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Clock } from "../core/world.ts";

export interface DiskCacheOptions {
  readonly folder: string;
  readonly bytesMax: number;
  readonly clock: Pick<Clock, "wallMs">;
}

export interface DiskCache {
  /** Verified; undefined if it is not there or damaged. */
  get(hash: Sha256): Promise<Uint8Array | undefined>;
  put(hash: Sha256, content: Uint8Array): Promise<void>;
  readonly bytesHeld: number;
}

interface Entry {
  readonly bytes: number;
}

const namePattern = /^[0-9a-f]{64}$/;

export async function openDiskCache({ folder, bytesMax, clock }: DiskCacheOptions): Promise<DiskCache> {
  await mkdir(folder, { recursive: true });
  // A Map keeps insertion order: the least recently used is first.
  const entries = new Map<Sha256, Entry>(await readFolder(folder));
  let bytesHeld = 0;
  for (const { bytes } of entries.values()) bytesHeld += bytes;
  let unfinished = 0;
  /** Being written: on the disk already, wholly or in part. */
  let bytesComing = 0;
  const pathOf = (hash: Sha256) => join(folder, hash);

  async function drop(hash: Sha256): Promise<void> {
    const entry = entries.get(hash);
    if (!entry) return;
    entries.delete(hash);
    await rm(pathOf(hash), { force: true }).catch(() => {});
    bytesHeld -= entry.bytes;
  }

  async function makeRoom(): Promise<void> {
    for (const oldest of entries.keys()) {
      if (bytesHeld + bytesComing <= bytesMax) return;
      await drop(oldest);
    }
  }

  await makeRoom();
  return {
    async get(hash) {
      const entry = entries.get(hash);
      if (!entry) return undefined;
      const content = await readFile(pathOf(hash)).catch(() => undefined);
      if (!content || sha256(content) !== hash) {
        await drop(hash);
        return undefined;
      }
      if (entries.delete(hash)) entries.set(hash, entry);
      // The order survives a restart in the files' times.
      const seconds = clock.wallMs() / 1000;
      await utimes(pathOf(hash), seconds, seconds).catch(() => {});
      return content;
    },
    async put(hash, content) {
      // Others may be on their way: together they must fit, even with nothing else here.
      if (entries.has(hash) || bytesComing + content.byteLength > bytesMax) return;
      const temporary = join(folder, `unfinished-${unfinished++}`);
      bytesComing += content.byteLength;
      try {
        await makeRoom();
        await writeFile(temporary, content);
        await rename(temporary, pathOf(hash));
        if (entries.has(hash)) return;
        entries.set(hash, { bytes: content.byteLength });
        bytesHeld += content.byteLength;
      } catch {
        await rm(temporary, { force: true }).catch(() => {});
      } finally {
        bytesComing -= content.byteLength;
      }
    },
    get bytesHeld() {
      return bytesHeld;
    },
  };
}

/** What an earlier run left, the least recently used first. Files that are no blobs go: they would take room uncounted. */
async function readFolder(folder: string): Promise<[Sha256, Entry][]> {
  const found: { hash: Sha256; bytes: number; usedMs: number }[] = [];
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (!namePattern.test(name)) {
      await rm(path, { force: true }).catch(() => {});
      continue;
    }
    const file = await stat(path).catch(() => undefined);
    if (file?.isFile()) found.push({ hash: name as Sha256, bytes: file.size, usedMs: file.mtimeMs });
  }
  found.sort((a, b) => a.usedMs - b.usedMs);
  return found.map(({ hash, bytes }) => [hash, { bytes }]);
}
