// Addresses that let a machine without credentials move one blob: action, name space, name, size and end
// of life are signed, so nothing of it can be changed. They point to an orchestrator's own port (blob-http.ts).

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import type { BlobSpaceName } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { Clock } from "../../core/world.ts";
import { checkBlobBytes } from "./blob-checks.ts";
import type { BlobAction, BlobGrant } from "./blob-store.ts";

export interface BlobTokenOptions {
  /** Shared by all orchestrators of one blob store. */
  readonly key: Uint8Array;
  readonly clock: Pick<Clock, "wallMs">;
  /** "http://host:port" of whoever serves the blobs; empty for paths at the orchestrator that was asked. */
  readonly baseUrl: () => string;
}

export class BlobTokens {
  readonly #options: BlobTokenOptions;
  /** Prepared once: every address is signed with it and every request checked. */
  readonly #key: KeyObject;

  constructor(options: BlobTokenOptions) {
    this.#options = options;
    this.#key = createSecretKey(options.key);
  }

  origins(): string[] {
    const base = this.#options.baseUrl();
    return base === "" ? [] : [new URL(base).origin];
  }

  grant(space: BlobSpaceName, action: BlobAction, hash: Sha256, bytes: number, lifetimeMs: number): BlobGrant {
    checkBlobBytes(space, hash, bytes);
    const expiresWallMs = Math.ceil(this.#options.clock.wallMs() + lifetimeMs);
    const token = `${action}.${bytes}.${expiresWallMs}.${this.#sign(space, action, hash, bytes, expiresWallMs)}`;
    return {
      url: `${this.#options.baseUrl()}/blobs/${space}/${hash}?token=${token}`,
      method: action === "upload" ? "PUT" : "GET",
      headers: {},
      expiresWallMs,
    };
  }

  /** The size the token was signed for. Refuses a token that is altered, expired, or meant for something else. */
  check(token: string, space: BlobSpaceName, action: BlobAction, hash: Sha256): number {
    const [signedAction, bytesText, expiresText, signature] = token.split(".");
    const bytes = Number(bytesText);
    const expiresWallMs = Number(expiresText);
    const expected = this.#sign(space, signedAction ?? "", hash, bytes, expiresWallMs);
    if (signature === undefined || !sameText(signature, expected))
      fail("permission_denied", `the token for blob ${hash} is not one of ours or was altered: ask for a new address`);
    if (signedAction !== action)
      fail(
        "permission_denied",
        `the token for blob ${hash} allows ${signedAction}, not ${action}: ask for another address`,
      );
    const lateMs = this.#options.clock.wallMs() - expiresWallMs;
    if (lateMs >= 0)
      fail(
        "permission_denied",
        `the token for blob ${hash} expired ${Math.round(lateMs)} ms ago: ask for a new address`,
      );
    return bytes;
  }

  #sign(space: BlobSpaceName, action: string, hash: Sha256, bytes: number, expiresWallMs: number): string {
    return createHmac("sha256", this.#key)
      .update(`dcnr blob\n${space}\n${action}\n${hash}\n${bytes}\n${expiresWallMs}`)
      .digest("base64url");
  }
}

function sameText(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
