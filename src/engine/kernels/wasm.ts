// A small typed emitter of WebAssembly: the instructions that our kernels and the portable engine use, checked by
// TypeScript's types instead of a toolchain. Nothing here knows what they compute; wasm-module.ts makes modules of them.

import { signed, unsigned } from "../../core/hashing/wasm-bytes.ts";

export type ValueType = "i32" | "i64" | "f32" | "f64" | "v128";

/** An expression that leaves one value of type T. */
export interface Code<T extends ValueType> {
  readonly type: T;
  readonly bytes: readonly number[];
}

/** Instructions that leave nothing. */
export type Statement = readonly number[];

export interface Local<T extends ValueType> {
  readonly type: T;
  readonly index: number;
}

export interface Global<T extends ValueType> {
  readonly type: T;
  readonly index: number;
}

export const typeByte: Readonly<Record<ValueType, number>> = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b };

function code<T extends ValueType>(type: T, ...parts: (readonly number[] | number)[]): Code<T> {
  return { type, bytes: parts.flat() };
}

export const i32 = (value: number): Code<"i32"> => code("i32", 0x41, signed(BigInt(value | 0)));
export const get = <T extends ValueType>(local: Local<T>): Code<T> => code(local.type, 0x20, unsigned(local.index));
export const set = <T extends ValueType>(local: Local<T>, value: Code<T>): Statement => [
  ...value.bytes,
  0x21,
  ...unsigned(local.index),
];
export const getGlobal = <T extends ValueType>(global: Global<T>): Code<T> =>
  code(global.type, 0x23, unsigned(global.index));
export const setGlobal = <T extends ValueType>(global: Global<T>, value: Code<T>): Statement => [
  ...value.bytes,
  0x24,
  ...unsigned(global.index),
];

type Binary<T extends ValueType, R extends ValueType = T> = (a: Code<T>, b: Code<T>) => Code<R>;
type Unary<T extends ValueType, R extends ValueType = T> = (a: Code<T>) => Code<R>;

function binary<T extends ValueType, R extends ValueType>(result: R, opcode: number): Binary<T, R> {
  return (a, b) => code(result, a.bytes, b.bytes, opcode);
}

export const addI32: Binary<"i32"> = binary("i32", 0x6a);
export const subI32: Binary<"i32"> = binary("i32", 0x6b);
export const mulI32: Binary<"i32"> = binary("i32", 0x6c);
export const andI32: Binary<"i32"> = binary("i32", 0x71);
export const shiftRightI32: Binary<"i32"> = binary("i32", 0x76);
export const shiftRightSignedI32: Binary<"i32"> = binary("i32", 0x75);
export const equalI32: Binary<"i32"> = binary("i32", 0x46);
export const unequalI32: Binary<"i32"> = binary("i32", 0x47);
/** Comparisons of unsigned numbers, as addresses and counts are. */
export const lessI32: Binary<"i32"> = binary("i32", 0x49);
export const atLeastI32: Binary<"i32"> = binary("i32", 0x4f);
export const addF32: Binary<"f32"> = binary("f32", 0x92);
export const subF32: Binary<"f32"> = binary("f32", 0x93);
export const mulF32: Binary<"f32"> = binary("f32", 0x94);

export const f32 = (value: number): Code<"f32"> =>
  code("f32", 0x43, [...new Uint8Array(Float32Array.of(value).buffer)]);

/** `a` where the condition is not 0, else `b`; both are computed. */
export const choose = <T extends "i32" | "f32">(condition: Code<"i32">, a: Code<T>, b: Code<T>): Code<T> =>
  code(a.type, a.bytes, b.bytes, condition.bytes, 0x1b);
export const smallerI32 = (a: Code<"i32">, b: Code<"i32">): Code<"i32"> => choose(lessI32(a, b), a, b);

function simdBinary(opcode: number): Binary<"v128"> {
  return (a, b) => code("v128", a.bytes, b.bytes, 0xfd, unsigned(opcode));
}

function simdUnary<T extends ValueType>(opcode: number): Unary<T, "v128"> {
  return (a) => code("v128", a.bytes, 0xfd, unsigned(opcode));
}

function simdShift(opcode: number): (a: Code<"v128">, count: number) => Code<"v128"> {
  return (a, count) => code("v128", a.bytes, i32(count).bytes, 0xfd, unsigned(opcode));
}

function simdLane<T extends ValueType>(type: T, opcode: number): (a: Code<"v128">, lane: number) => Code<T> {
  return (a, lane) => code(type, a.bytes, 0xfd, unsigned(opcode), lane);
}

export const splatF32: Unary<"f32", "v128"> = simdUnary(19);
export const splatI32: Unary<"i32", "v128"> = simdUnary(17);
export const splatF64: Unary<"f64", "v128"> = simdUnary(20);

