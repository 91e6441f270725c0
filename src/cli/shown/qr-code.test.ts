import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { qrCode, qrModules, times } from "./qr-code.ts";

/** Per version: bytes of correction, blocks, bytes of data, written down a second time. */
const shapes = new Map([
  [1, [7, 1, 19]],
  [5, [26, 1, 108]],
  [6, [18, 2, 136]],
  [7, [20, 2, 156]],
  [9, [30, 2, 232]],
  [10, [18, 4, 274]],
]);

/** Centres of alignment patterns as the standard lists them. */
const centres = new Map([
  [1, []],
  [5, [6, 30]],
  [6, [6, 34]],
  [7, [6, 22, 38]],
  [9, [6, 26, 46]],
  [10, [6, 28, 50]],
]);

function isPattern(version: number, x: number, y: number): boolean {
  const size = 17 + 4 * version;
  if (x === 6 || y === 6) return true;
  if ((x < 9 && y < 9) || (x >= size - 8 && y < 9) || (x < 9 && y >= size - 8)) return true;
  if (version >= 7 && ((x >= size - 11 && y < 6) || (y >= size - 11 && x < 6))) return true;
  const list = centres.get(version) as number[];
  return list.some((cx) =>
    list.some((cy) => {
      const corner = (cx === 6 && cy !== list[1] && cy !== 6) || (cy === 6 && cx !== list[1] && cx !== 6);
      const excluded = (cx === 6 && cy === 6) || (list.length === 2 ? cx === 6 || cy === 6 : corner);
      return !excluded && Math.abs(x - cx) <= 2 && Math.abs(y - cy) <= 2;
    }),
  );
}

/** A reader that checks what a real one uses to mend damage: every syndrome of every block is zero. */
function read(dark: readonly (readonly boolean[])[]): string {
  const size = dark.length;
  const version = (size - 17) / 4;
  const [correction, count, data] = shapes.get(version) as [number, number, number];
  const bits: number[] = [];
  let column = 0;
  for (let right = size - 1; right > 0; right -= 2, column++) {
    if (right === 6) right--;
    for (let i = 0; i < size; i++) {
      const y = column % 2 === 0 ? size - 1 - i : i;
      for (const x of [right, right - 1])
        if (!isPattern(version, x, y)) bits.push(Number((dark[y]?.[x] as boolean) !== ((x + y) % 2 === 0)));
    }
  }
  const bytes = Array.from({ length: data + correction * count }, (_, i) =>
    Number.parseInt(bits.slice(8 * i, 8 * i + 8).join(""), 2),
  );
  const blocks: number[][] = Array.from({ length: count }, () => []);
  const lengths = blocks.map((_, i) => Math.floor(data / count) + (i < count - (data % count) ? 0 : 1));
  let at = 0;
  for (let i = 0; i < Math.max(...lengths); i++)
    for (let b = 0; b < count; b++) if (i < (lengths[b] as number)) blocks[b]?.push(bytes[at++] as number);
  const content = blocks.flat();
  for (let i = 0; i < correction; i++) for (const block of blocks) block.push(bytes[at++] as number);
  for (const block of blocks)
    for (let power = 0, root = 1; power < correction; power++, root = times(root, 2))
      assert.equal(
        block.reduce((sum, byte) => times(sum, root) ^ byte, 0),
        0,
        `syndrome ${power}`,
      );
  const stream = content.map((byte) => byte.toString(2).padStart(8, "0")).join("");
  assert.equal(stream.slice(0, 4), "0100");
  const head = version < 10 ? 12 : 20;
  const length = Number.parseInt(stream.slice(4, head), 2);
  const text = Array.from({ length }, (_, i) => Number.parseInt(stream.slice(head + 8 * i, head + 8 * i + 8), 2));
  return new TextDecoder().decode(Uint8Array.from(text));
}

describe("a QR code", () => {
  it("says what was put into it, in each size, and its blocks are sound", () => {
    for (const length of [3, 17, 106, 130, 150, 200, 270]) {
      const text = "dcnr://lab.example:7700/".padEnd(length, "abc2").slice(0, length);
      assert.equal(read(qrModules(text)), text, `${length} bytes`);
    }
  });

  it("has its three eyes and its format where readers look for them", () => {
    const dark = qrModules("x");
    assert.equal(dark.length, 21);
    for (const [x, y] of [
      [3, 3],
      [17, 3],
      [3, 17],
    ] as const)
      assert.ok(dark[y]?.[x] && !dark[y - 2]?.[x] && dark[y - 3]?.[x]);
    const format = [0, 1, 2, 3, 4, 5, 7].map((x) => Number(dark[8]?.[x])).join("");
    assert.equal(format, "1110111", "level L, mask 0, the highest bit first");
  });

  it("is refused for what does not fit, and drawn two rows a line", () => {
    assert.throws(() => qrModules("x".repeat(272)), /too many/);
    assert.equal(qrCode("x").split("\n").length, Math.ceil((21 + 4) / 2));
  });
});
