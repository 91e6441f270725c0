import assert from "node:assert/strict";
import { test } from "node:test";
import { type BrowserFacts, whyNot } from "./capable.ts";

const able: BrowserFacts = {
  ...{ isSecureContext: true, crossOriginIsolated: true, hasWebAssembly: true, hasSimd: true, hasSharedMemory: true },
  ...{ hasKeys: true, hasModernSyntax: true },
};

test("a browser that has everything lends its machine", () => assert.equal(whyNot(able), undefined));

for (const [fact, sentence] of [
  ["isSecureContext", /https/],
  ["hasWebAssembly", /no WebAssembly/],
  ["hasSimd", /SIMD/],
  ["hasSharedMemory", /SharedArrayBuffer/],
  ["crossOriginIsolated", /Cross-Origin-Opener-Policy/],
  ["hasKeys", /too old/],
  ["hasModernSyntax", /too old/],
] as const)
  test(`without ${fact} it says why, in one sentence`, () =>
    assert.match(whyNot({ ...able, [fact]: false }) ?? "", sentence));
