// A decoded picture, and what all decoders share: limits that hold before memory is taken, and errors that name the file.

import { fail } from "../../core/errors.ts";

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** 1 grey, 2 grey and alpha, 3 red green blue, 4 with alpha. */
  readonly channels: 1 | 2 | 3 | 4;
  /** Row by row, the channels of each pixel together. */
  readonly data: Uint8Array;
}

/** A small file can claim any size; 64 million pixels are more than any camera that people train on gives. */
const pixelsMax = 1 << 26;

export function checkSize(width: number, height: number, name: string): void {
  if (width < 1 || height < 1) fail("invalid_argument", `${name} is an image of ${width} x ${height} pixels`);
  if (width * height > pixelsMax)
    fail("resource_exhausted", `${name} claims ${width} x ${height} pixels, at most ${pixelsMax} are allowed`);
}

export function damaged(name: string, what: string): never {
  return fail("invalid_argument", `${name} is damaged: ${what}`);
}
