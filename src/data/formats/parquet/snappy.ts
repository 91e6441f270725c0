// Snappy's raw format, in which Parquet packs pages by default: literals, and copies of what was written before.

import { fail } from "../../../core/errors.ts";
import { type Breaths, bytesPerValue } from "./breaths.ts";

/** `size` is what the page says; anything else is damage. */
export async function unpackSnappy(
  packed: Uint8Array,
  size: number,
  name: string,
  breaths: Breaths,
): Promise<Uint8Array> {
  const damaged = (): never => fail("invalid_argument", `${name} is damaged: a page cannot be unpacked`);
  let at = 0;
  let [claimed, shift] = [0, 0];
  for (;;) {
    const byte = packed[at++] ?? damaged();
    claimed += (byte & 0x7f) * 2 ** shift;
    shift += 7;
    if (byte < 0x80) break;
    if (shift > 35) damaged();
  }
  if (claimed !== size) damaged();
  const out = new Uint8Array(size);
  let written = 0;
  const number = (bytes: number): number => {
    let value = 0;
    for (let i = 0; i < bytes; i++) value += (packed[at++] ?? damaged()) * 2 ** (8 * i);
    return value;
  };
  while (at < packed.length) {
    if (breaths.isDue(1)) await breaths.take();
    const tag = packed[at++] as number;
    const kind = tag & 3;
    if (kind === 0) {
      const small = tag >> 2;
      const length = (small < 60 ? small : number(small - 59)) + 1;
      if (length > packed.length - at || length > size - written) damaged();
      out.set(packed.subarray(at, at + length), written);
      at += length;
      written += length;
      breaths.spend(length / bytesPerValue);
      continue;
    }
    const length = kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    const back = kind === 1 ? (tag >> 5) * 256 + number(1) : number(kind === 2 ? 2 : 4);
    if (back < 1 || back > written || length > size - written) damaged();
    breaths.spend(length / bytesPerValue);
    // Byte by byte: a copy may reach into itself.
    for (let i = 0; i < length; i++, written++) out[written] = out[written - back] as number;
  }
  return written === size ? out : damaged();
}
