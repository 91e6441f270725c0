// Parts of a source are the same bytes whether a stream goes on or is opened anew, and it is opened anew only where it must be.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openForward } from "./forward-reader.ts";

function source(length: number) {
  const content = Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) & 255);
  const opened: number[] = [];
  let closed = 0;
  const read = async function* (start: number) {
    opened.push(start);
    try {
      for (let at = start; at < length; at += 1_000) yield content.subarray(at, at + 1_000);
    } finally {
      closed++;
    }
  };
  return {
    content,
    opened,
    closed: () => closed,
    reader: openForward({ name: "a file", bytes: length, tag: "", read }),
  };
}

test("what lies a little ahead comes from the same stream, what lies behind or far ahead from another", async () => {
  const { content, opened, closed, reader } = source(300_000);
  const parts: readonly [start: number, count: number][] = [
    [10, 5_000],
    [5_010, 1],
    [9_000, 2_500],
    [11_500, 0],
    [11_000, 10],
    [11_010 + (1 << 16), 7],
    [11_017 + (1 << 17) + 1, 7],
  ];
  for (const [start, count] of parts)
    assert.deepEqual(await reader.bytes(start, count), content.slice(start, start + count), `${count} from ${start}`);
  assert.deepEqual(opened, [10, 11_000, 11_018 + (1 << 17)]);
  await reader.close();
  assert.equal(closed(), opened.length, "no stream is left open");
});

test("a source that ends too early is told, and closed", async () => {
  const { reader, closed } = source(1_500);
  await assert.rejects(reader.bytes(1_000, 501), /a file ended while it was read/);
  await reader.close();
  assert.equal(closed(), 1);
});
