// Where pipelines work on a machine: a folder with shards named by their hashes, one file for each step that is done, and for one
// that is under way its log, its notes and what does not fit into memory. Every file appears whole, by a rename, and a log's last
// line may be torn: whoever is killed at any moment leaves nothing behind that could mislead the next one.

import { appendFileSync, closeSync, openSync, readFileSync, readSync, renameSync, writeFileSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Clock } from "../core/world.ts";
import type { Blobs, NamedBlob, Note, Spill } from "./kit.ts";

/** A step that is under way. */
export interface Bench {
  readonly spill: Spill;
  /** Results by stage and task, as far as they were recorded. */
  readonly recorded: ReadonlyMap<string, ReadonlyMap<number, unknown>>;
  record(stage: string, task: number, result: unknown): void;
  note<Word>(name: string): Note<Word>;
  /** The step is done, or begins anew: nothing of it is needed any more. */
  clear(): Promise<void>;
}

export interface Workshop {
  readonly blobs: Blobs;
  /** What a step made, if it is done. */
  result(key: Sha256): Promise<unknown>;
  finish(key: Sha256, result: unknown): Promise<void>;
  forget(key: Sha256): Promise<void>;
  bench(key: Sha256): Promise<Bench>;
  /** Where shards take more than that, forgets the steps that nobody used for longest, and what was interrupted; `blobsOf` says what a result needs. */
  sweep(bytesMax: number, blobsOf: (result: unknown) => readonly NamedBlob[]): Promise<void>;
}

const noteEveryMs = 1_000;

export async function openWorkshop(folder: string, clock: Clock): Promise<Workshop> {
  const blobFolder = join(folder, "blobs");
  const stepFolder = join(folder, "steps");
  for (const path of [blobFolder, stepFolder, join(folder, "open")]) await mkdir(path, { recursive: true });
  const blobs = openFolderBlobs(blobFolder);
  const stepPath = (key: Sha256) => join(stepFolder, `${key}.json`);

  return {
    blobs,
    async result(key) {
      const text = await readFile(stepPath(key), "utf8").catch(() => undefined);
      if (text === undefined) return undefined;
      const seconds = clock.wallMs() / 1000;
      await utimes(stepPath(key), seconds, seconds).catch(() => {});
      return JSON.parse(text);
    },
    finish: (key, result) => writeWhole(stepPath(key), JSON.stringify(result)),
    forget: (key) => rm(stepPath(key), { force: true }),
    bench: (key) => openBench(join(folder, "open", key), clock),
    async sweep(bytesMax, blobsOf) {
      const sizes = await sizesIn(blobFolder);
      const all = sizes.values().reduce((sum, bytes) => sum + bytes, 0);
      if (all <= bytesMax) return;
      // What was interrupted begins anew: its shards may go.
      await rm(join(folder, "open"), { recursive: true, force: true });
      const kept = new Set<string>();
      let bytes = 0;
      for (const path of await newestFirst(stepFolder)) {
        const needs = blobsOf(JSON.parse(await readFile(path, "utf8"))).filter(({ hash }) => !kept.has(hash));
        const more = needs.reduce((sum, { hash }) => sum + (sizes.get(hash) ?? 0), 0);
        if (bytes + more > bytesMax) await rm(path, { force: true });
        else {
          bytes += more;
          for (const { hash } of needs) kept.add(hash);
        }
      }
      for (const name of sizes.keys()) if (!kept.has(name)) await rm(join(blobFolder, name), { force: true });
    },
  };
}

async function sizesIn(folder: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (const name of await readdir(folder)) sizes.set(name, (await stat(join(folder, name))).size);
  return sizes;
}

async function newestFirst(folder: string): Promise<string[]> {
  const found: { readonly path: string; readonly usedMs: number }[] = [];
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (name.endsWith(".json")) found.push({ path, usedMs: (await stat(path)).mtimeMs });
    // Somebody was killed while writing it.
    else await rm(path, { force: true });
  }
  return found.sort((a, b) => b.usedMs - a.usedMs).map(({ path }) => path);
}

