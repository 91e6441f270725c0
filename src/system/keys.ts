// Ed25519 keys of the machine's own library, and the file in which an identity is kept, readable by its owner alone.

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { chmod, link, mkdir, readFile, rename, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../core/errors.ts";
import {
  type Identity,
  keyIdOf,
  keysOf,
  publicKeyBytes,
  type Succession,
  signatureBytes,
  successionStatement,
  successionsMax,
  verifySignature,
} from "../core/keys.ts";
import type { Chance } from "../core/world.ts";
import type { Signing, VerifyBy } from "../trust/signing.ts";

export { verifySignature } from "../core/keys.ts";

/** An identity that can also hold TLS connections. */
export interface RealIdentity extends Identity {
  /** PKCS #8 as PEM; goes to the TLS library and to nobody else. */
  readonly privateKey: string;
}

export function newIdentity(): RealIdentity {
  return identityOf(generateKeyPairSync("ed25519").privateKey);
}

export function parseIdentity(pem: string, where: string): RealIdentity {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    return fail("data_loss", `${where} holds no key: restore it from a backup, or remove it to become somebody new`);
  }
  if (key.asymmetricKeyType !== "ed25519") fail("data_loss", `${where} holds a key of another kind than Ed25519`);
  const identity = identityOf(key, formerIn(pem));
  if (keysOf(identity.publicKey, identity.former) === undefined)
    fail("data_loss", `${where} holds earlier keys that did not sign for this one: restore it from a backup`);
  return identity;
}

/** A new key that speaks for the same id, by the word of the present one, whose private half should be forgotten then. */
export function succeeded(identity: Identity): RealIdentity {
  const former = identity.former ?? [];
  if (former.length >= successionsMax)
    fail("failed_precondition", `this key has been replaced ${successionsMax} times: become somebody new instead`);
  const { privateKey } = generateKeyPairSync("ed25519");
  const next = createPublicKey(privateKey).export({ type: "spki", format: "der" });
  const word = { publicKey: identity.publicKey, signature: identity.sign(successionStatement(identity.id, next)) };
  return identityOf(privateKey, [...former, word]);
}

/** As it is kept: the private key, and behind it the words of earlier ones. */
export function identityText({ privateKey, former = [] }: RealIdentity): string {
  const words = former.map(({ publicKey, signature }) => Buffer.concat([publicKey, signature]).toString("base64"));
  return `${privateKey}${words.map((word) => `${formerMark}${word}\n`).join("")}`;
}

const formerMark = "# succeeds: ";

function formerIn(text: string): Succession[] {
  const lines = text.split("\n").filter((line) => line.startsWith(formerMark));
  return lines.map((line) => {
    const word = Buffer.from(line.slice(formerMark.length), "base64");
    return {
      publicKey: word.subarray(0, publicKeyBytes),
      signature: word.subarray(publicKeyBytes, publicKeyBytes + signatureBytes),
    };
  });
}

/** Replaces the key of whoever owns the directory; the id stays. */
export async function rotateKey(directory: string, chance: Chance): Promise<RealIdentity> {
  const next = succeeded(await loadKey(directory, chance));
  const path = join(directory, "key.pem");
  const draft = `${path}.${Buffer.from(chance.bytes(6)).toString("hex")}`;
  await writeFile(draft, identityText(next), { mode: 0o600, flag: "wx" });
  await rename(draft, path);
  return next;
}

/** The identity of whoever owns the directory, made at the first start. */
export async function loadKey(directory: string, chance: Chance): Promise<RealIdentity> {
  const path = join(directory, "key.pem");
  const known = await read(path);
  if (known !== undefined) return parseIdentity(known, path);
  const identity = newIdentity();
  const draft = `${path}.${Buffer.from(chance.bytes(6)).toString("hex")}`;
  await mkdir(directory, { recursive: true });
  await writeFile(draft, identity.privateKey, { mode: 0o600, flag: "wx" });
  try {
    // Two processes that start at once agree on one: linking fails where the name is taken.
    await link(draft, path);
    return identity;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return parseIdentity((await read(path)) ?? "", path);
  } finally {
    await unlink(draft);
  }
}

async function read(path: string): Promise<string | undefined> {
  try {
    const { mode } = await stat(path);
    // Where others could read it, it may have been copied by a careless backup rather than by an attacker: mend it.
    if ((mode & 0o077) !== 0 && process.platform !== "win32") await chmod(path, 0o600);
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    return fail("failed_precondition", `cannot read ${path}: ${(error as Error).message}`);
  }
}

function identityOf(key: KeyObject, former: readonly Succession[] = []): RealIdentity {
  const publicKey = createPublicKey(key).export({ type: "spki", format: "der" });
  return {
    id: keyIdOf(former[0]?.publicKey ?? publicKey),
    publicKey,
    ...(former.length > 0 && { former }),
    privateKey: key.export({ type: "pkcs8", format: "pem" }) as string,
    sign: (content) => sign(null, content, key),
  };
}

/** Signs with one's key, and judges what the holders of others signed. */
export function signingOf(identity: Identity): Signing {
  const { id, publicKey } = identity;
  return { id, publicKey, sign: (content) => identity.sign(content), verify: verifyBy };
}

export const verifyBy: VerifyBy = (id, publicKey, content, signature) =>
  keyIdOf(publicKey) === id && verifySignature(publicKey, content, signature);
