// Objects of S3 buckets as sources of datasets. Credentials and region come from the usual AWS settings.

import { fail, messageOf } from "../../core/errors.ts";
import { loadOptional } from "../../core/optional.ts";
import type { ObjectGet } from "./source.ts";

const aws = await loadOptional<typeof import("@aws-sdk/client-s3")>(
  "@aws-sdk/client-s3",
  "s3",
  "a dataset in an S3 bucket",
);

export interface BucketOptions {
  /** For servers other than AWS; they are addressed by path. */
  readonly endpoint?: string;
  readonly region?: string;
}

export function openBuckets({ endpoint, region }: BucketOptions = {}): { get: ObjectGet; close(): void } {
  const client = new aws.S3Client({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    // Not every server knows the newer checksums; shards have their own.
    responseChecksumValidation: "WHEN_REQUIRED",
  });
  return {
    close: () => client.destroy(),
    async get(bucket, key, start) {
      const range = start > 0 ? { Range: `bytes=${start}-` } : {};
      const answer = await client
        .send(new aws.GetObjectCommand({ Bucket: bucket, Key: key, ...range }))
        .catch((thrown) => {
          const missing = ["NoSuchKey", "NoSuchBucket", "NotFound"].includes((thrown as Error).name);
          if (missing) fail("not_found", `s3://${bucket}/${key} does not exist`, thrown);
          fail("unavailable", `s3://${bucket}/${key} cannot be read: ${messageOf(thrown)}`, thrown);
        });
      // With a range the length is that of the rest.
      const bytes = (answer.ContentLength ?? 0) + start;
      return { bytes, tag: answer.ETag ?? "", body: answer.Body as unknown as AsyncIterable<Uint8Array> };
    },
  };
}
