// What a browser must have for a PNode, and one sentence for each thing that is missing. Asked by the page before anything is
// loaded, so it must itself run in browsers that are too old for the rest.

/** What is looked at; a test gives others. */
export interface BrowserFacts {
  readonly isSecureContext: boolean;
  readonly crossOriginIsolated: boolean;
  readonly hasWebAssembly: boolean;
  readonly hasSimd: boolean;
  readonly hasSharedMemory: boolean;
  /** Module workers, web locks, Ed25519 and X25519: what came last to browsers of all. */
  readonly hasKeys: boolean;
  readonly hasModernSyntax: boolean;
}

/** The shortest module with a vector in it: (func (drop (v128.const 0))). */
const simdModule = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 23, 1, 21, 0, 253, 12],
  ...[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 26, 11],
);

export async function browserFacts(): Promise<BrowserFacts> {
  const hasWebAssembly = typeof WebAssembly === "object";
  return {
    isSecureContext: globalThis.isSecureContext,
    crossOriginIsolated: globalThis.crossOriginIsolated,
    hasWebAssembly,
    hasSimd: hasWebAssembly && WebAssembly.validate(simdModule),
    hasSharedMemory: typeof SharedArrayBuffer === "function",
    hasKeys: await hasKeys(),
    hasModernSyntax:
      typeof Promise.withResolvers === "function" && typeof AbortSignal.any === "function" && "locks" in navigator,
  };
}

async function hasKeys(): Promise<boolean> {
  try {
    await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"]);
    await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
    return true;
  } catch {
    return false;
  }
}

/** Why this browser cannot lend its machine; undefined if it can. */
export function whyNot(facts: BrowserFacts): string | undefined {
  if (!facts.isSecureContext)
    return "This page came over a connection that anybody can change, where browsers allow no keys: open it by https, or on the machine itself as localhost.";
  if (!facts.hasWebAssembly)
    return "This browser runs no WebAssembly, which the numerics are made of: allow it in the settings, or use another browser.";
  if (!facts.hasSimd)
    return "This browser's WebAssembly has no vectors (SIMD): update it, or use another browser. Everything since 2023 has them.";
  if (!facts.hasSharedMemory || !facts.crossOriginIsolated)
    return "This browser shares no memory between workers on this page (SharedArrayBuffer): whatever stands between it and the orchestrator must not remove the headers Cross-Origin-Opener-Policy and Cross-Origin-Embedder-Policy.";
  if (!facts.hasKeys || !facts.hasModernSyntax)
    return "This browser is too old to prove who it is (it lacks Ed25519 keys): Chrome 137, Firefox 130 and Safari 18.4 or newer can.";
  return undefined;
}