let unfinished = 0;

async function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  const temporary = `${path}.${process.pid}-${unfinished++}.new`;
  try {
    await writeFile(temporary, content);
    await rename(temporary, path);
  } catch (thrown) {
    await rm(temporary, { force: true }).catch(() => {});
    throw thrown;
  }
}

function openFolderBlobs(folder: string): Blobs {
  const pathOf = (hash: string) => join(folder, hash);
  return {
    async get(hash) {
      const content = await readFile(pathOf(hash)).catch(() => undefined);
      // Not as a Buffer, whose `slice` shares its memory where that of others copies.
      if (content && sha256(content) === hash)
        return new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
      // The next run makes it again.
      await rm(pathOf(hash), { force: true }).catch(() => {});
      return fail(
        "data_loss",
        `a shard of the pipeline, ${hash}, is ${content ? "damaged" : "gone"}: run it again, and it is made again`,
      );
    },
    async put(content) {
      const blob = { hash: sha256(content), bytes: content.byteLength };
      if ((await stat(pathOf(blob.hash)).catch(() => undefined))?.size !== blob.bytes)
        await writeWhole(pathOf(blob.hash), content);
      return blob;
    },
    async has({ hash, bytes }) {
      const file = await stat(pathOf(hash)).catch(() => undefined);
      return file !== undefined && (bytes === undefined || file.size === bytes);
    },
  };
}

async function openBench(folder: string, clock: Clock): Promise<Bench> {
  const log = join(folder, "log");
  const spillFolder = join(folder, "spill");
  await mkdir(spillFolder, { recursive: true });
  const recorded = await readLog(log);
  const stored = openFolderBlobs(spillFolder);
  return {
    spill: {
      put: (content) => stored.put(content),
      get: (hash) => stored.get(hash),
      range: (hash, start, bytes) => readRange(join(spillFolder, hash), start, bytes),
    },
    recorded,
    record(stage, task, result) {
      appendFileSync(log, `${JSON.stringify([stage, task, result])}\n`);
    },
    note<Word>(name: string): Note<Word> {
      const path = join(folder, `note-${sha256(name).slice(0, 16)}.json`);
      let writtenMs = Number.NEGATIVE_INFINITY;
      return {
        last: readNote(path) as Word | undefined,
        write(word) {
          const nowMs = clock.monotonicMs();
          if (nowMs - writtenMs < noteEveryMs) return;
          writtenMs = nowMs;
          writeFileSync(`${path}.new`, JSON.stringify(word));
          renameSync(`${path}.new`, path);
        },
      };
    },
    async clear() {
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function readNote(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

function readRange(path: string, start: number, bytes: number): Uint8Array {
  const file = openSync(path, "r");
  try {
    const content = new Uint8Array(bytes);
    for (let at = 0; at < bytes; ) {
      const read = readSync(file, content, at, bytes - at, start + at);
      if (read === 0)
        fail("data_loss", `${path} is shorter than what was written to it: run the pipeline again with --fresh`);
      at += read;
    }
    return content;
  } finally {
    closeSync(file);
  }
}

/** Up to the first line that is not whole: whoever wrote it was killed. */
async function readLog(path: string): Promise<Map<string, Map<number, unknown>>> {
  const recorded = new Map<string, Map<number, unknown>>();
  const text = await readFile(path, "utf8").catch(() => "");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  // A torn line is cut off, so that the next one does not begin in it.
  if (whole.length < text.length) await writeWhole(path, whole);
  for (const line of whole.split("\n")) {
    if (line === "") continue;
    const [stage, task, result] = JSON.parse(line) as [string, number, unknown];
    const stageResults = recorded.get(stage) ?? new Map<number, unknown>();
    recorded.set(stage, stageResults.set(task, result));
  }
  return recorded;
}
