// A source: files as rows. Text, JSON lines and CSV are read line by line, packed or not, and a kill costs the lines since the last
// shard; what only the importers read (Parquet, images, arrays) becomes a dataset first.

import { glob, realpath } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { fail, hasCode, messageOf } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import { isFolder, openFolder } from "../../data/imports/folder.ts";
import { formatOf, importDataset } from "../../data/imports/import.ts";
import { imageEndings } from "../../data/imports/import-images.ts";
import { type ImportCheckpoint, type ImportRequest, formats as knownFormats } from "../../data/imports/import-run.ts";
import { isBelowOne, openSource } from "../../data/imports/source.ts";
import { manifestText, parseManifest, type Shard } from "../../data/manifest.ts";
import { type Kit, putShard } from "../kit.ts";
import type { Facts, Operator, Outside, Settings, StepWork } from "../operator.ts";
import { allPart, type Output, RecordWriter, recordOfRow } from "../records.ts";
import { choice, fieldsOf, optionalText, text, texts, whole } from "../settings.ts";
import { lineFormats, packings, type Read, readRows, type Stand } from "./file-rows.ts";
import { recordsOfManifest } from "./manifest-records.ts";

/** More names would be a typing error. */
const filesMax = 100_000;

interface File {
  readonly path: string;
  readonly format: string;
  /** Changes when the content does. */
  readonly tag: string;
  readonly bytes: number;
}

const importSettings = ["labels", "columns", "shape", "dtype", "labels-dtype", "labels-shape", "scale", "vocabulary"];

export const files: Operator = {
  name: "files",
  version: 1,
  reads: "nothing",
  read(given, where) {
    const isShort = typeof given === "string" || Array.isArray(given);
    const known = ["paths", "format", "text-field", "documents", "context", ...importSettings];
    const fields = fieldsOf(isShort ? { paths: given } : given, known, where);
    const textField = optionalText(fields, "text-field", where);
    const imports = Object.fromEntries(
      importSettings.filter((name) => fields[name] !== undefined).map((name) => [name, fields[name]]),
    );
    return {
      paths: texts(fields["paths"], "paths", where),
      ...(fields["format"] === undefined ? {} : { format: choice(fields, "format", where, knownFormats) }),
      ...(textField === undefined ? {} : { textField }),
      documents: choice(fields, "documents", where, ["pieces", "lines", "files"], "pieces"),
      ...(fields["context"] === undefined ? {} : { context: whole(fields, "context", where, 2, 65_536) }),
      ...(Object.keys(imports).length > 0 && { imports: checkedImports(imports, where) }),
    };
  },
  gives: (_inputs, _settings, facts) =>
    (facts["files"] as File[]).every(({ format }) => format === "tokens") ? "tokens" : "rows",
  look: async (settings, outside, where) => ({ files: await filesOf(settings, outside, where) }),
  async run(work) {
    const found = work.facts["files"] as File[];
    return found.every(({ format }) => isByLines(format, work.settings)) ? linesOf(work, found) : imported(work, found);
  },
};

function isByLines(format: string, settings: Settings): boolean {
  return lineFormats.includes(format) && settings["imports"] === undefined;
}

function checkedImports(imports: Readonly<Record<string, unknown>>, where: string): Readonly<Record<string, unknown>> {
  for (const name of ["shape", "labels-shape", "columns"]) {
    const value = imports[name];
    if (value !== undefined && !Array.isArray(value)) fail("invalid_argument", `${where}: \`${name}\` must be a list`);
  }
  for (const name of ["labels", "dtype", "labels-dtype"]) if (imports[name] !== undefined) text(imports, name, where);
  for (const name of ["scale", "vocabulary"])
    if (imports[name] !== undefined && typeof imports[name] !== "number")
      fail("invalid_argument", `${where}: \`${name}\` must be a number`);
  return imports;
}

