// Sessions of onnxruntime-node without its front, which puts every run off to the next turn of the event loop: for single rows of a
// served model that costs as much as some of its operators. What stands behind it is not documented, so it is tried when an engine
// opens, and the front is used where it is not there.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { InferenceSession } from "onnxruntime-common";
import { findOptional } from "../../core/optional.ts";
import type { OnnxRuntime, RowSession } from "./onnx-runtime.ts";

/** Of the library's own binding. */
interface BoundSession {
  loadModel(path: string, options: InferenceSession.SessionOptions): void;
  loadModel(buffer: ArrayBufferLike, offset: number, length: number, options: InferenceSession.SessionOptions): void;
  run(
    feeds: InferenceSession.OnnxValueMapType,
    fetches: InferenceSession.NullableOnnxValueMapType,
    options: object,
  ): InferenceSession.OnnxValueMapType;
  dispose(): void;
}

interface Binding {
  readonly binding: { readonly InferenceSession: new () => BoundSession };
  readonly initOrt: () => void;
}

export type OpenDirect = NonNullable<OnnxRuntime["direct"]>;

/** Undefined if the library is not built as we know it. */
export function directSessions(): OpenDirect | undefined {
  const entry = findOptional("onnxruntime-node", "native");
  if (entry === undefined) return undefined;
  try {
    const { binding, initOrt }: Binding = createRequire(entry)(join(dirname(entry), "binding.js"));
    if (typeof binding.InferenceSession !== "function") return undefined;
    return (model, options) => {
      initOrt();
      return open(new binding.InferenceSession(), model, options);
    };
  } catch {
    return undefined;
  }
}

/** `model`: its bytes, or where its file is. */
function open(session: BoundSession, model: Uint8Array | string, options: InferenceSession.SessionOptions): RowSession {
  if (typeof model === "string") session.loadModel(model, options);
  else session.loadModel(model.buffer, model.byteOffset, model.byteLength, options);
  return { run: (feeds, fetches) => session.run(feeds, fetches, {}), release: () => session.dispose() };
}
