// What the kernels' modules share: loops over bytes, operands as pointers into a memory, numbers as parameters.

import {
  addI32,
  type Code,
  get,
  i32,
  type Local,
  lessI32,
  type Place,
  type Statement,
  set,
  splatF32,
  v128,
  whileLoop,
} from "./wasm.ts";
import type { FunctionBuilder } from "./wasm-module.ts";

export type Vector = Code<"v128">;

/** A loop over groups of `step` bytes; the first parameter of every function is the number of bytes. */
export function forBytes(
  builder: FunctionBuilder,
  bytes: Local<"i32">,
  step: number,
  body: (at: Local<"i32">) => Statement[],
) {
  const at = builder.local("i32");
  return whileLoop(lessI32(get(at), get(bytes)), [...body(at), set(at, addI32(get(at), i32(step)))]);
}

/** For every operand, the number of the memory that it lies in. */
export type Memories = readonly number[];

/** Where an operand starts, and in which memory it lies. */
export interface Pointer {
  readonly local: Local<"i32">;
  readonly memory: number;
}

export function pointers<Name extends string>(
  builder: FunctionBuilder,
  memories: Memories,
  ...names: Name[]
): Record<Name, Pointer> {
  const entries = names.map((name, i) => [name, { local: builder.parameter("i32"), memory: memories[i] ?? 0 }]);
  return Object.fromEntries(entries) as Record<Name, Pointer>;
}

export function integers<Name extends string>(builder: FunctionBuilder, ...names: Name[]): Record<Name, Local<"i32">> {
  return Object.fromEntries(names.map((name) => [name, builder.parameter("i32")])) as Record<Name, Local<"i32">>;
}

export function numbers<Name extends string>(builder: FunctionBuilder, ...names: Name[]): Record<Name, Vector> {
  const entries = names.map((name) => [name, splatF32(get(builder.parameter("f32")))]);
  return Object.fromEntries(entries) as Record<Name, Vector>;
}

export const at = (pointer: Pointer, offset: Local<"i32">): Place => ({
  address: addI32(get(pointer.local), get(offset)),
  memory: pointer.memory,
});

/** Hoists splats out of the loop. */
export function keep(
  builder: FunctionBuilder,
  vectors: Record<string, Vector>,
  before: Statement[],
): Record<string, Vector> {
  return Object.fromEntries(
    Object.entries(vectors).map(([name, vector]) => {
      const local = builder.local("v128");
      before.push(set(local, vector));
      return [name, get(local)];
    }),
  );
}

export const splat = (word: number): Vector => v128.words(word, word, word, word);
