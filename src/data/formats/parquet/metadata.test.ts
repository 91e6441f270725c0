import assert from "node:assert/strict";
import { it } from "node:test";
import { readFooter } from "./metadata.ts";
import { readChunk } from "./pages.ts";

const int32 = 1;

/** A footer with columns of one row each, as Thrift's compact protocol writes it; types by the number that files have for them. */
function footerOf(converted: Readonly<Record<string, number>>) {
  const names = Object.entries(converted);
  const text = (name: string) => [name.length, ...Buffer.from(name)];
  const leaves = names.flatMap(([name, kind]) => [0x15, int32 * 2, 0x25, 0, 0x18, ...text(name), 0x25, kind * 2, 0]);
  const root = [0x48, ...text("schema"), 0x15, names.length * 2, 0];
  return readFooter(Buffer.from([0x29, ((names.length + 1) << 4) | 12, ...root, ...leaves, 0x29, 0x0c, 0]), 100, "x");
}

it("days and times of a day are refused like points in time: their numbers mean something else", () => {
  const { columns } = footerOf({ day: 6, hour: 7, moment: 9, count: 17 });
  assert.deepEqual(
    columns.map(({ refused }) => refused),
    ["holds times", "holds times", "holds times", undefined],
  );
});

it("a number without a sign is not read as a negative one", async () => {
  const [signed, unsigned] = footerOf({ signed: 17, unsigned: 13 }).columns;
  const body = Buffer.alloc(4, 0xff);
  // One plain page of one value.
  const page = Buffer.concat([Buffer.from([0x15, 0, 0x15, 8, 0x15, 8, 0x2c, 0x15, 2, 0x15, 0, 0, 0]), body]);
  const read = (column = unsigned!) =>
    readChunk(page, { column, codec: 0, values: 1, offset: 4, bytes: page.length }, 1, "x");
  assert.deepEqual(await read(), [2 ** 32 - 1]);
  assert.deepEqual(await read(signed), [-1]);
});
