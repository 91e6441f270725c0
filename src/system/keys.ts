// Ed25519 keys of the machine's own library, and the file in which an identity is kept, readable by its owner alone.

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { chmod, link, mkdir, readFile, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../core/errors.ts";
import { type Identity, keyIdOf, type Verify } from "../core/keys.ts";
import type { Chance } from "../core/world.ts";

/** An identity that can also hold TLS connections. */
export interface RealIdentity extends Identity {
  /** PKCS #8 as PEM; goes to the TLS library and to nobody else. */
  readonly privateKey: string;
}

export function newIdentity(): RealIdentity {
  return identityOf(generateKeyPairSync("ed25519").privateKey);
}

export const verifySignature: Verify = (publicKey, content, signature) => {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey), format: "der", type: "spki" });
    return key.asymmetricKeyType === "ed25519" && verify(null, content, key, signature);
  } catch {
    return false;
  }
};

export function parseIdentity(pem: string, where: string): RealIdentity {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    return fail("data_loss", `${where} holds no key: restore it from a backup, or remove it to become somebody new`);
  }
  if (key.asymmetricKeyType !== "ed25519") fail("data_loss", `${where} holds a key of another kind than Ed25519`);
  return identityOf(key);
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

function identityOf(key: KeyObject): RealIdentity {
  const publicKey = createPublicKey(key).export({ type: "spki", format: "der" });
  return {
    id: keyIdOf(publicKey),
    publicKey,
    privateKey: key.export({ type: "pkcs8", format: "pem" }) as string,
    sign: (content) => sign(null, content, key),
  };
}
