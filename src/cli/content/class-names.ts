// What a served classifier's outputs are called: the class names of the dataset that its session learned from, or those
// that its definition notes (`metadata: { classes: [..] }`), as imported models do.

import type { Client } from "../../client/client.ts";
import { hasCode } from "../../core/errors.ts";
import { type Manifest, parseManifest } from "../../data/manifest.ts";
import { parseDefinition } from "../../network/definition.ts";

/** Undefined if the labels were numbers. */
export function classesOf(manifest: Manifest): readonly string[] | undefined {
  return manifest.kind === "tensors" ? manifest.fields.find(({ name }) => name === "labels")?.classes : undefined;
}

/** Undefined if they are not known: no names anywhere, a dataset that is gone, a key that may not look. */
export async function classesOfModel(client: Client, model: string): Promise<readonly string[] | undefined> {
  const found = (await client.models.list()).find(({ name }) => name === model);
  if (found === undefined) return undefined;
  return (await classesOfSession(client, found.source)) ?? (await classesOfNetwork(client, found.network));
}

async function classesOfNetwork(client: Client, network: string): Promise<readonly string[] | undefined> {
  const found = await unlessGone(() => client.networks.get(network), undefined);
  const noted = found && parseDefinition(found.definition).metadata["classes"];
  return Array.isArray(noted) && noted.every((name) => typeof name === "string") ? noted : undefined;
}

async function classesOfSession(client: Client, source: string): Promise<readonly string[] | undefined> {
  return unlessGone(async () => {
    if (source === "") return undefined;
    const session = await client.sessions.get(source);
    const { dataset, manifest } = await client.datasets.get(session.settings?.dataset ?? "");
    // A younger dataset of that name is another one than the session learned from.
    if (!dataset || dataset.createdWallMs > session.createdWallMs) return undefined;
    return classesOf(parseManifest(manifest));
  }, undefined);
}

async function unlessGone<T>(ask: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (hasCode(error, "not_found") || hasCode(error, "permission_denied") || hasCode(error, "invalid_argument"))
      return otherwise;
    throw error;
  }
}

/** The class with the largest value of each row, in order; undefined if the last axis is not one for each class. */
export function likeliest(
  shape: readonly number[],
  values: readonly number[],
  classes: readonly string[],
): string[] | undefined {
  const each = classes.length;
  if (shape.length < 2 || shape.at(-1) !== each) return undefined;
  return Array.from({ length: values.length / each }, (_, i) => {
    const row = values.slice(i * each, (i + 1) * each);
    return classes[row.indexOf(Math.max(...row))] ?? "";
  });
}
