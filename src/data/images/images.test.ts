// Images as the usual libraries write them have the pixels that Pillow reads from them; damaged ones are refused by a sentence.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { assertRefusal, damagedCopies } from "../damage.testing.ts";
import { decodeImage, naturalShape, sampleOf } from "./shape.ts";

interface Known {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly data: readonly number[];
}

const file = (name: string) => new Uint8Array(readFileSync(new URL(`../fixtures/files/${name}`, import.meta.url)));
const known: readonly Known[] = JSON.parse(Buffer.from(file("images.json")).toString());

for (const { name, width, height, channels, data } of known)
  test(`${name} has Pillow's pixels`, () => {
    const picture = decodeImage(file(name), name);
    assert.deepEqual([picture.width, picture.height, picture.channels], [width, height, channels]);
    const errors = data.map((value, i) => Math.abs(value - (picture.data[i] as number)));
    const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length;
    const worst = Math.max(...errors);
    if (name.endsWith(".png")) assert.equal(worst, 0);
    else assert.ok(worst <= 4 && mean < 0.6, `errors up to ${worst}, mean ${mean}`);
  });

test("a sample has its channels first, is grey or coloured as asked, and shrinks without leaving pixels out", () => {
  const colour = decodeImage(file("colour.png"), "colour");
  assert.deepEqual(naturalShape(colour), { channels: 3, height: 11, width: 13 });
  const sample = sampleOf(colour, { channels: 3, height: 11, width: 13 });
  for (const [c, x, y] of [
    [0, 0, 0],
    [1, 5, 7],
    [2, 12, 10],
  ] as const)
    assert.equal(sample[(c * 11 + y) * 13 + x], colour.data[(y * 13 + x) * 3 + c]);
  const board = {
    width: 64,
    height: 64,
    channels: 1,
    data: new Uint8Array(64 * 64).map((_, i) => ((i + (i >> 6)) % 2) * 255),
  } as const;
  const small = sampleOf(board, { channels: 1, height: 8, width: 8 });
  assert.ok(
    small.every((value) => Math.abs(value - 127.5) < 12),
    `a fine chessboard becomes grey: ${small}`,
  );
  const flat = {
    width: 3,
    height: 2,
    channels: 4,
    data: Uint8Array.from({ length: 24 }, (_, i) => (i % 4 === 3 ? 0 : 200)),
  } as const;
  assert.ok(
    sampleOf(flat, { channels: 3, height: 5, width: 7 }).every((value) => value === 0),
    "transparent is black",
  );
});

test("what is no image, or one of a kind that is not supported, is refused by name", () => {
  assert.throws(() => decodeImage(new TextEncoder().encode("GIF89a....."), "a.gif"), /a.gif is neither PNG nor JPEG/);
  const huge = file("colour.png");
  new DataView(huge.buffer).setUint32(16, 2 ** 31);
  assert.throws(() => decodeImage(huge, "huge"), /checksum of its IHDR chunk is wrong/);
  const wide = file("whole.jpg");
  const frame = Buffer.from(wide).indexOf(Buffer.from([0xff, 0xc0]));
  wide.fill(0xff, frame + 5, frame + 9);
  assert.throws(() => decodeImage(wide, "wide"), /wide claims 65535 x 65535 pixels/);
  const arithmetic = file("whole.jpg");
  arithmetic[frame + 1] = 0xc9;
  assert.throws(() => decodeImage(arithmetic, "coded"), /coded is arithmetically coded JPEG/);
});

test("damaged images are refused or read; they never break the process or hold it", () => {
  for (const [seed, { name }] of known.entries())
    for (const bytes of damagedCopies(file(name), 80, seed))
      try {
        const picture = decodeImage(bytes, name);
        assert.equal(picture.data.length, picture.width * picture.height * picture.channels);
      } catch (thrown) {
        assertRefusal(thrown, name);
      }
});
