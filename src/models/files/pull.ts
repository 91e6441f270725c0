// Fetches the files of a model from a hub that lays them out as Hugging Face's does: what import reads, nothing else.
// Files are written whole or not at all, and those that are already there whole are not fetched again.

import { mkdir, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fail, hasCode } from "../../core/errors.ts";
import type { Download } from "../../data/imports/download.ts";
import { poolingFiles } from "./pooling-files.ts";
import { readJson } from "./safetensors.ts";

export interface PullOptions {
  /** Where the hub is: `https://huggingface.co`. */
  readonly hub: string;
  /** A branch, tag or commit. */
  readonly revision: string;
  /** Begins a download; `not_found` where the hub has no such file. */
  readonly fetch: (url: string) => Promise<Download>;
  readonly onProgress?: (progress: {
    readonly file: string;
    readonly bytes: number;
    readonly of: number | undefined;
  }) => void;
}

const small = [
  "tokenizer.json",
  "tokenizer_config.json",
  "generation_config.json",
  "chat_template.jinja",
  "modules.json",
];
const indexFile = "model.safetensors.index.json";
const indexBytesMax = 32 << 20;

/** `owner/name`, or a name alone for the oldest models. Gives the files that are in the folder now. */
export async function pullModel(name: string, folder: string, options: PullOptions): Promise<string[]> {
  if (!/^[\w][\w.-]*(\/[\w][\w.-]*)?$/.test(name) || name.includes(".."))
    fail(
      "invalid_argument",
      `"${name.slice(0, 80)}" is no name of a model: expected OWNER/NAME, such as Qwen/Qwen2.5-0.5B`,
    );
  if (!/^[\w][\w./-]*$/.test(options.revision) || options.revision.includes(".."))
    fail("invalid_argument", `"${options.revision.slice(0, 80)}" is no branch, tag or commit`);
  await mkdir(folder, { recursive: true });
  const pulled = await pulledBefore(folder);
  const fetchFile = (file: string) =>
    fetchInto(folder, file, `${options.hub}/${name}/resolve/${options.revision}/${file}`, options, pulled);
  if (!(await fetchFile("config.json")))
    fail("not_found", `${options.hub} has no model "${name}", or it has no config.json there`);
  const files = ["config.json"];
  for (const file of small) if (await fetchFile(file)) files.push(file);
  // How texts become vectors: without it import would take the mean.
  for (const file of await poolingFiles(folder)) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    if (await fetchFile(file)) files.push(file);
  }
  const weights = (await fetchFile(indexFile)) ? [indexFile, ...(await shardsIn(folder))] : ["model.safetensors"];
  for (const file of weights) {
    if (file !== indexFile && !(await fetchFile(file)))
      fail("not_found", `"${name}" has no ${file}: only models with safetensors files can be pulled`);
    files.push(file);
  }
  return files;
}

/** Names come from the hub: they must be files of this folder. */
async function shardsIn(folder: string): Promise<string[]> {
  const { weight_map: map } = await readJson(join(folder, indexFile), indexBytesMax);
  const shards = new Set(Object.values((map ?? {}) as Record<string, unknown>).map(String));
  for (const shard of shards)
    if (shard !== basename(shard) || !/^[\w][\w.-]*\.safetensors$/.test(shard))
      fail("permission_denied", `${indexFile} names "${shard.slice(0, 80)}", which is not a file of the model`);
  return [...shards].sort();
}

/** What the hub said of each file when it was fetched: another revision's files, or another owner's, may be just as long. */
type Pulled = Record<string, string>;
const pulledFile = ".pulled.json";

async function pulledBefore(folder: string): Promise<Pulled> {
  return readJson(join(folder, pulledFile), indexBytesMax).catch((error) => {
    if (hasCode(error, "not_found")) return {};
    throw error;
  }) as Promise<Pulled>;
}

/** False: the hub has no such file. */
async function fetchInto(
  folder: string,
  file: string,
  url: string,
  { fetch, onProgress }: PullOptions,
  pulled: Pulled,
): Promise<boolean> {
  let answer: Download;
  try {
    answer = await fetch(url);
  } catch (error) {
    if (hasCode(error, "not_found")) return false;
    throw error;
  }
  const path = join(folder, file);
  const before = await stat(path).catch(() => undefined);
  const mark = answer.tag || url;
  if (before && before.size === answer.bytes && pulled[file] === mark) {
    // A body that nobody begins to read would keep its connection open.
    for await (const _ of answer.body) break;
    return true;
  }
  const part = `${path}.part`;
  const out = await open(part, "w");
  let bytes = 0;
  try {
    for await (const chunk of answer.body) {
      await out.write(chunk);
      bytes += chunk.byteLength;
      onProgress?.({ file, bytes, of: answer.bytes });
    }
    await out.close();
    if (answer.bytes !== undefined && bytes !== answer.bytes)
      fail("unavailable", `${url} ended after ${bytes} of ${answer.bytes} bytes: try again`);
    await rename(part, path);
    pulled[file] = mark;
    await writeFile(join(folder, pulledFile), JSON.stringify(pulled));
    return true;
  } catch (error) {
    await out.close().catch(() => {});
    await rm(part, { force: true });
    throw error;
  }
}
