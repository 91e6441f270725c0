// What a served classifier's outputs are called: the class names of the dataset that its session learned from.

import type { Client } from "../client/client.ts";
import { hasCode } from "../core/errors.ts";
import { type Manifest, parseManifest } from "../data/manifest.ts";

/** Undefined if the labels were numbers. */
export function classesOf(manifest: Manifest): readonly string[] | undefined {
  return manifest.kind === "tensors" ? manifest.fields.find(({ name }) => name === "labels")?.classes : undefined;
}

/** Undefined if they are not known: an imported model, a dataset that is gone, a key that may not look. */
export async function classesOfModel(client: Client, model: string): Promise<readonly string[] | undefined> {
  try {
    const source = (await client.models.list()).find(({ name }) => name === model)?.source;
    if (!source) return undefined;
    const session = await client.sessions.get(source);
    const { dataset, manifest } = await client.datasets.get(session.settings?.dataset ?? "");
    // A younger dataset of that name is another one than the session learned from.
    if (!dataset || dataset.createdWallMs > session.createdWallMs) return undefined;
    return classesOf(parseManifest(manifest));
  } catch (error) {
    if (hasCode(error, "not_found") || hasCode(error, "permission_denied") || hasCode(error, "invalid_argument"))
      return undefined;
    throw error;
  }
}

/** The class with the largest value of each sample; undefined if the values are not one for each class. */
export function likeliest(
  shape: readonly number[],
  values: readonly number[],
  classes: readonly string[],
): string[] | undefined {
  const [samples = 0, each] = shape;
  if (shape.length !== 2 || each !== classes.length) return undefined;
  return Array.from({ length: samples }, (_, i) => {
    const row = values.slice(i * each, (i + 1) * each);
    return classes[row.indexOf(Math.max(...row))] ?? "";
  });
}
