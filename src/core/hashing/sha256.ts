// SHA-256 for browsers, whose own is asynchronous: FIPS 180-4 as a WebAssembly module that is written here. Words of four
// blocks are expanded at once, one block in each lane; rounds are unrolled, so that the eight words of the state stay in
// registers and are never moved. Node's library is faster and is taken where there is one (hash.ts).

import { name, preamble, section, signed, unsigned, vector } from "./wasm-bytes.ts";

type Code = readonly number[];

const blockBytes = 64;
/** Blocks that are expanded side by side. */
const lanes = 4;
const rounds = 64;

// The module's memory: the state, expanded words of four blocks (those of one block lie 16 bytes apart), then the content.
const stateAt = 0;
const wordsAt = 64;
const contentAt = wordsAt + rounds * lanes * 4;
const contentBytes = 4096 * blockBytes;
const pages = Math.ceil((contentAt + contentBytes) / 65536);

const get = (local: number): Code => [0x20, ...unsigned(local)];
const set = (local: number, value: Code): Code => [...value, 0x21, ...unsigned(local)];
const number = (value: number): Code => [0x41, ...signed(BigInt(value | 0))];
const operation =
  (opcode: number) =>
  (a: Code, b: Code): Code => [...a, ...b, opcode];
const add = operation(0x6a);
const and = operation(0x71);
const xor = operation(0x73);
const atLeast = operation(0x4f);
const rotate = (value: Code, bits: number): Code => [...value, ...number(bits), 0x78];
const load = (address: Code, offset: number): Code => [...address, 0x28, 2, ...unsigned(offset)];
const store = (address: Code, value: Code, offset: number): Code => [
  ...address,
  ...value,
  0x36,
  2,
  ...unsigned(offset),
];

const simd = (opcode: number): Code => [0xfd, ...unsigned(opcode)];
const lanewise =
  (opcode: number) =>
  (a: Code, b: Code): Code => [...a, ...b, ...simd(opcode)];
const add4 = lanewise(174);
const xor4 = lanewise(81);
const or4 = lanewise(80);
const shift4 = (value: Code, right: number): Code => [...value, ...number(right), ...simd(173)];
const rotate4 = (value: Code, bits: number): Code =>
  or4(shift4(value, bits), [...value, ...number(32 - bits), ...simd(171)]);
const splat = (value: number): Code => [...number(value), ...simd(17)];
const loadVector = (address: Code, offset: number): Code => [...address, ...simd(0), 2, ...unsigned(offset)];
const storeVector = (address: Code, value: Code, offset: number): Code => [
  ...address,
  ...value,
  ...simd(11),
  2,
  ...unsigned(offset),
];
const shuffle = (a: Code, b: Code, bytes: readonly number[]): Code => [...a, ...b, ...simd(13), ...bytes];

function firstPrimes(count: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
}

