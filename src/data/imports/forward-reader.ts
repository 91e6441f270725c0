// Parts of a source, one after the other, as files with a description ask for them. Opening a stream costs more than most parts have
// bytes, and a request where the source is far away: one stream goes on as long as what is asked for lies a little ahead.

import { fail } from "../../core/errors.ts";
import { type ByteReader, openReader } from "../formats/bytes.ts";
import type { Source } from "./source.ts";

export interface ForwardReader {
  bytes(start: number, count: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** To read over so much is cheaper than to ask anew. */
const skipBytesMax = 1 << 16;

export function openForward(source: Source): ForwardReader {
  let reader: ByteReader | undefined;
  let at = 0;
  const close = async () => {
    const closing = reader;
    reader = undefined;
    await closing?.close();
  };
  return {
    async bytes(start, count) {
      if (reader && (start < at || start - at > skipBytesMax)) await close();
      if (!reader) at = start;
      reader ??= openReader(source.read(start));
      if (start > at) await reader.take(start - at);
      const bytes = await reader.take(count);
      at = start + count;
      if (bytes.byteLength !== count) fail("data_loss", `${source.name} ended while it was read`);
      return bytes;
    },
    close,
  };
}
