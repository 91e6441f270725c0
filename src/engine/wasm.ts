// A small typed emitter of WebAssembly: enough instructions for our SIMD kernels, checked by TypeScript's types
// instead of a toolchain. Nothing here knows what the kernels compute.

import { assert } from "../core/assert.ts";

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

const typeByte: Readonly<Record<ValueType, number>> = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b };

function unsigned(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  do {
    const low = rest % 128;
    rest = Math.floor(rest / 128);
    bytes.push(rest > 0 ? low | 0x80 : low);
  } while (rest > 0);
  return bytes;
}

function signed(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (;;) {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    const done = (rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0);
    bytes.push(done ? low : low | 0x80);
    if (done) return bytes;
  }
}

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
export const lessI32: Binary<"i32"> = binary("i32", 0x49);
export const addF64: Binary<"f64"> = binary("f64", 0xa0);

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

export const v128 = {
  and: simdBinary(78),
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

interface FunctionBody {
  readonly name: string;
  readonly parameters: readonly ValueType[];
  readonly locals: readonly ValueType[];
  readonly bytes: readonly number[];
}

/** Locals and statements of one function under construction. */
export class FunctionBuilder {
  readonly parameters: ValueType[] = [];
  readonly locals: ValueType[] = [];

  parameter<T extends ValueType>(type: T): Local<T> {
    assert(this.locals.length === 0, "parameters come before locals");
    this.parameters.push(type);
    return { type, index: this.parameters.length - 1 };
  }

  local<T extends ValueType>(type: T): Local<T> {
    this.locals.push(type);
    return { type, index: this.parameters.length + this.locals.length - 1 };
  }
}

/** A module that imports shared memories as `env.memory0` and so on, and exports its functions and globals by name. */
export class ModuleBuilder {
  readonly #memories: number;
  readonly #functions: FunctionBody[] = [];
  readonly #globals: { readonly name: string; readonly type: ValueType }[] = [];

  constructor(memories: number) {
    this.#memories = memories;
  }

  /** A mutable global that starts at 0. */
  global<T extends "f64" | "i64">(name: string, type: T): Global<T> {
    this.#globals.push({ name, type });
    return { type, index: this.#globals.length - 1 };
  }

  /** A function without result. */
  define(name: string, build: (builder: FunctionBuilder) => readonly Statement[]): void {
    const builder = new FunctionBuilder();
    const statements = build(builder);
    const { parameters, locals } = builder;
    this.#functions.push({ name, parameters, locals, bytes: statements.flat() });
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const functions = this.#functions;
    const types = functions.map(({ parameters }) => [0x60, ...vector(parameters.map((type) => [typeByte[type]])), 0]);
    // A shared memory of at most 65536 pages: every memory we allocate fits this import.
    const memories = Array.from({ length: this.#memories }, (_, index) => [
      ...name("env"),
      ...name(`memory${index}`),
      ...[0x02, 0x03, ...unsigned(0), ...unsigned(65536)],
    ]);
    const globals = this.#globals.map(({ type }) => [typeByte[type], 1, ...zeroOf(type), 0x0b]);
    const exports = [
      ...functions.map((body, index) => [...name(body.name), 0, ...unsigned(index)]),
      ...this.#globals.map((global, index) => [...name(global.name), 3, ...unsigned(index)]),
    ];
    const bodies = functions.map(({ locals, bytes }) => {
      const declared = vector(locals.map((type) => [1, typeByte[type]]));
      return [...unsigned(declared.length + bytes.length + 1), ...declared, ...bytes, 0x0b];
    });
    return Uint8Array.from([
      ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
      ...section(1, vector(types)),
      ...section(2, vector(memories)),
      ...section(3, vector(functions.map((_, index) => unsigned(index)))),
      ...section(6, vector(globals)),
      ...section(7, vector(exports)),
      ...section(10, vector(bodies)),
    ]);
  }
}

function zeroOf(type: ValueType): number[] {
  return type === "f64" ? [0x44, 0, 0, 0, 0, 0, 0, 0, 0] : [0x42, 0];
}

function vector(items: readonly (readonly number[])[]): number[] {
  return [...unsigned(items.length), ...items.flat()];
}

function section(id: number, content: readonly number[]): number[] {
  return [id, ...unsigned(content.length), ...content];
}

function name(text: string): number[] {
  const bytes = [...new TextEncoder().encode(text)];
  return [...unsigned(bytes.length), ...bytes];
}
