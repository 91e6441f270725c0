// SHA-256 and canonical JSON: how anything in DCNR gets a name from its content.

import { nodeCrypto } from "./hashing/node-crypto.ts";
import { openSha256, type Sha256Hash } from "./hashing/sha256.ts";
import type { Sha256 } from "./ids.ts";

export const sha256: (...parts: (Uint8Array | string)[]) => Sha256 =
  nodeCrypto === undefined ? sha256InBrowsers() : sha256InNode(nodeCrypto);

function sha256InNode({ createHash, hash: hashAtOnce }: NonNullable<typeof nodeCrypto>) {
  return (...parts: (Uint8Array | string)[]): Sha256 => {
    const [only] = parts;
    if (only !== undefined && parts.length === 1) return hashAtOnce("sha256", only, "hex") as Sha256;
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest("hex") as Sha256;
  };
}

function sha256InBrowsers() {
  let hash: Sha256Hash | undefined;
  return (...parts: (Uint8Array | string)[]): Sha256 => {
    hash ??= openSha256();
    for (const part of parts) hash.update(part);
    return hash.digest() as Sha256;
  };
}

export interface Travelling {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** The name of a tensor that travels: two of another type or shape have other names, whatever their bytes. */
export function hashOfContent(content: Travelling): Sha256 {
  return sha256(headOf(content), content.bytes);
}

/** What `hashOfContent` hashes, whole. */
export function wholeContent(content: Travelling): Uint8Array<ArrayBuffer> {
  const head = new TextEncoder().encode(headOf(content));
  const whole = new Uint8Array(head.byteLength + content.bytes.byteLength);
  whole.set(head);
  whole.set(content.bytes, head.byteLength);
  return whole;
}

/** How long `wholeContent` is, of a content that need not be in memory. */
export function wholeLength(content: Omit<Travelling, "bytes">, bytes: number): number {
  return new TextEncoder().encode(headOf(content)).byteLength + bytes;
}

function headOf({ dtype, shape }: Omit<Travelling, "bytes">): string {
  return `${dtype}[${shape}]`;
}

/** `hashOfContent`, by whoever is fastest: at once, or when another thread has done it. */
export type ContentHash = (content: Travelling) => Sha256 | Promise<Sha256>;

/** SHA-256 of a large content, on another thread where there is one to spare. */
export type Digest = (content: Uint8Array) => Promise<Sha256>;

/** On this thread: for small contents, and for worlds whose time is not the machine's. */
export const digestHere: Digest = async (content) => sha256(content);

/** JSON with keys in code-unit order, so that equal values have equal text and equal hashes. */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  let fields = "";
  for (const key of Object.keys(value).sort()) {
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined) fields += `${fields === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(item)}`;
  }
  return `{${fields}}`;
}
