// A PNode's identity in its directory: a stable id, a secret that proves it, and what was measured before.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../core/errors.ts";
import { type PNodeId, parseId } from "../core/ids.ts";
import type { Chance } from "../core/world.ts";

export interface Identity {
  readonly id: PNodeId;
  readonly secret: string;
}

export async function loadIdentity(directory: string, chance: Chance): Promise<Identity> {
  const path = join(directory, "pnode.json");
  const known = await readJson(path);
  if (known !== undefined) {
    const { id, secret } = known as Partial<Identity>;
    if (typeof id !== "string" || typeof secret !== "string" || secret.length < 16)
      fail("data_loss", `${path} is damaged: remove it, and this machine joins under a new id`);
    return { id: parseId<PNodeId>(id, `the id in ${path}`), secret };
  }
  const fresh: Identity = {
    id: `p${Buffer.from(chance.bytes(6)).toString("hex")}` as PNodeId,
    secret: Buffer.from(chance.bytes(24)).toString("base64url"),
  };
  await writeJson(path, fresh, 0o600);
  return fresh;
}

/** Remembers a measurement that depends on `key` alone; measures again when the key changes. */
export async function remembered<T>(
  directory: string,
  name: string,
  key: string,
  measure: () => Promise<T>,
): Promise<T> {
  const path = join(directory, name);
  const known = (await readJson(path)) as { key: string; value: T } | undefined;
  if (known?.key === key) return known.value;
  const value = await measure();
  await writeJson(path, { key, value }, 0o644);
  return value;
}

async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    return fail("failed_precondition", `cannot read ${path}: ${error.message}`);
  });
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return fail("data_loss", `${path} is damaged: remove it and start again`);
  }
}

async function writeJson(path: string, value: unknown, mode: number): Promise<void> {
  try {
    await writeFile(`${path}.new`, `${JSON.stringify(value)}\n`, { mode });
    await rename(`${path}.new`, path);
  } catch (error) {
    fail(
      "failed_precondition",
      `cannot write ${path}: ${(error as Error).message}. Choose another directory with --dir`,
    );
  }
}
