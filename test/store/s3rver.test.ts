// The S3 blob store against s3rver, a server that we did not write. It checks neither checksums nor anonymous reads,
// so what must be refused is tested against our own (s3.test.ts).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { blobConformance } from "../../src/store/blobs/blob-conformance.ts";
import { openS3Blobs } from "../../src/store/blobs/s3.ts";
import { conformanceWorld as world } from "../../src/store/records/conformance.ts";

// It comes without types.
const { default: S3rver } = await import("s3rver" as string);

process.env["AWS_ACCESS_KEY_ID"] = "S3RVER";
process.env["AWS_SECRET_ACCESS_KEY"] = "S3RVER";

blobConformance(
  "s3 on s3rver",
  async () => {
    const directory = mkdtempSync(join(tmpdir(), "dcnr-s3rver-"));
    const options = { port: 0, address: "127.0.0.1", silent: true, directory };
    const server = new S3rver({ ...options, configureBuckets: [{ name: "blobs", configs: [] }] });
    const { port } = await server.run();
    const endpoint = `http://127.0.0.1:${port}`;
    return {
      blobs: await openS3Blobs({ bucket: "blobs", prefix: "some/where", endpoint, world }),
      request: (request) => fetch(request),
      async close() {
        await server.close();
        rmSync(directory, { recursive: true });
      },
    };
  },
  { lenient: true },
);
