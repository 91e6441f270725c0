// The real disk and the real wire for a PNode: blobs by HTTP, spilled messages in its directory.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DcnrError, fail } from "../core/errors.ts";
import type { BlobTransfer, SpillStorage } from "../pnode/options.ts";

/** A transfer that stands still is given up; a slow one is not. */
const transferTimeoutMs = 120_000;

export const httpTransfer: BlobTransfer = {
  async upload(to, content, signal) {
    const response = await request(to.url, {
      method: "PUT",
      headers: to.headers,
      body: content as Uint8Array<ArrayBuffer>,
      signal: withTimeout(signal),
    });
    await response.arrayBuffer();
  },
  async download(from, bytesMax, signal) {
    const response = await request(from.url, { headers: from.headers, signal: withTimeout(signal) });
    const announced = Number(response.headers.get("content-length") ?? 0);
    if (announced > bytesMax)
      fail("resource_exhausted", `the blob has ${announced} bytes, at most ${bytesMax} are taken`);
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of response.body ?? []) {
      size += part.byteLength;
      if (size > bytesMax) fail("resource_exhausted", `the blob has more than ${bytesMax} bytes`);
      parts.push(part);
    }
    return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
  },
};

function withTimeout(signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(transferTimeoutMs);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

async function request(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, { ...init, redirect: "error" }).catch((error: unknown) => {
    throw new DcnrError("unavailable", `the blob store cannot be reached: ${String((error as Error).cause ?? error)}`);
  });
  if (response.ok) return response;
  const text = (await response.text().catch(() => "")).slice(0, 200).trim();
  const code = response.status === 404 ? "not_found" : response.status === 507 ? "resource_exhausted" : "unavailable";
  throw new DcnrError(code, `the blob store answered ${response.status}: ${text}`);
}

/** Emptied at every start: what was spilled belongs to a process that is gone. */
export async function openSpill(directory: string): Promise<SpillStorage> {
  const folder = join(directory, "spill");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const pathOf = (key: string) => join(folder, Buffer.from(key).toString("base64url").slice(0, 200));
  return {
    write: (key, content) => writeFile(pathOf(key), content),
    read: (key) => readFile(pathOf(key)),
    remove: (key) => rm(pathOf(key), { force: true }),
  };
}
