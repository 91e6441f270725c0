// Loops and places in memory as the kernels of stages write them.

import {
  addI32,
  type Code,
  get,
  i32,
  type Local,
  lessI32,
  type Statement,
  set,
  v128,
  whileLoop,
} from "../kernels/wasm.ts";

export type Int = Local<"i32">;

export const advance = (pointer: Int, by: Code<"i32">): Statement => set(pointer, addI32(get(pointer), by));
export const loadAt = (pointer: Int, offset = 0) => v128.load({ address: get(pointer), memory: 0 }, offset);
export const storeAt = (pointer: Int, value: Code<"v128">, offset = 0) =>
  v128.store({ address: get(pointer), memory: 0 }, value, offset);

/** `for (count = from; count < end; count += step) body`. */
export function counted(
  count: Int,
  from: Code<"i32">,
  end: Code<"i32">,
  body: readonly Statement[],
  step = 1,
): readonly Statement[] {
  return [set(count, from), whileLoop(lessI32(get(count), end), [...body, advance(count, i32(step))])];
}
