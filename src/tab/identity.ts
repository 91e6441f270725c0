// The key of a tab: made by the browser, which never hands its private half out, not even to this page, and kept in IndexedDB, so
// that the next visit is the same machine. Where the browser keeps nothing, the key lasts as long as the page.

import type { KeyId } from "../core/ids.ts";
import { keyIdOf } from "../core/keys.ts";
import type { Signing } from "../trust/signing.ts";

export interface TabIdentity extends Signing {
  /** Whether the next visit has it too. */
  readonly isKept: boolean;
}

const algorithm = "Ed25519";
const databaseName = "dcnr";
const storeName = "keys";
const keyName = "pnode";

export async function loadTabIdentity(): Promise<TabIdentity> {
  let pair: CryptoKeyPair | undefined;
  let isKept = true;
  try {
    const database = await openDatabase();
    try {
      // Two tabs that begin at once agree on one: adding fails where there is one already.
      pair = (await find(database)) ?? (await add(database, await newPair())) ?? (await find(database));
    } finally {
      database.close();
    }
  } catch {
    isKept = false;
  }
  if (pair === undefined) {
    isKept = false;
    pair = await newPair();
  }
  return identityOf(pair, isKept);
}

function newPair(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey({ name: algorithm }, false, ["sign", "verify"]) as Promise<CryptoKeyPair>;
}

async function identityOf({ publicKey, privateKey }: CryptoKeyPair, isKept: boolean): Promise<TabIdentity> {
  const shown = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  return {
    id: keyIdOf(shown),
    publicKey: shown,
    isKept,
    sign: async (content) => new Uint8Array(await crypto.subtle.sign(algorithm, privateKey, plain(content))),
    verify: (id, key, content, signature) => isSignedBy(id as KeyId, key, content, signature),
  };
}

async function isSignedBy(id: KeyId, publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) {
  if (keyIdOf(publicKey) !== id) return false;
  try {
    const key = await crypto.subtle.importKey("spki", plain(publicKey), { name: algorithm }, false, ["verify"]);
    return await crypto.subtle.verify(algorithm, key, plain(signature), plain(content));
  } catch {
    return false;
  }
}

/** The web's cryptography takes no shared memory. */
function plain(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}

function openDatabase(): Promise<IDBDatabase> {
  const opening = indexedDB.open(databaseName, 1);
  opening.onupgradeneeded = () => void opening.result.createObjectStore(storeName);
  return settled(opening);
}

function find(database: IDBDatabase): Promise<CryptoKeyPair | undefined> {
  return settled(database.transaction(storeName).objectStore(storeName).get(keyName)) as Promise<
    CryptoKeyPair | undefined
  >;
}

/** Undefined if somebody else was first. */
async function add(database: IDBDatabase, pair: CryptoKeyPair): Promise<CryptoKeyPair | undefined> {
  try {
    await settled(database.transaction(storeName, "readwrite").objectStore(storeName).add(pair, keyName));
    return pair;
  } catch (error) {
    if ((error as DOMException).name === "ConstraintError") return undefined;
    throw error;
  }
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = (event) => {
      event.preventDefault();
      reject(request.error);
    };
  });
}
