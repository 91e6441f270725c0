// Blobs to and from the addresses that an orchestrator grants: its own port, or a bucket's. What comes is believed only if it
// has the right hash; a state is fetched part by part, when somebody reads it.

import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { BlobSpace } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { DatasetService } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { type StateBlob as GrantedBlob, InferenceService } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import { baseUrl, parseAddress } from "../../protocol/routes/address.ts";
import { readStateManifest } from "../../states/manifest.ts";
import { StateReader } from "../../states/reader.ts";
import type { Line } from "./line.ts";

/** As many parts as pass within the life of their addresses at a few hundred kilobytes a second. */
const partsGrantedAtOnce = 32;

/** A blob with an address to fetch it from. */
export type StateBlob = Pick<GrantedBlob, "hash" | "url" | "headers">;

interface BlobRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/** Asks the holder of the orchestrator's key for a path. The SDK's types mention this, so it names nothing of Node's. */
type PinnedFetch = (path: string, request: BlobRequest) => Promise<Response>;

export class Blobs {
  readonly #line: Line;
  readonly #pinned: PinnedFetch;
  readonly #fetch: typeof globalThis.fetch;

  constructor(line: Line, pinned: PinnedFetch, fetch: typeof globalThis.fetch) {
    this.#line = line;
    this.#pinned = pinned;
    this.#fetch = fetch;
  }

  /** Sends a blob unless it is there already; `space` says what it is for. */
  async upload(content: Uint8Array, space: BlobSpace): Promise<string> {
    const hash = sha256(content);
    const method = DatasetService.method.grantUpload;
    const grant = await this.#line.call(method, { hash, bytes: BigInt(content.byteLength), space });
    if (grant.present) return hash;
    const request = { method: "PUT", headers: grant.headers, body: content as Uint8Array<ArrayBuffer> };
    const response = await this.#send(grant.url, request).catch((error: unknown) => {
      throw brokenOff("upload", grant.url, error);
    });
    if (!response.ok)
      throw new DcnrError(
        "unavailable",
        `the upload was refused (${response.status}): ${(await response.text()).trim()}`,
      );
    return hash;
  }

  /** A state or vocabulary that was granted; refused if it is not what its hash says. */
  async download(blob: StateBlob): Promise<Uint8Array> {
    const content = await this.fetch(blob);
    if (sha256(content) !== blob.hash)
      throw new DcnrError("data_loss", `the blob ${blob.hash} arrived damaged: try again`);
    return content;
  }

  /** A stored state, by its granted manifest: its tensors are fetched when they are asked for. */
  async openState(blob: StateBlob, what: string): Promise<StateReader> {
    const manifest = readStateManifest(await this.download(blob), what);
    const parts = new Map<string, StateBlob>();
    const grant = async (hash: Sha256): Promise<StateBlob> => {
      const known = parts.get(hash);
      if (known) return known;
      const first = manifest.parts.indexOf(hash);
      const request = { state: blob.hash, first, count: partsGrantedAtOnce };
      const granted = await this.#line.call(InferenceService.method.grantParts, request);
      for (const part of granted.parts) parts.set(part.hash, part);
      return parts.get(hash) ?? fail("data_loss", `${what} lacks its part ${hash}`);
    };
    const fetchPart = async (hash: Sha256, into: Uint8Array) => {
      const address = await grant(hash);
      // Addresses live for a limited time: the next part asks again.
      parts.delete(hash);
      const content = await this.download(address);
      if (content.byteLength !== into.byteLength)
        fail(
          "data_loss",
          `part ${hash} of ${what} has ${content.byteLength} bytes, its manifest says ${into.byteLength}`,
        );
      into.set(content);
    };
    return new StateReader({ manifest, fetchPart, clock: { monotonicMs: () => 0 }, what });
  }

  /** Whatever lies there: whoever uses it checks its hash. */
  async fetch({ url, headers }: { url: string; headers: Record<string, string> }): Promise<Uint8Array> {
    try {
      const response = await this.#send(url, { headers });
      if (response.ok) return new Uint8Array(await response.arrayBuffer());
      const why = (await response.text()).trim();
      throw new DcnrError("unavailable", `the download was refused (${response.status}): ${why}`);
    } catch (error) {
      throw error instanceof DcnrError ? error : brokenOff("download", url, error);
    }
  }

  /** What the orchestrator serves itself is a path at the place where it was asked. */
  #send(url: string, init: BlobRequest): Promise<Response> {
    if (!url.startsWith("/")) return this.#fetch(url, init as RequestInit);
    if (parseAddress(this.#line.address).key !== undefined) return this.#pinned(url, init);
    return this.#fetch(`${baseUrl(this.#line.address)}${url}`, init as RequestInit);
  }
}

/** Addresses carry a token, so only the host and the blob's name are told. Those without a host are the orchestrator's. */
function brokenOff(what: "download" | "upload", url: string, error: unknown): DcnrError {
  const { host, pathname } = URL.canParse(url)
    ? new URL(url)
    : { host: "the orchestrator", pathname: url.split("?", 1)[0] ?? "" };
  const blob = pathname.slice(pathname.lastIndexOf("/") + 1);
  const { cause } = error as { cause?: unknown };
  const damaged = what === "download" ? ", or the blob is damaged there" : "";
  return new DcnrError(
    "unavailable",
    `the ${what} of blob ${blob} with ${host} broke off (${messageOf(cause ?? error)}): it cannot be reached${damaged}`,
    { cause: error },
  );
}
