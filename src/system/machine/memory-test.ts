// Whether memory gives back what was written into it: patterns that neighbours of a cell and its own address disturb in
// different ways, each written over a whole block before any of it is read. Finds cells that are broken or weak, not every fault that a machine can have.

/** One block at a time is written and read; all of them stay allocated, so that they are different memory. */
const blockBytes = 64 << 20;

export interface MemoryFound {
  readonly bytes: number;
  readonly errors: number;
  /** What was read first that had not been written. */
  readonly first?: string;
}

type Pattern = (index: number) => number;

const patterns: readonly Pattern[] = [
  () => 0x00000000,
  () => 0xffffffff,
  () => 0x55555555,
  () => 0xaaaaaaaa,
  (index) => index >>> 0,
  (index) => ~index >>> 0,
  // A number that looks like chance and follows from the place.
  (index) => Math.imul(index + 1, 0x9e3779b1) >>> 0,
];

/** `settle`: between writing and reading a block; others get their turn then. */
export async function testMemory(bytes: number, settle: (block: Uint32Array) => Promise<void>): Promise<MemoryFound> {
  const blocks: Uint32Array[] = [];
  for (let left = bytes; left >= 4; left -= blockBytes) blocks.push(new Uint32Array(Math.min(left, blockBytes) >>> 2));
  let errors = 0;
  let first: string | undefined;
  for (const pattern of patterns)
    for (const [number, block] of blocks.entries()) {
      for (let i = 0; i < block.length; i++) block[i] = pattern(i);
      await settle(block);
      for (let i = 0; i < block.length; i++) {
        const found = block[i] as number;
        if (found === pattern(i)) continue;
        errors++;
        first ??= `block ${number}, word ${i}: ${hex(pattern(i))} was written, ${hex(found)} read`;
      }
    }
  return { bytes, errors, ...(first === undefined ? {} : { first }) };
}

function hex(word: number): string {
  return `0x${word.toString(16).padStart(8, "0")}`;
}
