// What a member knows, as a few numbers: equal where two know the same, and in the right bucket different where not. An
// exclusive or over all members, so that each change costs one operation.

/** Kept in so many buckets and folded to as few as a small fleet needs; a power of two. */
export const digestsMax = 1_024;
const digestsLeast = 16;

/** Of somebody who is here. The dead leave no trace: that one knows of them and another never did is no difference. */
export function digestOf(place: number, sequence: number): number {
  return mix(mix(place ^ 0x9e3779b9) ^ mix(sequence));
}

/** A bijection of 32 bits that spreads every change over all of them. */
function mix(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x7feb352d);
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/** More would make digests, which always travel, smaller, and heads of what differs, which rarely do, larger. */
const membersPerBucket = 40;

export function bucketsFor(members: number): number {
  let count = digestsLeast;
  while (count < digestsMax && members > membersPerBucket * count) count *= 2;
  return count;
}

export function isBucketCount(count: number): boolean {
  return count >= digestsLeast && count <= digestsMax && Number.isInteger(Math.log2(count));
}

export function folded(digests: Uint32Array, count: number): Uint32Array {
  const result = new Uint32Array(count);
  const width = digests.length / count;
  for (let index = 0; index < digests.length; index++) {
    const bucket = Math.floor(index / width);
    result[bucket] = (result[bucket] as number) ^ (digests[index] as number);
  }
  return result;
}

export function differing(one: Uint32Array, other: Uint32Array): number[] {
  const found: number[] = [];
  for (let index = 0; index < one.length; index++) if (one[index] !== other[index]) found.push(index);
  return found;
}
