// V8 can join neighbouring 128-bit vectors of WebAssembly into 256-bit ones where the processor has them: the same
// operations on the same elements, so the same bits, at nearly twice the speed. It does so only when asked, and on x64.

import { setFlagsFromString } from "node:v8";
import type { TileVectors } from "../portable/gemm.ts";

/** Asks for it, for all modules that are compiled from now on; gives the tile that then is the fastest. */
export function widenVectors(arch: string = process.arch): TileVectors {
  if (arch !== "x64") return 3;
  setFlagsFromString("--experimental-wasm-revectorize");
  return 4;
}
