// Tensors that people write down: nested lists of numbers, in a flag, a file or standard input.

import { readFile } from "node:fs/promises";
import { text as textOf } from "node:stream/consumers";
import { fail, messageOf } from "../../core/errors.ts";
import { DataType } from "../../protocol/gen/dcnr/v1/common_pb.ts";

export interface ExplicitTensor {
  readonly dtype: DataType;
  readonly shape: number[];
  readonly data: Uint8Array<ArrayBuffer>;
}

/** JSON itself, `@FILE`, or `-` for standard input. */
export async function readTensor(given: string, type: "float32" | "int32"): Promise<ExplicitTensor> {
  const text = await contentOf(given);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail(
      "invalid_argument",
      `--inputs is not JSON: ${messageOf(thrown)}; give samples such as [[0.1, 0.2], [0.3, 0.4]]`,
    );
  }
  const shape = shapeOf(value);
  if (shape.length === 0 || shape[0] === 0)
    fail("invalid_argument", "--inputs must be a list of samples, such as [[0.1, 0.2], [0.3, 0.4]]");
  const values: number[] = [];
  flatten(value, shape, "inputs", values);
  const whole = type === "int32" ? values.find((one) => !Number.isInteger(one)) : undefined;
  if (whole !== undefined) fail("invalid_argument", `--inputs has ${whole}, but the model takes whole numbers`);
  const data = type === "int32" ? Int32Array.from(values) : Float32Array.from(values);
  return {
    dtype: type === "int32" ? DataType.INT32 : DataType.FLOAT32,
    shape,
    data: new Uint8Array(data.buffer as ArrayBuffer),
  };
}

async function contentOf(given: string): Promise<string> {
  if (given === "-") return textOf(process.stdin);
  if (!given.startsWith("@")) return given;
  const path = given.slice(1);
  return readFile(path, "utf8").catch((thrown) =>
    fail("not_found", `${path} cannot be read: ${messageOf(thrown)}`, thrown),
  );
}

/** As the first item of each list has it. */
function shapeOf(value: unknown): number[] {
  return Array.isArray(value) ? [value.length, ...shapeOf(value[0])] : [];
}

function flatten(value: unknown, shape: readonly number[], where: string, into: number[]): void {
  const [length, ...rest] = shape;
  if (length === undefined) {
    if (typeof value !== "number" || !Number.isFinite(value))
      fail("invalid_argument", `${where} must be a number, found ${JSON.stringify(value)?.slice(0, 40)}`);
    into.push(value);
    return;
  }
  if (!Array.isArray(value) || value.length !== length)
    fail(
      "invalid_argument",
      `${where} must have ${length} values as its neighbours have: lists of one shape are needed`,
    );
  value.forEach((item, index) => {
    flatten(item, rest, `${where}[${index}]`, into);
  });
}
