// One WGSL shader as text: which buffers it is bound to, and the functions that its code calls. Nothing here knows what a shader computes.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import type { DType } from "../../core/tensor.ts";
import type { View } from "../portable/views.ts";
import { functionsIn } from "./functions.ts";

/** What every WebGPU allows a shader to be bound to. */
export const bindingsMax = 8;

/** What every WebGPU allows along one axis of a dispatch. */
const groupsMax = 65_535;

/** Threads of a workgroup that walks elements. */
export const threads = 64;

export interface Binding {
  /** The number of its buffer. */
  readonly buffer: number;
  readonly writes: boolean;
}

export interface Dispatch {
  /** For people. */
  readonly what: string;
  readonly code: string;
  /** In their order. */
  readonly bindings: readonly Binding[];
  readonly groups: readonly [number, number, number];
  /** Whole numbers that the code reads: shaders that differ in those alone are compiled once. Bound behind the others. */
  readonly numbers: readonly number[];
}

/** How elements lie in a device's memory: as words, since a shader reads nothing smaller. Indices of 64 bits are below 2^31. */
export function wordOf(dtype: DType): "f32" | "i32" | "u32" {
  switch (dtype) {
    case "float32":
      return "f32";
    case "int32":
    case "int64":
      return "i32";
    case "bool":
      return "u32";
    default:
      return fail("unimplemented", `${dtype} does not run on the GPUs of browsers`);
  }
}

/** A float as WGSL reads it back to the same bits. */
export function literal(value: number): string {
  const float = Math.fround(value);
  assert(Number.isFinite(float), "WGSL has no literals but finite ones");
  return float < 0 || Object.is(float, -0) ? `(-${-float}f)` : `${float}f`;
}

/** As many workgroups, in rows where one axis does not hold them. Code finds its place by `group`. */
export function groupsFor(count: number): [number, number, number] {
  const x = Math.min(Math.max(count, 1), groupsMax);
  return [x, Math.ceil(Math.max(count, 1) / x), 1];
}

export class Shader {
  readonly #bindings = new Map<number, { readonly name: string; readonly word: string; writes: boolean }>();
  readonly #shared: string[] = [];
  readonly #numbers: number[] = [];

  #bound({ buffer, dtype }: View, writes: boolean): string {
    const known = this.#bindings.get(buffer) ?? { name: `b${this.#bindings.size}`, word: wordOf(dtype), writes };
    known.writes ||= writes;
    this.#bindings.set(buffer, known);
    return known.name;
  }

  /** The element at an index of the view's buffer; conditions are bools in code. */
  load(view: View, at: string): string {
    const element = `${this.#bound(view, false)}[${at}]`;
    return view.dtype === "bool" ? `(${element} != 0u)` : element;
  }

  store(view: View, at: string, value: string): string {
    const word = view.dtype === "bool" ? `select(0u, 1u, ${value})` : value;
    return `${this.#bound(view, true)}[${at}] = ${word};`;
  }

  /** How many elements the view's whole buffer has, as an i32. */
  length(view: View): string {
    return `i32(arrayLength(&${this.#bound(view, false)}))`;
  }

  /** A whole number that is no part of the code. */
  number(value: number): string {
    const at = this.#numbers.push(value) - 1;
    return `numbers[${Math.floor(at / 4)}].${"xyzw"[at % 4]}`;
  }

  /** Memory that a workgroup shares. */
  share(name: string, type: string): void {
    this.#shared.push(`var<workgroup> ${name}: ${type};`);
  }

  /** `size`: threads of a workgroup. The body sees `group` and `lane`, its own number in it, and has the workgroup's place in `at`. */
  finish(
    what: string,
    body: readonly string[],
    size: readonly [number, number],
    groups: readonly [number, number, number],
  ): Dispatch {
    const bound = [...this.#bindings];
    assert(
      bound.length <= bindingsMax,
      `${what} is bound to ${bound.length} buffers, at most ${bindingsMax} are allowed`,
    );
    const declared = bound.map(
      ([, { name, word, writes }], i) =>
        `@group(0) @binding(${i}) var<storage, ${writes ? "read_write" : "read"}> ${name}: array<${word}>;`,
    );
    if (this.#numbers.length > 0)
      declared.push(
        `@group(0) @binding(${bound.length}) var<uniform> numbers: array<vec4i, ${Math.ceil(this.#numbers.length / 4)}>;`,
      );
    const text = body.join("\n");
    const code = [
      ...declared,
      ...this.#shared,
      ...functionsIn(text),
      `@compute @workgroup_size(${size[0]}, ${size[1]}, 1)`,
      "fn main(@builtin(workgroup_id) at: vec3u, @builtin(num_workgroups) grid: vec3u, @builtin(local_invocation_id) place: vec3u) {",
      "let group = i32(at.y * grid.x + at.x);",
      `let lane = i32(place.y * ${size[0]}u + place.x);`,
      text,
      "}",
    ].join("\n");
    const bindings = bound.map(([buffer, { writes }]) => ({ buffer, writes }));
    return { what, code, bindings, groups, numbers: this.#numbers };
  }
}
