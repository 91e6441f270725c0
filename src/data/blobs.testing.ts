// A blob store in memory that counts what is asked of it, for the tests of this folder.

import { fail } from "../core/errors.ts";
import type { Sha256 } from "../core/ids.ts";
import type { BlobSink } from "./build.ts";

export interface TestBlobs extends BlobSink {
  readonly contents: Map<Sha256, Uint8Array>;
  readonly puts: Sha256[];
  readonly gets: Sha256[];
  get(hash: Sha256): Promise<Uint8Array>;
}

export function testBlobs(): TestBlobs {
  const contents = new Map<Sha256, Uint8Array>();
  const puts: Sha256[] = [];
  const gets: Sha256[] = [];
  return {
    contents,
    puts,
    gets,
    async put(hash, content) {
      puts.push(hash);
      if (!(content instanceof Uint8Array)) fail("unimplemented", "the tests store whole blobs only");
      contents.set(hash, content.slice());
    },
    async size(hash) {
      return contents.get(hash)?.byteLength;
    },
    async get(hash) {
      gets.push(hash);
      return contents.get(hash) ?? fail("not_found", `no blob ${hash}`);
    },
  };
}
