// One scan of a JPEG file: fills the coefficients of its components' blocks, all at once (baseline) or some bits of some of
// them (progressive).

import { BitReader, type HuffmanTable } from "./jpeg-huffman.ts";
import { damaged } from "./picture.ts";

export interface Component {
  readonly id: number;
  /** How many blocks of it a unit of the picture has, across and down. */
  readonly across: number;
  readonly down: number;
  readonly quantisation: number;
  /** Blocks with pixels of the picture, and blocks in memory (whole units). */
  readonly blocksWide: number;
  readonly blocksHigh: number;
  readonly stride: number;
  /** 64 coefficients for each block, in the order of rows. */
  readonly coefficients: Int16Array;
}

export interface Scan {
  readonly components: readonly {
    readonly component: Component;
    readonly dc: HuffmanTable | undefined;
    readonly ac: HuffmanTable | undefined;
  }[];
  readonly unitsWide: number;
  readonly unitsHigh: number;
  /** Units between restarts; 0: none. */
  readonly restartEvery: number;
  readonly progressive: boolean;
  /** First and last coefficient, and the bits: those that were there before, and the lowest that is there now. */
  readonly first: number;
  readonly last: number;
  readonly before: number;
  readonly low: number;
}

/** Where the coefficients of a file lie in rows of eight. */
export const zigzag = Uint8Array.from(
  Array.from({ length: 64 }, (_, i) => i).sort((a, b) => {
    const [rowA, columnA, rowB, columnB] = [a >> 3, a & 7, b >> 3, b & 7];
    const [sumA, sumB] = [rowA + columnA, rowB + columnB];
    if (sumA !== sumB) return sumA - sumB;
    return sumA % 2 === 0 ? rowB - rowA : rowA - rowB;
  }),
);

/** Gives where the next marker may be. */
export function readScan(bytes: Uint8Array, start: number, scan: Scan, name: string): number {
  const reader = new BitReader(bytes, start, name);
  const decoder = new BlockDecoder(reader, scan, name);
  const { components, unitsWide, unitsHigh, restartEvery } = scan;
  const [only] = components;
  const single = components.length === 1 && only !== undefined;
  const [wide, high] = single ? [only.component.blocksWide, only.component.blocksHigh] : [unitsWide, unitsHigh];
  for (let unit = 0; unit < wide * high; unit++) {
    if (restartEvery > 0 && unit > 0 && unit % restartEvery === 0) {
      reader.restart();
      decoder.reset();
    }
    const [row, column] = [Math.floor(unit / wide), unit % wide];
    if (single) {
      decoder.block(0, row * only.component.stride + column);
      continue;
    }
    for (const [i, { component }] of components.entries())
      for (let y = 0; y < component.down; y++)
        for (let x = 0; x < component.across; x++)
          decoder.block(i, (row * component.down + y) * component.stride + column * component.across + x);
  }
  return reader.position;
}

class BlockDecoder {
  readonly #reader: BitReader;
  readonly #scan: Scan;
  readonly #name: string;
  readonly #predicted: number[];
  /** Blocks that have nothing more in this band. */
  #emptyRun = 0;

  constructor(reader: BitReader, scan: Scan, name: string) {
    this.#reader = reader;
    this.#scan = scan;
    this.#name = name;
    this.#predicted = scan.components.map(() => 0);
  }

  reset(): void {
    this.#predicted.fill(0);
    this.#emptyRun = 0;
  }

  block(index: number, number: number): void {
    const { component, dc, ac } = this.#scan.components[index] as Scan["components"][number];
    const block = component.coefficients.subarray(number * 64, number * 64 + 64);
    const { progressive, first, before } = this.#scan;
    if (!progressive) {
      this.#dcFirst(block, index, this.#table(dc));
      this.#acBaseline(block, this.#table(ac));
    } else if (first === 0) {
      if (before === 0) this.#dcFirst(block, index, this.#table(dc));
      else if (this.#reader.bit()) block[0] = (block[0] as number) | (1 << this.#scan.low);
    } else if (before === 0) this.#acFirst(block, this.#table(ac));
    else this.#acRefine(block, this.#table(ac));
  }

  #table(table: HuffmanTable | undefined): HuffmanTable {
    return table ?? damaged(this.#name, "a table of codes is missing");
  }

  #dcFirst(block: Int16Array, index: number, table: HuffmanTable): void {
    const size = this.#reader.symbol(table);
    if (size > 15) damaged(this.#name, "a difference has too many bits");
    this.#predicted[index] = (this.#predicted[index] as number) + this.#reader.signed(size);
    block[0] = (this.#predicted[index] as number) << this.#scan.low;
  }

  #acBaseline(block: Int16Array, table: HuffmanTable): void {
    for (let k = 1; k < 64; k++) {
      const symbol = this.#reader.symbol(table);
      const [run, size] = [symbol >> 4, symbol & 15];
      if (size === 0 && run !== 15) return;
      k += run;
      if (size === 0) continue;
      if (k > 63) damaged(this.#name, "a block has more than 64 numbers");
      block[zigzag[k] as number] = this.#reader.signed(size);
    }
  }

  #acFirst(block: Int16Array, table: HuffmanTable): void {
    if (this.#emptyRun > 0) {
      this.#emptyRun--;
      return;
    }
    const { first, last, low } = this.#scan;
    for (let k = first; k <= last; k++) {
      const symbol = this.#reader.symbol(table);
      const [run, size] = [symbol >> 4, symbol & 15];
      if (size === 0 && run !== 15) {
        this.#emptyRun = (1 << run) + this.#reader.bits(run) - 1;
        return;
      }
      k += run;
      if (size === 0) continue;
      if (k > last) damaged(this.#name, "a block has more numbers than its band");
      block[zigzag[k] as number] = this.#reader.signed(size) * (1 << low);
    }
  }

  /** Numbers that are there get one more bit; zeros are skipped, or become the first bit of a number. */
  #acRefine(block: Int16Array, table: HuffmanTable): void {
    const { first, last, low } = this.#scan;
    const step = 1 << low;
    let k = first;
    while (k <= last && this.#emptyRun === 0) {
      const symbol = this.#reader.symbol(table);
      const [size, kind] = [symbol & 15, symbol >> 4];
      let zeros = kind;
      let fresh = 0;
      if (size === 0) {
        if (zeros !== 15) {
          this.#emptyRun = (1 << zeros) + this.#reader.bits(zeros);
          break;
        }
      } else fresh = this.#reader.bit() ? step : -step;
      for (; k <= last; k++) {
        const place = zigzag[k] as number;
        if (block[place] !== 0) this.#correct(block, place, step);
        else if (zeros-- === 0) {
          if (fresh !== 0) block[place] = fresh;
          k++;
          break;
        }
      }
    }
    if (this.#emptyRun === 0) return;
    for (; k <= last; k++) {
      const place = zigzag[k] as number;
      if (block[place] !== 0) this.#correct(block, place, step);
    }
    this.#emptyRun--;
  }

  #correct(block: Int16Array, place: number, step: number): void {
    if (!this.#reader.bit()) return;
    const value = block[place] as number;
    if ((value & step) === 0) block[place] = value > 0 ? value + step : value - step;
  }
}
