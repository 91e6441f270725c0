// From a picture of any size and colours to one sample: channels first, as convolutions take it, in the size that all have.

import { fail } from "../../core/errors.ts";
import { decodeJpeg, isJpeg } from "./jpeg.ts";
import type { Picture } from "./picture.ts";
import { decodePng, isPng } from "./png.ts";

export interface ImageShape {
  readonly channels: 1 | 3;
  readonly height: number;
  readonly width: number;
}

export function decodeImage(bytes: Uint8Array, name: string): Picture {
  if (isPng(bytes)) return decodePng(bytes, name);
  if (isJpeg(bytes)) return decodeJpeg(bytes, name);
  return fail("unimplemented", `${name} is neither PNG nor JPEG: convert it to one of them`);
}

/** The shape that a picture has by itself: transparency does not count. */
export function naturalShape({ width, height, channels }: Picture): ImageShape {
  return { channels: channels <= 2 ? 1 : 3, height, width };
}

/** [channels, height, width] of bytes; other sizes are scaled, transparent pixels lie on black. */
export function sampleOf(picture: Picture, shape: ImageShape): Uint8Array {
  const planes = planesOf(picture, shape.channels);
  const sample = new Uint8Array(shape.channels * shape.height * shape.width);
  for (const [c, plane] of planes.entries()) {
    const wide = resampled(plane, picture.height, picture.width, 1, shape.width);
    const whole = resampled(wide, picture.height, shape.width, shape.width, shape.height);
    for (let i = 0; i < whole.length; i++)
      sample[c * whole.length + i] = Math.max(0, Math.min(255, Math.round(whole[i] as number)));
  }
  return sample;
}

function planesOf({ width, height, channels, data }: Picture, wanted: 1 | 3): Float32Array[] {
  const planes = Array.from({ length: wanted }, () => new Float32Array(width * height));
  const hasAlpha = channels === 2 || channels === 4;
  for (let i = 0; i < width * height; i++) {
    const at = i * channels;
    const share = hasAlpha ? (data[at + channels - 1] as number) / 255 : 1;
    const value = (c: number) => (data[at + (channels <= 2 ? 0 : c)] as number) * share;
    if (wanted === 3) for (let c = 0; c < 3; c++) (planes[c] as Float32Array)[i] = value(c);
    else
      (planes[0] as Float32Array)[i] =
        channels <= 2 ? value(0) : 0.299 * value(0) + 0.587 * value(1) + 0.114 * value(2);
  }
  return planes;
}

/**
 * One axis of a plane in another size: a triangle around each new place, as wide as the old pixels it stands for, so that
 * nothing is left out where pictures shrink. Along the columns (`stride` 1) or the rows (`stride` the width).
 */
function resampled(plane: Float32Array, rows: number, columns: number, stride: number, size: number): Float32Array {
  const alongRows = stride !== 1;
  const old = alongRows ? rows : columns;
  if (old === size) return plane;
  const lines = alongRows ? columns : rows;
  const result = new Float32Array(lines * size);
  const reach = Math.max(1, old / size);
  for (let at = 0; at < size; at++) {
    const centre = ((at + 0.5) * old) / size - 0.5;
    const [first, last] = [Math.max(0, Math.ceil(centre - reach)), Math.min(old - 1, Math.floor(centre + reach))];
    const shares = Array.from({ length: last - first + 1 }, (_, i) =>
      Math.max(0, 1 - Math.abs(first + i - centre) / reach),
    );
    const total = shares.reduce((sum, share) => sum + share, 0);
    for (let line = 0; line < lines; line++) {
      let sum = 0;
      for (const [i, share] of shares.entries())
        sum += share * (plane[alongRows ? (first + i) * columns + line : line * columns + first + i] as number);
      result[alongRows ? at * columns + line : line * size + at] = sum / total;
    }
  }
  return result;
}