/** An address in one of the module's memories. */
export interface Place {
  readonly address: Code<"i32">;
  readonly memory: number;
}

/** Alignment is a hint, 2^4 bytes; bit 6 says that the memory's number follows. */
function memoryArgument(memory: number, offset: number): number[] {
  return memory === 0 ? [4, ...unsigned(offset)] : [0x44, ...unsigned(memory), ...unsigned(offset)];
}

/** Scalars in memory 0; the hint is their natural alignment. */
export const load = {
  i32: (address: Code<"i32">, offset = 0) => code("i32", address.bytes, 0x28, 2, unsigned(offset)),
  f32: (address: Code<"i32">, offset = 0) => code("f32", address.bytes, 0x2a, 2, unsigned(offset)),
  byte: (address: Code<"i32">, offset = 0) => code("i32", address.bytes, 0x2d, 0, unsigned(offset)),
};

export const store = {
  i32: (address: Code<"i32">, value: Code<"i32">, offset = 0): Statement => [
    ...address.bytes,
    ...value.bytes,
    0x36,
    2,
    ...unsigned(offset),
  ],
  f32: (address: Code<"i32">, value: Code<"f32">, offset = 0): Statement => [
    ...address.bytes,
    ...value.bytes,
    0x38,
    2,
    ...unsigned(offset),
  ],
};

/** An instruction that loads into, or stores from, one lane of a vector. `align` is log2 of the lane's bytes. */
function laneMemory(
  opcode: number,
  align: number,
  address: Code<"i32">,
  vector: Code<"v128">,
  lane: number,
  at: number,
) {
  return [...address.bytes, ...vector.bytes, 0xfd, opcode, align, ...unsigned(at), lane];
}

export const v128 = {
  not: simdUnary<"v128">(77),
  anyTrue: (a: Code<"v128">) => code("i32", a.bytes, 0xfd, 83),
  /** One 32-bit word in all lanes. */
  loadSplat: (address: Code<"i32">, offset = 0) => code("v128", address.bytes, 0xfd, 9, 2, unsigned(offset)),
  /** One 32-bit word in the first lane, zeros in the others. */
  loadFirst: (address: Code<"i32">, offset = 0) => code("v128", address.bytes, 0xfd, 92, 2, unsigned(offset)),
  /** Two 32-bit words in the first lanes, zeros in the others. */
  loadPair: (address: Code<"i32">, offset = 0) => code("v128", address.bytes, 0xfd, 93, 3, unsigned(offset)),
  loadLane: (address: Code<"i32">, vector: Code<"v128">, lane: number, offset = 0): Code<"v128"> => ({
    type: "v128",
    bytes: laneMemory(86, 2, address, vector, lane, offset),
  }),
  loadByteLane: (address: Code<"i32">, vector: Code<"v128">, lane: number, offset = 0): Code<"v128"> => ({
    type: "v128",
    bytes: laneMemory(84, 0, address, vector, lane, offset),
  }),
  storeLane: (address: Code<"i32">, vector: Code<"v128">, lane: number, offset = 0): Statement =>
    laneMemory(90, 2, address, vector, lane, offset),
  storeByteLane: (address: Code<"i32">, vector: Code<"v128">, lane: number, offset = 0): Statement =>
    laneMemory(88, 0, address, vector, lane, offset),
  and: simdBinary(78),
  /** Bits of `a` that `b` has not. */
  without: simdBinary(79),
  or: simdBinary(80),
  xor: simdBinary(81),
  /** Bits of `a` where `mask` has ones, else bits of `b`. */
  select: (a: Code<"v128">, b: Code<"v128">, mask: Code<"v128">) =>
    code("v128", a.bytes, b.bytes, mask.bytes, 0xfd, unsigned(82)),
  load: ({ address, memory }: Place, offset = 0) =>
    code("v128", address.bytes, 0xfd, 0, memoryArgument(memory, offset)),
  store: ({ address, memory }: Place, value: Code<"v128">, offset = 0): Statement => [
    ...address.bytes,
    ...value.bytes,
    0xfd,
    11,
    ...memoryArgument(memory, offset),
  ],
  words: (a: number, b: number, c: number, d: number) =>
    code("v128", 0xfd, 12, [...new Uint8Array(Uint32Array.of(a, b, c, d).buffer)]),
  /** Four 32-bit lanes out of the eight of `a` and `b`. */
  shuffle: (a: Code<"v128">, b: Code<"v128">, lanes: readonly [number, number, number, number]) =>
    code(
      "v128",
      a.bytes,
      b.bytes,
      0xfd,
      13,
      lanes.flatMap((lane) => [0, 1, 2, 3].map((byte) => lane * 4 + byte)),
    ),
};

