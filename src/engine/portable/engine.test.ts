import { strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { engineConformance } from "../conformance.ts";
import { numericsFingerprint } from "../fingerprint.ts";
import { portableFingerprint } from "./bits.ts";
import { openPortableEngine } from "./engine.ts";

engineConformance("portable", () => openPortableEngine());

test("the portable engine's fingerprint is the one of every machine", async () => {
  strictEqual(await numericsFingerprint(openPortableEngine()), portableFingerprint);
});
