import { strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { engineConformance } from "./conformance.ts";
import { numericsFingerprint } from "./fingerprint.ts";
import { openPortableEngineInNode } from "./portable-node.ts";

engineConformance("portable", openPortableEngineInNode);

test("the portable engine's fingerprint is the one of every machine", async () => {
  const fingerprint = await numericsFingerprint(await openPortableEngineInNode());
  strictEqual(fingerprint, "c592d478095492c80d364b4ca9080750d8f58172a057c12ba076f4801fefb4a6");
});