export const f32x4 = {
  splat: (value: number) => {
    const bytes = [...new Uint8Array(Float32Array.of(value).buffer)];
    return code("v128", 0xfd, 12, bytes, bytes, bytes, bytes);
  },
  equal: simdBinary(65),
  less: simdBinary(67),
  greater: simdBinary(68),
  atLeast: simdBinary(70),
  neg: simdUnary<"v128">(225),
  min: simdBinary(232),
  max: simdBinary(233),
  lane: simdLane("f32", 31),
  /** Rounds toward zero; what does not fit becomes the nearest that does, NaN becomes 0. */
  truncate: simdUnary<"v128">(248),
  ofSigned: simdUnary<"v128">(250),
  abs: simdUnary<"v128">(224),
  sqrt: simdUnary<"v128">(227),
  add: simdBinary(228),
  sub: simdBinary(229),
  mul: simdBinary(230),
  div: simdBinary(231),
};

export const f64x2 = {
  splat: (value: number) => {
    const bytes = [...new Uint8Array(Float64Array.of(value).buffer)];
    return code("v128", 0xfd, 12, bytes, bytes);
  },
  less: simdBinary(73),
  greaterOrEqual: simdBinary(76),
  floor: simdUnary<"v128">(117),
  sqrt: simdUnary<"v128">(239),
  add: simdBinary(240),
  sub: simdBinary(241),
  mul: simdBinary(242),
  div: simdBinary(243),
  /** The lower two unsigned 32-bit lanes as doubles. */
  convertLowUnsigned: simdUnary<"v128">(255),
  /** Two doubles rounded to the lower two floats; the upper ones are 0. */
  demote: simdUnary<"v128">(94),
  /** The lower two floats as doubles. */
  promoteLow: simdUnary<"v128">(95),
  lane: simdLane("f64", 33),
  replaceLane: (a: Code<"v128">, lane: number, value: Code<"f64">) =>
    code("v128", a.bytes, value.bytes, 0xfd, unsigned(34), lane),
};

export const i32x4 = {
  splat: (value: number) => v128.words(value, value, value, value),
  equal: simdBinary(55),
  lessSigned: simdBinary(57),
  greaterSigned: simdBinary(59),
  neg: simdUnary<"v128">(161),
  mul: simdBinary(181),
  shiftRightSigned: simdShift(172),
  /** The lowest four bytes as four words. */
  ofBytes: (a: Code<"v128">) => code("v128", a.bytes, 0xfd, unsigned(137), 0xfd, unsigned(169)),
  lessUnsigned: simdBinary(58),
  greaterUnsigned: simdBinary(60),
  shiftLeft: simdShift(171),
  shiftRight: simdShift(173),
  add: simdBinary(174),
  sub: simdBinary(177),
};

export const i64x2 = {
  shiftLeft: simdShift(203),
  shiftRight: simdShift(205),
  add: simdBinary(206),
  sub: simdBinary(209),
  mul: simdBinary(213),
  /** Full products of the lower, or upper, two unsigned 32-bit lanes. */
  productLow: simdBinary(222),
  productHigh: simdBinary(223),
  lane: simdLane("i64", 29),
  replaceLane: (a: Code<"v128">, lane: number, value: Code<"i64">) =>
    code("v128", a.bytes, value.bytes, 0xfd, unsigned(30), lane),
};

/** Repeats `body` while `condition` holds. */
export function whileLoop(condition: Code<"i32">, body: readonly Statement[]): Statement {
  return [0x02, 0x40, 0x03, 0x40, ...condition.bytes, 0x45, 0x0d, 1, ...body.flat(), 0x0c, 0, 0x0b, 0x0b];
}

/** Runs `body`, then repeats it while `condition` holds. */
export function repeatWhile(condition: Code<"i32">, body: readonly Statement[]): Statement {
  return [0x03, 0x40, ...body.flat(), ...condition.bytes, 0x0d, 0, 0x0b];
}

export function when(
  condition: Code<"i32">,
  then: readonly Statement[],
  otherwise: readonly Statement[] = [],
): Statement {
  const rest = otherwise.length === 0 ? [] : [0x05, ...otherwise.flat()];
  return [...condition.bytes, 0x04, 0x40, ...then.flat(), ...rest, 0x0b];
}

/** A function without result, by its number in the module. */
export const call = (index: number, ...given: readonly Code<ValueType>[]): Statement => [
  ...given.flatMap(({ bytes }) => bytes),
  0x10,
  ...unsigned(index),
];

/** Ends the run; the caller gets a WebAssembly.RuntimeError. */
export const trap: Statement = [0x00];
