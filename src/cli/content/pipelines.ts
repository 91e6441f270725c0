// What `dcnr data` gives a pipeline: the files that its person may read, and the datasets, vocabularies and models of a network.

import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Client } from "../../client/client.ts";
import { fail, messageOf } from "../../core/errors.ts";
import { canonicalJson, sha256 } from "../../core/hash.ts";
import type { Sha256 } from "../../core/ids.ts";
import { retry } from "../../core/retry.ts";
import type { Tensor } from "../../core/tensor.ts";
import { bytesOf } from "../../core/tensor.ts";
import type { World } from "../../core/world.ts";
import { isBelowOne, type ObjectGet } from "../../data/imports/source.ts";
import type { Models, Outside } from "../../pipeline/operator.ts";
import { DataType } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { readVocabulary, remoteDataset, sourceAccess } from "./datasets.ts";

/** A model may be placed anew, or an orchestrator start again, while it is asked. */
const patienceMs = 300_000;

export interface NetworkOutside {
  readonly client: Client;
  readonly world: Pick<World, "clock" | "timers" | "chance">;
  readonly signal: AbortSignal;
  /** Where the pipeline's file lies: relative paths begin there. */
  readonly folder: string;
  /** Only files below these are read, if any are named. */
  readonly folders: readonly string[];
  /** Somebody else has written the pipeline: only objects below those of `folders` that are buckets are read. */
  readonly isForeign?: boolean;
}

export function networkOutside(given: NetworkOutside): Outside {
  const { client, folders, isForeign = false } = given;
  const folder = resolve(given.folder);
  const { objectGet, ...access } = sourceAccess();
  return {
    access: {
      ...access,
      ...(objectGet && { objectGet: isForeign ? within(folders, objectGet) : objectGet }),
      ...(folders.length > 0 ? { folders } : {}),
    },
    folder,
    dataset: (name) => remoteDataset(client, name),
    vocabulary: async (name) => {
      const file = resolve(folder, name);
      if (name.endsWith(".json") && isForeign) await checkBelow(file, folders);
      return readVocabulary(client, name.endsWith(".json") ? file : name);
    },
    models: networkModels(given),
  };
}

/** Objects of buckets that were named, such as s3://corpora/web/, with the rights of whoever named them. */
function within(folders: readonly string[], get: ObjectGet): ObjectGet {
  const named = folders.filter((folder) => folder.startsWith("s3://")).map((folder) => folder.replace(/\/*$/, "/"));
  return (bucket, key, start) => {
    const location = `s3://${bucket}/${key}`;
    if (named.some((place) => location.startsWith(place))) return get(bucket, key, start);
    return fail("permission_denied", `${location} is in no bucket that may be read: name it by --folder s3://BUCKET/`);
  };
}

/** Fails unless a file lies below one of the folders, links followed; it need not be there yet. */
export async function checkBelow(file: string, folders: readonly string[]): Promise<void> {
  const real = await realpath(file).catch(async () => {
    const folder = dirname(file);
    return join(await realpath(folder).catch(() => folder), basename(file));
  });
  if (!(await isBelowOne(real, folders)))
    fail("permission_denied", `${file} is outside the folders that may be used: ${folders.join(", ")}`);
}

function networkModels({ client, world, signal }: NetworkOutside): Models {
  const patiently = <T>(attempt: () => Promise<T>) =>
    retry({ world, minMs: 200, maxMs: 5_000, patienceMs, signal }, attempt);
  return {
    async look(name) {
      const models = await client.models.list();
      const model = models.find((one) => one.name === name);
      // One that comes and goes by load has no replica while nobody asks.
      const isServed = (one: typeof model) =>
        one && (one.replicas > 0 || one.mostReplicas > 0) && one.status !== "failed";
      if (!model || !isServed(model)) {
        const served = models.filter(isServed).map((one) => one.name);
        fail(
          "failed_precondition",
          `the model ${name} is not served${served.length > 0 ? `, only ${served.join(", ")}` : ""}: dcnr serve ${name}`,
        );
      }
      const { definition, states, tokenizer } = await client.models.describe(name);
      const parts = states.map(({ vnode, blob }) => [vnode, blob?.hash]).sort();
      return {
        identity: sha256(canonicalJson({ definition, parts })),
        replicas: model.replicas,
        context: model.context,
        ...(tokenizer && { tokenizer: tokenizer.hash as Sha256 }),
      };
    },
    async tokenizer(name) {
      const { tokenizer } = await client.models.describe(name);
      if (!tokenizer) fail("failed_precondition", `the model ${name} has no vocabulary: it cannot read texts`);
      return new TextDecoder().decode(await client.download(tokenizer));
    },
    generate: (name, { prompt, ...options }) =>
      patiently(async () => {
        let text = "";
        for await (const piece of client.generate(name, prompt, { ...options, signal })) text += piece.text;
        return text;
      }),
    embed: (name, text) => patiently(async () => (await client.embed(name, text, { signal })).values),
    forward: (name, inputs) =>
      patiently(async () => {
        const { outputs } = await client.models.forward(name, { inputs: { inputs: wireTensor(inputs) } });
        return Object.values(outputs).map(({ shape, data }) => ({ shape, data: floats(data) }));
      }),
  };
}

function wireTensor(tensor: Tensor) {
  const dtype = tensor.dtype === "int32" ? DataType.INT32 : DataType.FLOAT32;
  return { dtype, shape: [...tensor.shape], data: bytesOf(tensor) as Uint8Array<ArrayBuffer> };
}

function floats(bytes: Uint8Array): Float32Array {
  const copy = bytes.slice();
  return new Float32Array(copy.buffer, 0, copy.byteLength / 4);
}

export async function parsePipelineFile(text: string, path: string): Promise<unknown> {
  const { parse } = await import("yaml");
  try {
    return parse(text, { maxAliasCount: 100, logLevel: "error" });
  } catch (thrown) {
    return fail("invalid_argument", `${path} is no YAML: ${messageOf(thrown).split("\n", 1)[0]}`);
  }
}
