// What was measured before, kept in a PNode's directory.

import { join } from "node:path";
import { fail } from "../../core/errors.ts";
import { readWhole, writeWhole } from "./whole-file.ts";

/** A measurement that depends on `key` alone, kept in the PNode's directory. */
export class Remembered<T> {
  readonly #path: string;
  readonly #key: string;

  constructor(directory: string, name: string, key: string) {
    this.#path = join(directory, name);
    this.#key = key;
  }

  async get(): Promise<T | undefined> {
    const known = (await readJson(this.#path)) as { key: string; value: T } | undefined;
    return known?.key === this.#key ? known.value : undefined;
  }

  async set(value: T): Promise<T> {
    await writeJson(this.#path, { key: this.#key, value }, 0o644);
    return value;
  }
}

async function readJson(path: string): Promise<unknown> {
  const text = await readWhole(path).catch((error: Error) =>
    fail("failed_precondition", `cannot read ${path}: ${error.message}`),
  );
  try {
    return text === undefined ? undefined : JSON.parse(new TextDecoder().decode(text));
  } catch {
    return fail("data_loss", `${path} is damaged: remove it and start again`);
  }
}

async function writeJson(path: string, value: unknown, mode: number): Promise<void> {
  try {
    await writeWhole(path, `${JSON.stringify(value)}\n`, mode);
  } catch (error) {
    fail(
      "failed_precondition",
      `cannot write ${path}: ${(error as Error).message}. Choose another directory with --dir`,
    );
  }
}