async function filesOf(settings: Settings, outside: Outside, where: string): Promise<File[]> {
  const found: File[] = [];
  for (const written of settings["paths"] as readonly string[]) {
    for (const path of await expanded(written, outside, where))
      found.push(await describeFile(path, settings, outside, where));
    if (found.length > filesMax) fail("resource_exhausted", `${where} names more than ${filesMax} files`);
  }
  const byLines = found.filter(({ format }) => isByLines(format, settings)).length;
  if (byLines > 0 && byLines < found.length)
    fail(
      "invalid_argument",
      `${where}: files of lines and others are read by steps of their own, and mixed afterwards`,
    );
  return found;
}

/** Names with * and ? are patterns; by code units, so that no machine's language changes the order. */
async function expanded(written: string, { folder, access }: Outside, where: string): Promise<string[]> {
  if (written === "-")
    fail("invalid_argument", `${where}: standard input cannot be read again after an interruption: give files`);
  if (/^[a-z][a-z0-9+.-]+:/i.test(written)) return [written];
  if (!/[*?[{]/.test(written)) return [isAbsolute(written) ? written : join(folder, written)];
  await checkBeginning(written, folder, access.folders, where);
  const matches: string[] = [];
  for await (const match of glob(written, { cwd: folder }))
    matches.push(isAbsolute(match) ? match : join(folder, match));
  if (matches.length === 0) fail("not_found", `${where}: there is no file that ${written} means`);
  return matches.sort((a, b) => (a < b ? -1 : 1));
}

/** A pattern is looked for only where reading is allowed: even what is called so elsewhere is nobody's business. */
async function checkBeginning(
  pattern: string,
  folder: string,
  folders: readonly string[] | undefined,
  where: string,
): Promise<void> {
  if (folders === undefined) return;
  const steps = pattern.split("/");
  const fixed = steps.slice(
    0,
    steps.findIndex((step) => /[*?[{]/.test(step)),
  );
  const isUp = steps.slice(fixed.length).includes("..");
  const begins = await realpath(resolve(folder, fixed.join("/") || (isAbsolute(pattern) ? "/" : "."))).catch(() => "");
  if (isUp || begins === "" || !(await isBelowOne(join(begins, "file"), folders)))
    fail("permission_denied", `${where}: ${pattern} is outside the folders that may be read: ${folders.join(", ")}`);
}

async function describeFile(path: string, settings: Settings, { access }: Outside, where: string): Promise<File> {
  const wanted = settings["format"] as string | undefined;
  try {
    if (await isFolder(path)) {
      const { tag, bytes } = await openFolder(path, imageEndings, access);
      return { path, format: "images", tag, bytes };
    }
    const source = await openSource(path, access);
    if (/^https?:|^s3:/.test(path)) await letGo(source.read(0));
    const plain = path.replace(new RegExp(`\\.(${Object.keys(packings).join("|")})$`), "");
    return { path, format: wanted ?? formatOf(plain), tag: source.tag, bytes: source.bytes ?? 0 };
  } catch (thrown) {
    const code = hasCode(thrown, "permission_denied") ? "permission_denied" : "not_found";
    return fail(code, `${where}: ${messageOf(thrown)}`, thrown);
  }
}

/** What is opened to look at it is not left open. */
async function letGo(stream: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const _piece of stream) return;
}

/** A shard and where the next one begins. */
interface Taken {
  readonly shards: readonly Shard[];
  readonly file: number;
  readonly stand: Stand;
}

async function linesOf({ settings, kit, outside, where }: StepWork, found: readonly File[]): Promise<Output> {
  const total = found.reduce((sum, { bytes }) => sum + bytes, 0);
  const taken = await kit.chain<Taken>(
    "read",
    async function* (recorded) {
      const last = recorded.at(-1);
      let file = last?.file ?? 0;
      let stand = last?.stand;
      const writer = new RecordWriter();
      let bytes = 0;
      const flush = async (at: Stand) => {
        const { content, count } = writer.take();
        const read = bytes;
        bytes = 0;
        return { result: { shards: await putShard(kit.blobs, content, count), file, stand: at }, bytes: read };
      };
      for (; file < found.length; file++, stand = undefined) {
        const { path, format, tag } = found[file] as File;
        const source = await openSource(path, outside.access);
        if (source.tag !== tag)
          fail("failed_precondition", `${where}: ${path} has changed since the pipeline began: start it again`);
        const read: Read = { source, path, format, settings, from: stand };
        let before = stand?.position.offset ?? 0;
        for await (const { row, stand: next } of readRows(read)) {
          writer.add(recordOfRow(row));
          bytes += next.position.offset - before;
          before = next.position.offset;
          if (writer.bytes >= kit.pieceBytes) yield await flush(next);
          stand = next;
        }
        // Behind the last line: nothing of this file is read again.
        if (writer.count > 0 && stand) yield await flush(stand);
      }
    },
    total,
  );
  const shards = taken.flatMap((one) => one.shards);
  if (shards.length === 0) fail("invalid_argument", `${where} has no rows: there is nothing to work on`);
  const running = settings["documents"] === "pieces" && found.every(({ format }) => format === "text");
  return { format: "rows", parts: [{ name: allPart, shards }], ...(running && { running: true as const }) };
}

async function imported({ settings, kit, outside, where }: StepWork, found: readonly File[]): Promise<Output> {
  const shards: Shard[] = [];
  let common: Omit<Output, "parts"> = { format: "rows" };
  for (const [index, file] of found.entries()) {
    const [made] = await kit.each(`import ${index}`, 1, () => importFile(file, index, settings, kit, outside));
    const { hash } = made as { hash: Sha256 };
    const manifest = parseManifest(new TextDecoder().decode(await kit.spill.get(hash)));
    const context = settings["context"] as number | undefined;
    if (manifest.kind === "tokens" && context === undefined)
      fail(
        "invalid_argument",
        `${where}: ${file.path} is a token stream: say \`context\`, how many tokens make a record`,
      );
    const source = {
      manifest,
      fetchBlob: (blob: Sha256) => kit.spill.get(blob),
      split: "all",
      stage: `file ${index} `,
      ...(context && { context }),
    };
    const { shards: more, ...rest } = await recordsOfManifest(source, kit);
    shards.push(...more);
    common = rest;
  }
  return { ...common, parts: [{ name: allPart, shards }] };
}

async function importFile(
  file: File,
  index: number,
  settings: Settings,
  kit: Kit,
  { access }: Outside,
): Promise<{ hash: Sha256 }> {
  const note = kit.note<ImportCheckpoint>(`import ${index}`);
  const resume = note.last;
  const manifest = await importDataset(requestOf(file, settings), access, {
    blobs: {
      put: async (_hash, content) => {
        await kit.spill.put(content as Uint8Array);
      },
      size: async () => undefined,
    },
    shardBytes: kit.pieceBytes,
    ...(resume && { resume }),
    onCheckpoint: (checkpoint) => note.write(checkpoint),
  });
  return kit.spill.put(new TextEncoder().encode(manifestText(manifest)));
}

function requestOf({ path, format }: File, settings: Settings): ImportRequest {
  const imports = (settings["imports"] ?? {}) as Facts;
  const textField = settings["textField"] as string | undefined;
  return {
    source: path,
    format: format as ImportRequest["format"],
    labels: imports["labels"] as string | undefined,
    columns: imports["columns"] as string[] | undefined,
    shape: imports["shape"] as number[] | undefined,
    dtype: imports["dtype"] as ImportRequest["dtype"],
    labelsDtype: imports["labels-dtype"] as ImportRequest["labelsDtype"],
    labelsShape: imports["labels-shape"] as number[] | undefined,
    scale: imports["scale"] as number | undefined,
    vocabulary: imports["vocabulary"] as number | undefined,
    ...(textField === undefined ? {} : { textField }),
  };
}
