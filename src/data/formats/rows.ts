// Rows of numbers, from JSON lines and CSV: the first row decides the shapes, the others must agree with it.

import { fail } from "../../core/errors.ts";
import { elementCount, type Shape, type TensorData } from "../../core/tensor.ts";
import { entryOf } from "../../core/words/table.ts";
import type { FieldSpec } from "../build.ts";

export type NumberType = "float32" | "int32";

/** One sample: nested lists of numbers by field; the label may be a text, the name of its class. */
export type Row = Readonly<Record<string, unknown>>;

/** Fields of the first row. Inputs are floats unless told otherwise; labels are whole numbers if the first one is. */
export function fieldsOfRow(
  row: Row,
  types: Readonly<Record<string, NumberType | undefined>>,
  where: string,
  classes?: readonly string[],
): FieldSpec[] {
  return Object.entries(row).map(([name, value]) => {
    if (name === "labels" && classes) return { name, dtype: "int32", shape: [], classes };
    const shape = shapeOf(value, `${where}, field "${name}"`);
    const values: number[] = [];
    flatten(value, shape, 0, values, `${where}, field "${name}"`);
    const whole = name === "labels" && values.every((one) => Number.isInteger(one));
    return { name, dtype: entryOf(types, name) ?? (whole ? "int32" : "float32"), shape };
  });
}

export function valuesOfRow(row: Row, fields: readonly FieldSpec[], where: string): Record<string, TensorData> {
  return Object.fromEntries(
    fields.map((field) => {
      const what = `${where}, field "${field.name}"`;
      if (!Object.hasOwn(row, field.name)) fail("invalid_argument", `${what} is missing: every row needs it`);
      const values: number[] = [];
      flatten(row[field.name], field.shape, 0, values, what);
      return [field.name, field.dtype === "int32" ? wholeNumbers(values, what) : Float32Array.from(values)];
    }),
  );
}

function wholeNumbers(values: readonly number[], what: string): Int32Array {
  const wrong = values.find((value) => !Number.isInteger(value) || Math.abs(value) > 2 ** 31 - 1);
  if (wrong !== undefined)
    fail(
      "invalid_argument",
      `${what} has ${wrong}, expected 32-bit whole numbers like those of the first row: choose float32 for it`,
    );
  return Int32Array.from(values);
}

function shapeOf(value: unknown, what: string): Shape {
  const shape: number[] = [];
  for (let inner = value; Array.isArray(inner); inner = inner[0]) {
    if (inner.length === 0) fail("invalid_argument", `${what} is an empty list`);
    shape.push(inner.length);
    if (shape.length > 8) fail("invalid_argument", `${what} is nested more than 8 deep`);
  }
  return shape;
}

function flatten(value: unknown, shape: Shape, axis: number, into: number[], what: string): void {
  if (axis === shape.length) {
    if (typeof value !== "number" || !Number.isFinite(value))
      fail("invalid_argument", `${what} has ${JSON.stringify(value)?.slice(0, 40)} where a finite number is expected`);
    into.push(value);
    return;
  }
  if (!Array.isArray(value) || value.length !== shape[axis]) {
    const found = Array.isArray(value) ? `a list of ${value.length}` : JSON.stringify(value)?.slice(0, 40);
    fail(
      "invalid_argument",
      `${what} has ${found} where the first row has ${shape[axis]} values (shape [${shape}], ${elementCount(shape)} in all)`,
    );
  }
  for (const item of value) flatten(item, shape, axis + 1, into, what);
}
