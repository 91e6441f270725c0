// Blobs as files of one directory, which may be shared by orchestrators on one machine or a network disk. A blob
// appears under its name only when it is whole, flushed and verified; what a crash leaves behind is swept at open.

import { createHash } from "node:crypto";
import { type FileHandle, link, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { BlobSpaceName } from "../../core/blobs.ts";
import { DcnrError, fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { Chance, World } from "../../core/world.ts";
import {
  checkBlobBytes,
  checkRange,
  damagedUpload,
  exactly,
  missingBlob,
  pieceBytes,
  verified,
} from "./blob-checks.ts";
import {
  type BlobAction,
  type BlobGrant,
  type BlobRange,
  type BlobSpace,
  type BlobStore,
  type StoredBlob,
  spacesOf,
} from "./blob-store.ts";
import { BlobTokens } from "./blob-tokens.ts";

export interface DirectoryBlobOptions {
  readonly path: string;
  readonly world: Pick<World, "clock" | "chance">;
  /** "http://host:port" of this orchestrator, as PNodes reach it; asked at each grant, since ports are bound late. */
  readonly baseUrl: () => string;
}

/** An upload that is still unfinished after this time belongs to a process that is gone. */
const abandonedAfterMs = 24 * 60 * 60 * 1000;
const keyBytes = 32;

export async function openDirectoryBlobs(options: DirectoryBlobOptions): Promise<BlobStore> {
  const { path, world, baseUrl } = options;
  try {
    await mkdir(join(path, "unfinished"), { recursive: true });
    const key = await sharedKey(path, world.chance);
    await sweep(join(path, "unfinished"), world.clock.wallMs() - abandonedAfterMs);
    const tokens = new BlobTokens({ key, clock: world.clock, baseUrl });
    const spaces = spacesOf((name) => new DirectorySpace(name, path, world.chance, tokens));
    return { ...spaces, tokens, origins: () => tokens.origins(), close: async () => {} };
  } catch (thrown) {
    throw fileError(thrown, path);
  }
}

class DirectorySpace implements BlobSpace {
  readonly #name: BlobSpaceName;
  readonly #path: string;
  readonly #chance: Chance;
  readonly #tokens: BlobTokens;

  constructor(name: BlobSpaceName, path: string, chance: Chance, tokens: BlobTokens) {
    this.#name = name;
    this.#path = path;
    this.#chance = chance;
    this.#tokens = tokens;
  }

  async put(hash: Sha256, content: Uint8Array | AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
    checkBlobBytes(this.#name, hash, bytes);
    const unfinished = temporaryName(this.#path, this.#chance);
    try {
      await writeVerified(unfinished, hash, exactly(content, bytes, hash));
      await mkdir(this.#folder(hash), { recursive: true });
      await rename(unfinished, this.#file(hash));
      await flushFolder(this.#folder(hash));
    } catch (thrown) {
      await rm(unfinished, { force: true }).catch(() => {});
      throw fileError(thrown, this.#path);
    }
  }

  async get(hash: Sha256, range?: BlobRange): Promise<Uint8Array> {
    return Buffer.concat(await Array.fromAsync(this.stream(hash, range)));
  }

  async *stream(hash: Sha256, range?: BlobRange): AsyncGenerator<Uint8Array> {
    let file: FileHandle | undefined;
    try {
      file = await open(this.#file(hash));
      const { size } = await file.stat();
      if (range !== undefined) checkRange(hash, range, size);
      const pieces = readPieces(file, range ?? { start: 0, end: size });
      yield* range === undefined ? verified(pieces, hash, this.#file(hash)) : pieces;
    } catch (thrown) {
      throw isMissing(thrown) ? this.#missing(hash) : fileError(thrown, this.#path);
    } finally {
      await file?.close();
    }
  }

  async size(hash: Sha256): Promise<number | undefined> {
    try {
      return (await stat(this.#file(hash))).size;
    } catch (thrown) {
      if (isMissing(thrown)) return undefined;
      throw fileError(thrown, this.#path);
    }
  }

  async delete(hash: Sha256): Promise<void> {
    await rm(this.#file(hash), { force: true }).catch((thrown) => {
      throw fileError(thrown, this.#path);
    });
  }

  async *list(): AsyncGenerator<StoredBlob> {
    const root = join(this.#path, this.#name);
    const folders = await readdir(root).catch((thrown) => (isMissing(thrown) ? [] : Promise.reject(thrown)));
    for (const folder of folders) {
      if (!/^[0-9a-f]{2}$/.test(folder)) continue;
      for (const name of await readdir(join(root, folder))) {
        if (!/^[0-9a-f]{64}$/.test(name)) continue;
        const found = await stat(join(root, folder, name)).catch(() => undefined);
        if (found) yield { hash: name as Sha256, bytes: found.size, modifiedWallMs: found.mtimeMs };
      }
    }
  }

  async grant(action: BlobAction, hash: Sha256, bytes: number, lifetimeMs: number): Promise<BlobGrant> {
    return this.#tokens.grant(this.#name, action, hash, bytes, lifetimeMs);
  }

  /** Two digits of folders keep directories small: a million blobs are 4,000 files each. */
  #folder(hash: Sha256): string {
    return join(this.#path, this.#name, hash.slice(0, 2));
  }

  #file(hash: Sha256): string {
    return join(this.#folder(hash), hash);
  }

  #missing(hash: Sha256): never {
    missingBlob(hash, this.#path);
  }
}

async function writeVerified(path: string, hash: Sha256, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const file = await open(path, "wx");
  try {
    const digest = createHash("sha256");
    for await (const piece of pieces) {
      digest.update(piece);
      await writeAll(file, piece);
    }
    const actual = digest.digest("hex");
    if (actual !== hash) damagedUpload(hash, actual);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, piece: Uint8Array): Promise<void> {
  for (let done = 0; done < piece.length; ) done += (await file.write(piece, done)).bytesWritten;
}

/** One when it is asked for: what nobody takes lies in memory no more than once. */
async function* readPieces(file: FileHandle, { start, end }: BlobRange): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end; ) {
    const { bytesRead, buffer } = await file.read(new Uint8Array(Math.min(pieceBytes, end - at)), { position: at });
    if (bytesRead === 0) fail("data_loss", "a blob's file became shorter while it was read: read it again");
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Makes the new name itself survive a power cut; not every file system lets folders be flushed. */
async function flushFolder(path: string): Promise<void> {
  const folder = await open(path).catch(() => undefined);
  await folder?.sync().catch(() => {});
  await folder?.close();
}

/** The key that signs grants. All processes get the same, whoever comes first. */
async function sharedKey(path: string, chance: Chance): Promise<Uint8Array> {
  const keyFile = join(path, "grant-key");
  const read = () => readFile(keyFile).catch((thrown) => (isMissing(thrown) ? undefined : Promise.reject(thrown)));
  const key = (await read()) ?? (await createKey(keyFile, temporaryName(path, chance), chance).then(read));
  if (key?.length !== keyBytes)
    fail("data_loss", `${keyFile} is damaged: delete it and restart; addresses that were given out stop working`);
  return key;
}

/** `link` fails where a file exists, so a key that another process made meanwhile stays. */
async function createKey(keyFile: string, candidate: string, chance: Chance): Promise<void> {
  try {
    const file = await open(candidate, "wx", 0o600);
    try {
      await writeAll(file, chance.bytes(keyBytes));
      await file.sync();
    } finally {
      await file.close();
    }
    await link(candidate, keyFile).catch((thrown) => {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
    });
  } finally {
    await rm(candidate, { force: true });
  }
}

function temporaryName(path: string, chance: Chance): string {
  return join(path, "unfinished", Buffer.from(chance.bytes(12)).toString("hex"));
}

async function sweep(folder: string, beforeWallMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = join(folder, name);
    const found = await stat(file).catch(() => undefined);
    if (found && found.mtimeMs < beforeWallMs) await rm(file, { force: true });
  }
}

function isMissing(thrown: unknown): boolean {
  return (thrown as NodeJS.ErrnoException)?.code === "ENOENT";
}

function fileError(thrown: unknown, path: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const { code } = thrown as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT")
    return new DcnrError(
      "resource_exhausted",
      `the disk of the blobs in ${path} is full: nothing was stored, free some space and go on`,
    );
  if (code === "EACCES" || code === "EPERM" || code === "EROFS" || code === "ENOTDIR" || code === "EEXIST")
    return new DcnrError(
      "failed_precondition",
      `the blob directory ${path} cannot be used (${code}): check the path and its permissions`,
    );
  return DcnrError.from(thrown, "unavailable");
}
