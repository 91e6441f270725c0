// Opens an engine by its name. Each is imported only when asked for: the native one loads a large library.

import { fail } from "../core/errors.ts";
import type { Engine, EngineKind } from "./engine.ts";

export async function openEngine(kind: EngineKind): Promise<Engine> {
  switch (kind) {
    case "reference":
      return (await import("./reference.ts")).openReferenceEngine();
    case "native":
      return (await import("./native.ts")).openNativeEngine();
    case "portable":
      return (await import("./portable-node.ts")).openPortableEngineInNode();
    case "webgpu":
      return fail("unimplemented", "the webgpu engine is not part of this build: use native or portable");
  }
}
