// A folder of images becomes samples [channels, height, width]; the folders in it, if there are any, are the classes.

import { readFile } from "node:fs/promises";
import { fail } from "../../core/errors.ts";
import { buildTensors, type FieldSpec } from "../build.ts";
import { decodeImage, type ImageShape, naturalShape, sampleOf } from "../images/shape.ts";
import type { Manifest } from "../manifest.ts";
import { classNumbers, findClasses } from "./classes.ts";
import { type Folder, type FolderFile, openFolder } from "./folder.ts";
import { buildOptions, type ImportOptions, type ImportRequest, openPositions, type Run } from "./import-run.ts";
import type { Source, SourceAccess } from "./source.ts";

export const imageEndings: readonly string[] = ["png", "jpg", "jpeg"];

/** A photograph has less; a larger file is something else. */
const fileBytesMax = 64 << 20;

/** Bytes become 0 to 1. */
const scaleDefault = 1 / 255;

export async function importImages(
  request: ImportRequest,
  access: SourceAccess,
  options: ImportOptions,
): Promise<Manifest> {
  const folder = await openFolder(request.source, imageEndings, access);
  const source = sourceOf(folder);
  if (options.resume && options.resume.tag !== source.tag)
    fail("failed_precondition", `${source.name} has changed since the import began: start it again`);
  const run: Run = { request, source, options, positions: openPositions(source, options) };
  const shape = wantedShape(request) ?? (await shapeOfFirst(folder));
  const classes = await classesOf(folder, request);
  const fields: FieldSpec[] = [
    {
      name: "inputs",
      dtype: "uint8",
      shape: [shape.channels, shape.height, shape.width],
      scale: request.scale ?? scaleDefault,
    },
    ...(classes ? [{ name: "labels", dtype: "int32", shape: [], classes } as const] : []),
  ];
  const builder = buildTensors(fields, buildOptions(run, fields));
  const numberOf = classes && classNumbers(classes);
  let { offset, line } = run.positions.start;
  for (const file of folder.files.slice(line)) {
    const inputs = await readSample(file, shape, request);
    offset += file.bytes;
    run.positions.mark(builder.samples + 1, { offset, line: ++line });
    const labels = numberOf && { labels: Int32Array.of(numberOf(file.group, file.path)) };
    await builder.add({ inputs, ...labels });
  }
  return builder.finish();
}

/** Only its name, size and tag are asked for. */
function sourceOf({ name, bytes, tag }: Folder): Source {
  return { name, bytes, tag, read: () => fail("internal", "a folder is read file by file") };
}

function wantedShape({ shape }: ImportRequest): ImageShape | undefined {
  if (shape === undefined) return undefined;
  const [channels, height, width] = shape.length === 2 ? [3, ...shape] : shape;
  if (shape.length < 2 || shape.length > 3 || (channels !== 1 && channels !== 3))
    fail(
      "invalid_argument",
      `images have a shape such as 3,64,64 or 1,28,28 (colours, height, width), not ${shape.join(",")}`,
    );
  return { channels, height: height as number, width: width as number };
}

async function shapeOfFirst({ files }: Folder): Promise<ImageShape> {
  const [first] = files as [FolderFile];
  return naturalShape(decodeImage(await bytesOf(first), first.path));
}

/** All files in folders, or none: a mixture would have samples without a label. */
async function classesOf({ files, name }: Folder, { labels }: ImportRequest): Promise<readonly string[] | undefined> {
  const lose = files.filter(({ group }) => group === "");
  if (labels === "none" || lose.length === files.length) return undefined;
  if (labels !== undefined)
    fail("invalid_argument", `the labels of ${name} are the names of its folders: --labels can only be none`);
  if (lose.length > 0)
    fail(
      "invalid_argument",
      `${lose[0]?.path} lies beside the folders of the classes: move it into one, or say --labels none`,
    );
  return (await findClasses(files.map(({ group, path }) => ({ row: { labels: group }, where: path })))).names;
}

async function bytesOf({ path, bytes }: FolderFile): Promise<Uint8Array> {
  if (bytes > fileBytesMax)
    fail("resource_exhausted", `${path} has ${bytes} bytes, at most ${fileBytesMax} are allowed for an image`);
  return readFile(path);
}

async function readSample(file: FolderFile, shape: ImageShape, request: ImportRequest): Promise<Uint8Array> {
  const picture = decodeImage(await bytesOf(file), file.path);
  const { height, width } = picture;
  if (request.shape === undefined && (height !== shape.height || width !== shape.width))
    fail(
      "invalid_argument",
      `${file.path} has ${width} x ${height} pixels, the first image ${shape.width} x ${shape.height}: say --shape ${shape.channels},${shape.height},${shape.width} to scale all of them`,
    );
  return sampleOf(picture, shape);
}