/** The first 32 bits of the fraction of a root, by whole numbers: roots of the platform may be off by a bit. */
function fractionOfRoot(value: number, power: number): number {
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

const primes = firstPrimes(rounds);
const initial = Uint32Array.from(primes.slice(0, 8), (prime) => fractionOfRoot(prime, 2));

/** Locals of `compress`: where the content begins and ends, the state, scratch, sixteen vectors of words, four for blocks. */
const local = { start: 0, end: 1, state: 2, differs: 10, changed: 11, words: 12 } as const;

/** Big-endian words of four blocks from `start` on, each vector one word of each block. */
function transposed(): Code[] {
  const code: Code[] = [];
  const [one, two, three, four] = [0, 1, 2, 3].map((i) => get(local.words + 16 + i)) as [Code, Code, Code, Code];
  const pairLow = [3, 2, 1, 0, 19, 18, 17, 16, 7, 6, 5, 4, 23, 22, 21, 20];
  const pairHigh = [11, 10, 9, 8, 27, 26, 25, 24, 15, 14, 13, 12, 31, 30, 29, 28];
  const first = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
  const second = [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31];
  for (let group = 0; group < 4; group++) {
    for (let block = 0; block < lanes; block++)
      code.push(
        set(local.words + 16 + block, loadVector(get(local.start), contentAt + block * blockBytes + group * 16)),
      );
    const word = (i: number) => local.words + group * 4 + i;
    code.push(
      set(word(0), shuffle(shuffle(one, two, pairLow), shuffle(three, four, pairLow), first)),
      set(word(1), shuffle(shuffle(one, two, pairLow), shuffle(three, four, pairLow), second)),
      set(word(2), shuffle(shuffle(one, two, pairHigh), shuffle(three, four, pairHigh), first)),
      set(word(3), shuffle(shuffle(one, two, pairHigh), shuffle(three, four, pairHigh), second)),
    );
  }
  return code;
}

/** Words of all rounds with their constants added, into memory. */
function expanded(): Code[] {
  const code: Code[] = [];
  for (let round = 0; round < rounds; round++) {
    const word = (back: number) => get(local.words + ((round - back) & 15));
    if (round >= 16) {
      const small0 = xor4(xor4(rotate4(word(15), 7), rotate4(word(15), 18)), shift4(word(15), 3));
      const small1 = xor4(xor4(rotate4(word(2), 17), rotate4(word(2), 19)), shift4(word(2), 10));
      code.push(set(local.words + (round & 15), add4(add4(word(16), small0), add4(word(7), small1))));
    }
    const constant = splat(fractionOfRoot(primes[round] as number, 3));
    code.push(storeVector(number(0), add4(word(0), constant), wordsAt + round * lanes * 4));
  }
  return code;
}

/** The rounds of the block in that lane. */
function rounded(lane: number): Code[] {
  const code: Code[] = [];
  for (let i = 0; i < 8; i++) code.push(set(local.state + i, load(number(0), stateAt + i * 4)));
  // `b xor c` of a round is `a xor b` of the one before.
  code.push(set(local.changed, xor(get(local.state + 1), get(local.state + 2))));
  for (let round = 0; round < rounds; round++) {
    const index = (role: number) => local.state + ((role - round) & 7);
    const [a, b, d, e, f, g, h] = [0, 1, 3, 4, 5, 6, 7].map((role) => get(index(role))) as [
      ...[Code, Code, Code, Code, Code, Code, Code],
    ];
    const large1 = xor(xor(rotate(e, 6), rotate(e, 11)), rotate(e, 25));
    const large0 = rotate(xor(rotate(xor(rotate(a, 9), a), 11), a), 2);
    const chosen = xor(g, and(e, xor(f, g)));
    const word = load(number(0), wordsAt + (round * lanes + lane) * 4);
    // The majority of a, b and c is b, but where a differs from b and b from c.
    const majority = xor(and(get(local.differs), get(local.changed)), b);
    code.push(
      set(index(7), add(add(add(h, word), chosen), large1)),
      set(index(3), add(d, h)),
      set(local.differs, xor(a, b)),
      set(index(7), add(add(h, large0), majority)),
      set(local.changed, get(local.differs)),
    );
  }
  for (let i = 0; i < 8; i++)
    code.push(store(number(0), add(load(number(0), stateAt + i * 4), get(local.state + i)), stateAt + i * 4));
  return code;
}

/**
 * Four blocks at a time; what is behind the last one is expanded in vain, and the rounds of lanes without a block are left
 * out by leaving the loop.
 */
function compressCode(): Code {
  const body: Code[] = [...transposed(), ...expanded()];
  for (let lane = 0; lane < lanes; lane++) {
    body.push(rounded(lane).flat(), set(local.start, add(get(local.start), number(blockBytes))));
    body.push([...atLeast(get(local.start), get(local.end)), 0x0d, 1]);
  }
  return [0x02, 0x40, 0x03, 0x40, ...body.flat(), 0x0c, 0, 0x0b, 0x0b];
}

function moduleBytes(): Uint8Array<ArrayBuffer> {
  const locals = [
    [10, 0x7f],
    [20, 0x7b],
  ];
  const code = [...vector(locals), ...compressCode(), 0x0b];
  return Uint8Array.from([
    ...preamble,
    ...section(1, vector([[0x60, 2, 0x7f, 0x7f, 0]])),
    ...section(3, vector([[0]])),
    ...section(5, vector([[0, ...unsigned(pages)]])),
    ...section(
      7,
      vector([
        [...name("compress"), 0, 0],
        [...name("memory"), 2, 0],
      ]),
    ),
    ...section(10, vector([[...unsigned(code.length), ...code]])),
  ]);
}

export interface Sha256Hash {
  update(part: Uint8Array | string): void;
  /** 64 digits. The hash may be used anew then. */
  digest(): string;
}

/** One at a time: all contents go through the memory of one module. */
export function openSha256(): Sha256Hash {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(moduleBytes()));
  const { buffer } = exports["memory"] as WebAssembly.Memory;
  const compress = exports["compress"] as (start: number, end: number) => void;
  const state = new Uint32Array(buffer, stateAt, 8);
  const content = new Uint8Array(buffer, contentAt, contentBytes);
  const view = new DataView(buffer, contentAt, contentBytes);
  const text = new TextEncoder();
  let filled = 0;
  let length = 0;
  state.set(initial);
  const update = (part: Uint8Array) => {
    length += part.byteLength;
    for (let at = 0; at < part.byteLength; ) {
      const taken = Math.min(contentBytes - filled, part.byteLength - at);
      content.set(part.subarray(at, at + taken), filled);
      at += taken;
      filled += taken;
      if (filled < contentBytes) break;
      compress(0, contentBytes);
      filled = 0;
    }
  };
  return {
    update: (part) => update(typeof part === "string" ? text.encode(part) : part),
    digest() {
      const bits = BigInt(length) * 8n;
      update(padding.subarray(0, ((119 - (filled % blockBytes)) % blockBytes) + 1));
      view.setBigUint64(filled, bits);
      compress(0, filled + 8);
      const digits = Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
      state.set(initial);
      filled = 0;
      length = 0;
      return digits;
    },
  };
}

/** A one, then zeros until eight bytes are left of a block. */
const padding = Uint8Array.of(0x80, ...new Uint8Array(blockBytes - 1));
