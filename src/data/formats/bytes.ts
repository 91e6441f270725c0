// A byte stream read in amounts of the reader's choice.

export interface ByteReader {
  /** The next `count` bytes; fewer only at the end. */
  take(count: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export function openReader(stream: AsyncIterable<Uint8Array>): ByteReader {
  const iterator = stream[Symbol.asyncIterator]();
  let rest: Uint8Array = new Uint8Array(0);
  return {
    async take(count) {
      const pieces: Uint8Array[] = [];
      let missing = count;
      while (missing > 0) {
        if (rest.byteLength === 0) {
          const next = await iterator.next();
          if (next.done) break;
          rest = next.value;
        }
        const taken = rest.subarray(0, missing);
        rest = rest.subarray(taken.byteLength);
        missing -= taken.byteLength;
        pieces.push(taken);
      }
      // A copy, aligned for any dtype.
      const whole = new Uint8Array(count - missing);
      let at = 0;
      for (const piece of pieces) {
        whole.set(piece, at);
        at += piece.byteLength;
      }
      return whole;
    },
    async close() {
      await iterator.return?.();
    },
  };
}
