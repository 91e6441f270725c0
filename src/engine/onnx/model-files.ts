// A graph with its weights as two files that the runtime maps into memory while it packs them. Given as bytes, weights are copied twice more
// on the C library's heap, which keeps the holes that these copies leave behind: a model took up to twice its weights.

import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { bytesOf } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import { encodeOnnxParts, type TensorPlace } from "../../graph/onnx.ts";

/** Smaller ones stay in the graph. */
const besideBytesMin = 4_096;
/** What lies at whole pages can be mapped. */
const pageBytes = 4_096;
const weightsName = "weights";

export interface ModelFiles {
  /** Of the graph. */
  readonly path: string;
  /** As soon as the runtime has opened them: what it has mapped stays with it. */
  remove(): void;
}

/** Undefined where they cannot be written. `front`: what stands before the graph. */
export function writeModelFiles(
  folder: string,
  graph: GraphModel,
  front: readonly Uint8Array[],
): ModelFiles | undefined {
  let own: string | undefined;
  const remove = () => {
    try {
      if (own !== undefined) rmSync(own, { recursive: true, force: true });
    } catch {
      // Windows keeps what is mapped; the folder is emptied at the next start.
    }
  };
  try {
    mkdirSync(folder, { recursive: true });
    own = mkdtempSync(join(folder, "graph-"));
    const path = join(own, "graph.onnx");
    const parts = encodeOnnxParts(graph, writeWeights(join(own, weightsName), graph));
    writeFileSync(path, Buffer.concat([...front, ...parts]));
    return { path, remove };
  } catch {
    remove();
    return undefined;
  }
}

function writeWeights(path: string, { constants }: GraphModel): Map<string, TensorPlace> {
  const places = new Map<string, TensorPlace>();
  const file = openSync(path, "wx", 0o600);
  try {
    let end = 0;
    for (const [name, tensor] of Object.entries(constants)) {
      const bytes = bytesOf(tensor);
      if (bytes.length < besideBytesMin) continue;
      const offset = Math.ceil(end / pageBytes) * pageBytes;
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, offset + at);
      places.set(name, { file: weightsName, offset, bytes: bytes.length });
      end = offset + bytes.length;
    }
    return places;
  } finally {
    closeSync(file);
  }
}
