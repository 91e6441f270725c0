// The version of the portable engine's bits. Engines of one version give equal bits on every machine, in every browser
// and under every compiler of WebAssembly; no file of anybody else is part of it.

/**
 * Counts up with every change that may alter a single bit of any result: an elementary function, the order of a sum, what
 * is fused. portable.test.ts holds the fingerprint that belongs to it.
 */
export const portableBits = 1;

export const portableClass = `portable-${portableBits}`;

/** Of the probe (../fingerprint.ts): an engine that gives another one does not belong to the class. */
export const portableFingerprint = "514ed087cafc80919dc3f7118fb3113c2e43206870865675a58d9e36d5601972";
