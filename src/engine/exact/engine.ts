// Engines of exact numerics: graphs are rewritten (lower.ts), then run by an engine that rounds single operations as IEEE says. One class for
// all of them: whoever gives the fingerprint is in it, by whatever means.

import { bits } from "../../core/bits.ts";
import type { Engine } from "../engine.ts";
import { numericsFingerprint, shortClass } from "../fingerprint.ts";
import { openPortableEngine, type PortableOptions } from "../portable/engine.ts";
import { exactGraph } from "./lower.ts";

export const exactClass = `exact-${bits}`;

/** Of the probe (../fingerprint.ts): whoever gives another one is not of the class. */
export const exactFingerprint = "2b6c87203a60a3e68dc7b3c56831d08e467e6baa339848cdd4f274289ae0337c";

/** More than V8 needs to replace its first, quick code by the optimised one, which must agree. */
const probeRuns = 30;

export async function exactClassOf(engine: Engine, runs: number): Promise<string> {
  const fingerprint = await numericsFingerprint(engine, runs);
  return fingerprint === exactFingerprint ? exactClass : shortClass(`${exactClass}-other`, [fingerprint]);
}

/** On a processor, in WebAssembly. */
export function openExactEngine(options: PortableOptions = {}): Engine {
  const portable = openPortableEngine(options);
  const engine: Engine = {
    ...portable,
    kind: "exact",
    load: async (graph) => portable.load(exactGraph(graph)),
    numericsClass: () => exactClassOf(engine, probeRuns),
  };
  return engine;
}
