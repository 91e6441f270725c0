// Node's cryptography, where there is Node: asked for at run time and not imported, so that the same modules load in browsers,
// which do the same by other means.

export const nodeCrypto: typeof import("node:crypto") | undefined = globalThis.process?.getBuiltinModule?.("crypto");
