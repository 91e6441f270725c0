// Whole numbers of the wire, which has 64 bits for them, as numbers that can be counted with and sent on.

/** What is larger or smaller than any true value becomes the most or the least that a number holds exactly. */
export function wholeOf(value: bigint): number {
  return Number(value > most ? most : value < -most ? -most : value);
}

const most = BigInt(Number.MAX_SAFE_INTEGER);
