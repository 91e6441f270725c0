// How fast a browser hashes messages, in MB/s: by our WebAssembly on this thread, and as a tab does it. The best of many tries each, since others
// use the machine too. Node runs it as well.

import { openSha256 } from "../src/core/hashing/sha256.ts";
import { hashOfWeb } from "../src/tab/hashing.ts";

export interface HashSpeed {
  readonly bytes: number;
  readonly wasm: number;
  readonly tab: number;
}

const tries = 100;

async function best(bytes: number, work: () => unknown): Promise<number> {
  let bestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < tries; i++) {
    const startMs = performance.now();
    await work();
    bestMs = Math.min(bestMs, performance.now() - startMs);
  }
  return bytes / 1e3 / bestMs;
}

export async function hashSpeeds(sizes: readonly number[]): Promise<HashSpeed[]> {
  const hash = openSha256();
  const speeds: HashSpeed[] = [];
  for (const bytes of sizes) {
    const content = new Uint8Array(new SharedArrayBuffer(bytes)).fill(7);
    const wasm = await best(bytes, () => {
      hash.update(content);
      hash.digest();
    });
    const tab = await best(bytes, () => hashOfWeb({ dtype: "float32", shape: [bytes / 4], bytes: content }));
    speeds.push({ bytes, wasm, tab });
  }
  return speeds;
}

Object.assign(globalThis, { hashSpeeds });
