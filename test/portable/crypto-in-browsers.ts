// node:crypto's createHash("sha256") and hash() for the bundled page, as FIPS 180-4 describes it.

const primes = firstPrimes(64);
const fraction = (value: number) => Math.floor((value - Math.floor(value)) * 2 ** 32);
const roundConstants = primes.map((prime) => exactFraction(prime, 3));
const initial = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

function firstPrimes(count: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
}

/** The first 32 bits of the fraction of a root, by whole numbers: cube roots of the platform may be off by a bit. */
function exactFraction(value: number, power: number): number {
  const scaled = BigInt(value) << BigInt(32 * power);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(power) <= scaled) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}

const rotate = (word: number, bits: number) => (word >>> bits) | (word << (32 - bits));

function compress(state: Uint32Array, block: DataView): void {
  const w = new Uint32Array(64);
  for (let i = 0; i < 16; i++) w[i] = block.getUint32(i * 4);
  for (let i = 16; i < 64; i++) {
    const [a, b] = [w[i - 15] as number, w[i - 2] as number];
    const s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
    const s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
    w[i] = (w[i - 16] as number) + s0 + (w[i - 7] as number) + s1;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + (roundConstants[i] as number) + (w[i] as number)) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + word;
}

export function createHash(_algorithm: "sha256") {
  const parts: Uint8Array[] = [];
  return {
    update(part: Uint8Array | string) {
      parts.push(typeof part === "string" ? new TextEncoder().encode(part) : part.slice());
      return this;
    },
    digest(_encoding: "hex"): string {
      const length = parts.reduce((sum, part) => sum + part.length, 0);
      const padded = new Uint8Array(Math.ceil((length + 9) / 64) * 64);
      let at = 0;
      for (const part of parts) {
        padded.set(part, at);
        at += part.length;
      }
      padded[length] = 0x80;
      new DataView(padded.buffer).setBigUint64(padded.length - 8, BigInt(length) * 8n);
      const state = Uint32Array.from(initial);
      for (let start = 0; start < padded.length; start += 64) compress(state, new DataView(padded.buffer, start, 64));
      return [...state].map((word) => word.toString(16).padStart(8, "0")).join("");
    },
  };
}

/** node:crypto's hash(), for one content. */
export function hash(algorithm: "sha256", content: Uint8Array | string, encoding: "hex"): string {
  return createHash(algorithm).update(content).digest(encoding);
}
