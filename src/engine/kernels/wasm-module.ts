// Modules out of the expressions of wasm.ts: functions with their locals, globals, one import per memory.

import { assert } from "../../core/assert.ts";
import { name, preamble, section, unsigned, vector } from "../../core/hashing/wasm-bytes.ts";
import { type Code, type Global, get, type Local, type Statement, set, typeByte, type ValueType } from "./wasm.ts";

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
  readonly #literals = new Map<string, Local<"v128">>();
  readonly #before: number[] = [];
  #code: number[] = [];

  parameter<T extends ValueType>(type: T): Local<T> {
    assert(this.locals.length === 0, "parameters come before locals");
    this.parameters.push(type);
    return { type, index: this.parameters.length - 1 };
  }

  local<T extends ValueType>(type: T): Local<T> {
    this.locals.push(type);
    return { type, index: this.parameters.length + this.locals.length - 1 };
  }

  /** Appends to the body. */
  emit(...statements: readonly Statement[]): void {
    for (const statement of statements) for (const byte of statement) this.#code.push(byte);
  }

  /** A new local that holds the value from here on. */
  keep<T extends ValueType>(value: Code<T>): Local<T> {
    const local = this.local(value.type);
    this.emit(set(local, value));
    return local;
  }

  /**
   * A constant vector that is made once, at the function's start: V8 takes several instructions to make one, and makes it
   * again in every round of a loop.
   */
  literal(constant: Code<"v128">): Code<"v128"> {
    const key = constant.bytes.join();
    let local = this.#literals.get(key);
    if (local === undefined) {
      local = this.local("v128");
      this.#literals.set(key, local);
      for (const byte of set(local, constant)) this.#before.push(byte);
    }
    return get(local);
  }

  /** What `body` emits, as one statement instead of in the body. */
  captured(body: () => void): Statement {
    const before = this.#code;
    this.#code = [];
    body();
    const inside = this.#code;
    this.#code = before;
    return inside;
  }

  get code(): Statement {
    return [...this.#before, ...this.#code];
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
  global<T extends "i32" | "f64" | "i64">(name: string, type: T): Global<T> {
    this.#globals.push({ name, type });
    return { type, index: this.#globals.length - 1 };
  }

  /** A function without result; gives its number. Its body is what `build` emits, then what it returns. */
  define(name: string, build: (builder: FunctionBuilder) => readonly Statement[] | undefined): number {
    const builder = new FunctionBuilder();
    const returned = build(builder) ?? [];
    const { parameters, locals } = builder;
    this.#functions.push({ name, parameters, locals, bytes: [...builder.code, ...returned.flat()] });
    return this.#functions.length - 1;
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
      ...preamble,
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
  return type === "f64" ? [0x44, 0, 0, 0, 0, 0, 0, 0, 0] : [type === "i32" ? 0x41 : 0x42, 0];
}
