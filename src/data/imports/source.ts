// Where data comes from: a file, an address, a bucket, standard input. Each is a stream of bytes that can begin
// at any position, so that an interrupted import need not read from the start again.

import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { fail } from "../../core/errors.ts";
import { download, type HttpGet } from "./download.ts";

export interface Source {
  /** For messages. */
  readonly name: string;
  /** Undefined if it is not known before the end. */
  readonly bytes: number | undefined;
  /** Changes when the content does; empty if that cannot be known. */
  readonly tag: string;
  /** It can be read once only. */
  readonly once?: true;
  /** The bytes from `start` on. */
  read(start: number): AsyncIterable<Uint8Array>;
}

export interface ObjectAnswer {
  readonly bytes: number;
  readonly tag: string;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Reads an object of a bucket from byte `start` on. */
export type ObjectGet = (bucket: string, key: string, start: number) => Promise<ObjectAnswer>;

export interface SourceAccess {
  /** Only files below these folders are read; undefined: the whole disk, as the user who asks may. */
  readonly folders?: readonly string[];
  readonly httpGet?: HttpGet;
  readonly objectGet?: ObjectGet;
  readonly stdin?: AsyncIterable<Uint8Array>;
  readonly bytesMax?: number;
  /** For tests against a server on this machine only. */
  readonly isAllowedAddress?: (address: string) => boolean;
}

/** A terabyte: a typing error in an address should not fill a disk for a week. */
const bytesMaxDefault = 2 ** 40;

/** `-`, `file:`, `https:`, `s3:`, or a path. */
export async function openSource(location: string, access: SourceAccess): Promise<Source> {
  if (location === "-") return openStdin(access);
  if (location.startsWith("https:") || location.startsWith("http:")) return openHttps(location, access);
  if (location.startsWith("s3:")) return openObject(location, access);
  if (location.startsWith("file:")) return openFile(pathOfUrl(location), access);
  if (/^[a-z][a-z0-9+.-]+:/i.test(location))
    fail(
      "invalid_argument",
      `"${location.slice(0, 200)}" is no source: give a path, file:, https:, s3: or - for standard input`,
    );
  return openFile(location, access);
}

function pathOfUrl(location: string): string {
  try {
    return location.startsWith("file://") ? fileURLToPath(location) : location.slice("file:".length);
  } catch (thrown) {
    fail("invalid_argument", `"${location.slice(0, 200)}" is no file address: ${(thrown as Error).message}`, thrown);
  }
}

async function openFile(path: string, { folders, bytesMax = bytesMaxDefault }: SourceAccess): Promise<Source> {
  const real = await realpath(resolve(path)).catch(() => undefined);
  // Links are followed before the check, and both answers are the same outside the folders: nothing can be probed.
  if (folders && !(await isBelowOne(real ?? resolve(path), folders)))
    fail("permission_denied", `${path} is outside the folders that may be read: ${folders.join(", ")}`);
  if (real === undefined) fail("not_found", `there is no file ${path}`);
  const found = await stat(real);
  if (!found.isFile()) fail("invalid_argument", `${path} is not a file`);
  if (found.size === 0) fail("invalid_argument", `${path} is empty`);
  if (found.size > bytesMax)
    fail("resource_exhausted", `${path} has ${found.size} bytes, at most ${bytesMax} are allowed`);
  return {
    name: path,
    bytes: found.size,
    tag: `${found.size}-${found.mtimeMs}`,
    read: (start) => createReadStream(real, { start, highWaterMark: 1 << 20 }),
  };
}

export async function isBelowOne(path: string, folders: readonly string[]): Promise<boolean> {
  for (const folder of folders) {
    const inside = relative(await realpath(folder).catch(() => resolve(folder)), path);
    if (inside !== "" && !inside.startsWith("..") && !isAbsolute(inside)) return true;
  }
  return false;
}

async function openHttps(location: string, access: SourceAccess): Promise<Source> {
  const { httpGet, bytesMax = bytesMaxDefault, isAllowedAddress } = access;
  if (!httpGet) fail("unimplemented", "this program does not fetch addresses: download the file first");
  const options = { get: httpGet, bytesMax, isAllowedAddress };
  const first = await download(location, 0, "", options);
  if (first.bytes === 0) fail("invalid_argument", `${location} is empty`);
  let opened: AsyncIterable<Uint8Array> | undefined = first.body;
  return {
    name: location,
    bytes: first.bytes,
    tag: first.tag,
    async *read(start) {
      const body = opened;
      opened = undefined;
      if (body && start === 0) yield* body;
      else yield* (await download(location, start, first.tag, options)).body;
    },
  };
}

async function openObject(location: string, { objectGet, bytesMax = bytesMaxDefault }: SourceAccess): Promise<Source> {
  if (!objectGet) fail("unimplemented", "this program does not read buckets: download the file first");
  const match = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,62})\/(.+)$/.exec(location);
  const [, bucket, key] =
    match ?? fail("invalid_argument", `"${location.slice(0, 200)}" is not of the form s3://BUCKET/KEY`);
  const first = await objectGet(bucket as string, key as string, 0);
  if (first.bytes === 0) fail("invalid_argument", `${location} is empty`);
  if (first.bytes > bytesMax)
    fail("resource_exhausted", `${location} has ${first.bytes} bytes, at most ${bytesMax} are allowed`);
  let opened: AsyncIterable<Uint8Array> | undefined = first.body;
  return {
    name: location,
    bytes: first.bytes,
    tag: first.tag,
    async *read(start) {
      const body = opened;
      opened = undefined;
      if (body && start === 0) return yield* body;
      const again = await objectGet(bucket as string, key as string, start);
      if (again.tag !== first.tag)
        fail("failed_precondition", `${location} has changed since the import began: start again`);
      yield* again.body;
    },
  };
}

function openStdin({ stdin, bytesMax = bytesMaxDefault }: SourceAccess): Source {
  if (!stdin) fail("unimplemented", "there is no standard input here: give a file");
  return {
    name: "standard input",
    bytes: undefined,
    tag: "",
    once: true,
    async *read(start) {
      let seen = 0;
      for await (const piece of stdin) {
        const skip = Math.max(0, start - seen);
        seen += piece.byteLength;
        if (seen > bytesMax) fail("resource_exhausted", `standard input has more than the allowed ${bytesMax} bytes`);
        if (skip < piece.byteLength) yield piece.subarray(skip);
      }
    },
  };
}
