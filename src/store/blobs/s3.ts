// Blobs as objects of an S3 bucket. Names are content hashes, so nothing rests on conditional PUTs; what is read is
// verified here, and what a grant uploads is verified by S3 against the checksum that was signed.

import { createHash } from "node:crypto";
import type { S3Client } from "@aws-sdk/client-s3";
import type { BlobSpaceName } from "../../core/blobs.ts";
import { type DcnrError, fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import type { Sha256 } from "../../core/ids.ts";
import { loadOptional } from "../../core/optional.ts";
import type { World } from "../../core/world.ts";
import { awsError } from "../aws-errors.ts";
import { checkBlobBytes, checkRange, collect, damagedUpload, exactly, missingBlob, verified } from "./blob-checks.ts";
import {
  type BlobAction,
  type BlobGrant,
  type BlobRange,
  type BlobSpace,
  type BlobStore,
  type StoredBlob,
  spacesOf,
} from "./blob-store.ts";

const aws = await loadOptional<typeof import("@aws-sdk/client-s3")>("@aws-sdk/client-s3", "s3", "an S3 blob store");
const { getSignedUrl } = await loadOptional<typeof import("@aws-sdk/s3-request-presigner")>(
  "@aws-sdk/s3-request-presigner",
  "s3",
  "an S3 blob store",
);

export interface S3BlobOptions {
  readonly bucket: string;
  readonly prefix?: string;
  /** For servers other than AWS; they are addressed by path. Credentials and region come from the usual AWS settings. */
  readonly endpoint?: string | undefined;
  readonly world: Pick<World, "clock">;
}

/** S3 takes parts from 5 MiB on, and at most 10,000 of them: 256 make the largest blob. */
const partBytes = 8 * 2 ** 20;
const connectTimeoutMs = 3_000;
/** The time for one part at 300 KB/s. */
const requestTimeoutMs = 30_000;
/** AWS accepts no longer life of a signature. */
const lifetimeMsMax = 7 * 24 * 60 * 60 * 1000;

export async function openS3Blobs({ bucket, prefix = "", endpoint, world }: S3BlobOptions): Promise<BlobStore> {
  const client = new aws.S3Client({
    ...(endpoint === undefined
      ? {}
      : { endpoint, forcePathStyle: true, region: process.env["AWS_REGION"] ?? "us-east-1" }),
    // Blobs bring their own checksum; other servers do not all understand the SDK's default ones.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
      socketTimeout: requestTimeoutMs,
    },
  });
  const where = `S3 bucket ${bucket}${endpoint === undefined ? "" : ` at ${endpoint}`}`;
  try {
    await client.send(new aws.HeadBucketCommand({ Bucket: bucket }));
  } catch (thrown) {
    client.destroy();
    if (isMissing(thrown)) fail("failed_precondition", `the ${where} does not exist: create it, or name another`);
    throw awsError(thrown, where);
  }
  const folder = prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`;
  const spaces = spacesOf((name) => new S3Space(name, { client, bucket, prefix: `${folder}${name}/`, where, world }));
  // Buckets have hosts of their own, unless a server is addressed by path: the SDK knows.
  const { origin } = new URL(await getSignedUrl(client, new aws.HeadBucketCommand({ Bucket: bucket })));
  return { ...spaces, origins: () => [origin], close: async () => client.destroy() };
}

interface S3SpaceOptions {
  readonly client: S3Client;
  readonly bucket: string;
  readonly prefix: string;
  readonly where: string;
  readonly world: Pick<World, "clock">;
}

class S3Space implements BlobSpace {
  readonly #name: BlobSpaceName;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #where: string;
  readonly #world: Pick<World, "clock">;

  constructor(name: BlobSpaceName, { client, bucket, prefix, where, world }: S3SpaceOptions) {
    this.#name = name;
    this.#client = client;
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.#where = where;
    this.#world = world;
  }

  async put(hash: Sha256, content: Uint8Array | AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
    checkBlobBytes(this.#name, hash, bytes);
    if (bytes > partBytes) return this.#putParts(hash, content, bytes);
    const whole = await collect(content, bytes, hash);
    const actual = sha256(whole);
    if (actual !== hash) damagedUpload(hash, actual);
    const checked = { ContentLength: bytes, ChecksumSHA256: base64(hash) };
    await this.#call(() =>
      this.#client.send(new aws.PutObjectCommand({ ...this.#object(hash), Body: whole, ...checked })),
    );
  }

  /** The object appears only with the last call, which is made when the content turned out to be right. */
  async #putParts(hash: Sha256, content: Uint8Array | AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
    const object = this.#object(hash);
    const { UploadId } = await this.#call(() => this.#client.send(new aws.CreateMultipartUploadCommand(object)));
    try {
      const digest = createHash("sha256");
      const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
      for await (const Body of inParts(exactly(content, bytes, hash), partBytes)) {
        digest.update(Body);
        const PartNumber = Parts.length + 1;
        const command = new aws.UploadPartCommand({
          ...object,
          UploadId,
          PartNumber,
          Body,
          ContentLength: Body.length,
        });
        const { ETag } = await this.#call(() => this.#client.send(command));
        Parts.push({ PartNumber, ETag });
      }
      const actual = digest.digest("hex");
      if (actual !== hash) damagedUpload(hash, actual);
      const complete = new aws.CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts } });
      await this.#call(() => this.#client.send(complete));
    } catch (thrown) {
      await this.#client.send(new aws.AbortMultipartUploadCommand({ ...object, UploadId })).catch(() => {});
      throw thrown;
    }
  }

  async get(hash: Sha256, range?: BlobRange): Promise<Uint8Array> {
    return Buffer.concat(await Array.fromAsync(this.stream(hash, range)));
  }

  async *#streamRange(hash: Sha256, range: BlobRange): AsyncGenerator<Uint8Array> {
    const bytes = (await this.size(hash)) ?? missingBlob(hash, `the ${this.#where}`);
    checkRange(hash, range, bytes);
    if (range.start === range.end) return;
    const Range = `bytes=${range.start}-${range.end - 1}`;
    const { Body } = await this.#client.send(new aws.GetObjectCommand({ ...this.#object(hash), Range }));
    yield* Body as AsyncIterable<Uint8Array>;
  }

  async *stream(hash: Sha256, range?: BlobRange): AsyncGenerator<Uint8Array> {
    try {
      if (range !== undefined) return yield* this.#streamRange(hash, range);
      const { Body } = await this.#client.send(new aws.GetObjectCommand(this.#object(hash)));
      yield* verified(Body as AsyncIterable<Uint8Array>, hash, `its object in the ${this.#where}`);
    } catch (thrown) {
      throw this.#explained(thrown, hash);
    }
  }

  async size(hash: Sha256): Promise<number | undefined> {
    try {
      return (await this.#client.send(new aws.HeadObjectCommand(this.#object(hash)))).ContentLength ?? 0;
    } catch (thrown) {
      if (isMissing(thrown)) return undefined;
      throw this.#explained(thrown, hash);
    }
  }

  async delete(hash: Sha256): Promise<void> {
    await this.#call(() => this.#client.send(new aws.DeleteObjectCommand(this.#object(hash))));
  }

  async *list(): AsyncGenerator<StoredBlob> {
    let ContinuationToken: string | undefined;
    do {
      const command = new aws.ListObjectsV2Command({ Bucket: this.#bucket, Prefix: this.#prefix, ContinuationToken });
      const page = await this.#call(() => this.#client.send(command));
      for (const { Key = "", Size = 0, LastModified } of page.Contents ?? []) {
        const name = Key.slice(this.#prefix.length);
        if (!/^[0-9a-f]{64}$/.test(name)) continue;
        // Without a time it counts as just uploaded: nobody collects it too early.
        const modifiedWallMs = LastModified?.getTime() ?? this.#world.clock.wallMs();
        yield { hash: name as Sha256, bytes: Size, modifiedWallMs };
      }
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  async grant(action: BlobAction, hash: Sha256, bytes: number, lifetimeMs: number): Promise<BlobGrant> {
    checkBlobBytes(this.#name, hash, bytes);
    const signedWallMs = this.#world.clock.wallMs();
    const expiresIn = Math.max(1, Math.ceil(Math.min(lifetimeMs, lifetimeMsMax) / 1000));
    // Here the SDK takes a number for seconds since 1970.
    const lived = { expiresIn, signingDate: signedWallMs / 1000 };
    const expiresWallMs = signedWallMs + expiresIn * 1000;
    const object = this.#object(hash);
    if (action === "download") {
      const url = await getSignedUrl(this.#client, new aws.GetObjectCommand(object), lived);
      return { url, method: "GET", headers: {}, expiresWallMs };
    }
    // Size and checksum are signed as headers that the sender must repeat: S3 refuses any other content.
    const headers = { "content-length": String(bytes), "x-amz-checksum-sha256": base64(hash) };
    const checked = { ContentLength: bytes, ChecksumSHA256: headers["x-amz-checksum-sha256"] };
    const names = new Set(Object.keys(headers));
    const url = await getSignedUrl(this.#client, new aws.PutObjectCommand({ ...object, ...checked }), {
      ...lived,
      signableHeaders: new Set(["host", ...names]),
      unhoistableHeaders: names,
    });
    return { url, method: "PUT", headers, expiresWallMs };
  }

  #object(hash: Sha256) {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${hash}` };
  }

  async #call<Result>(send: () => Promise<Result>, hash?: Sha256): Promise<Result> {
    try {
      return await send();
    } catch (thrown) {
      throw this.#explained(thrown, hash);
    }
  }

  #explained(thrown: unknown, hash: Sha256 | undefined): DcnrError {
    if (hash !== undefined && isMissing(thrown)) missingBlob(hash, `the ${this.#where}`);
    return awsError(thrown, this.#where);
  }
}

async function* inParts(pieces: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array> {
  let part: Uint8Array[] = [];
  let held = 0;
  for await (let piece of pieces) {
    while (held + piece.length >= bytes) {
      yield Buffer.concat([...part, piece.subarray(0, bytes - held)]);
      piece = piece.subarray(bytes - held);
      [part, held] = [[], 0];
    }
    // A copy, since the sender may reuse its buffer before the part is sent.
    part.push(piece.slice());
    held += piece.length;
  }
  if (held > 0) yield Buffer.concat(part);
}

function base64(hash: Sha256): string {
  return Buffer.from(hash, "hex").toString("base64");
}

function isMissing(thrown: unknown): boolean {
  const { name, $metadata } = thrown as { name?: string; $metadata?: { httpStatusCode?: number } };
  return name === "NotFound" || name === "NoSuchKey" || (name !== "NoSuchBucket" && $metadata?.httpStatusCode === 404);
}
