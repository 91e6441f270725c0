// What names the portable engine's bits. Engines of one version give equal bits on every machine, in every browser and
// under every compiler of WebAssembly; no file of anybody else is part of it.

import { bits } from "../../core/bits.ts";

/** Elementary functions, orders of sums and what is fused here are part of the one version of all bits. */
export const portableBits = bits;

export const portableClass = `portable-${portableBits}`;

/** Of the probe (../fingerprint.ts): an engine that gives another one does not belong to the class. */
export const portableFingerprint = "514ed087cafc80919dc3f7118fb3113c2e43206870865675a58d9e36d5601972";
