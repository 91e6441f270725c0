// A strict little S3 server for tests, in memory: it checks signatures, end of life, signed headers and checksums as S3
// does, and returns lists in pages of two. The servers on npm skip most of these checks, which are what we test.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type Credentials, checkSignature, S3Refusal } from "./s3-signature.ts";

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly objects: Map<string, Buffer>;
  /** Multipart uploads that were neither completed nor aborted. */
  readonly uploads: Map<string, Map<number, Buffer>>;
  stop(): Promise<void>;
}

interface Call {
  readonly method: string;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

interface Answer {
  readonly status?: number;
  readonly headers?: Record<string, string | number>;
  readonly body?: Buffer | string;
}

const pageSize = 2;
const partBytesMin = 5 * 2 ** 20;

export async function startS3(): Promise<S3Server> {
  process.env["AWS_ACCESS_KEY_ID"] ??= "local";
  process.env["AWS_SECRET_ACCESS_KEY"] ??= "local-secret";
  const credentials: Credentials = {
    id: process.env["AWS_ACCESS_KEY_ID"],
    secret: process.env["AWS_SECRET_ACCESS_KEY"],
  };
  const bucket = "blobs";
  const objects = new Map<string, Buffer>();
  const uploads = new Map<string, Map<number, Buffer>>();
  const server = createServer(async (request, response) => {
    try {
      const url = new URL(request.url ?? "/", "http://s3");
      const body = Buffer.concat(await Array.fromAsync(request));
      checkSignature(request, url, body, credentials);
      const [, name, ...key] = decodeURIComponent(url.pathname).split("/");
      if (name !== bucket) throw new S3Refusal(404, "NoSuchBucket");
      const call = { method: request.method ?? "", key: key.join("/"), query: url.searchParams, request, body };
      const answer = respond(call, objects, uploads);
      const content = Buffer.from(answer.body ?? "");
      response.writeHead(answer.status ?? 200, { "content-length": content.length, ...answer.headers });
      response.end(request.method === "HEAD" ? undefined : content);
    } catch (thrown) {
      const refusal = thrown instanceof S3Refusal ? thrown : new S3Refusal(500, String(thrown));
      const xml = `<Error><Code>${refusal.code}</Code><Message>${refusal.code}</Message></Error>`;
      response.writeHead(refusal.status, { "content-type": "application/xml" });
      response.end(request.method === "HEAD" ? undefined : xml);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    objects,
    uploads,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function respond(call: Call, objects: S3Server["objects"], uploads: S3Server["uploads"]): Answer {
  const { method, key, query } = call;
  if (key === "") return method === "HEAD" ? {} : list(query, objects);
  if (query.has("uploads") || query.has("uploadId")) return multipart(call, objects, uploads);
  switch (method) {
    case "PUT":
      objects.set(key, call.body);
      return { headers: { etag: etag(call.body) } };
    case "GET":
    case "HEAD":
      return read(call, objects.get(key));
    case "DELETE":
      objects.delete(key);
      return { status: 204 };
    default:
      throw new S3Refusal(405, "MethodNotAllowed");
  }
}

function read({ method, request }: Call, content: Buffer | undefined): Answer {
  if (content === undefined) throw new S3Refusal(404, "NoSuchKey");
  if (method === "HEAD") return { headers: { "content-length": content.length } };
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  if (range === null) return { body: content };
  const [start, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, content.length)];
  if (start >= content.length) throw new S3Refusal(416, "InvalidRange");
  const headers = { "content-range": `bytes ${start}-${end - 1}/${content.length}` };
  return { status: 206, headers, body: content.subarray(start, end) };
}

function multipart(call: Call, objects: S3Server["objects"], uploads: S3Server["uploads"]): Answer {
  const { method, key, query, body } = call;
  if (query.has("uploads")) {
    const id = `upload-${createHash("sha256").update(`${key} ${uploads.size} ${Math.random()}`).digest("hex")}`;
    uploads.set(id, new Map());
    return { body: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>` };
  }
  const id = query.get("uploadId") ?? "";
  const parts = uploads.get(id);
  if (parts === undefined) throw new S3Refusal(404, "NoSuchUpload");
  if (method === "PUT") {
    parts.set(Number(query.get("partNumber")), body);
    return { headers: { etag: etag(body) } };
  }
  uploads.delete(id);
  if (method === "DELETE") return { status: 204 };
  const named = [...body.toString().matchAll(/<Part>(.*?)<\/Part>/gs)].map(([, part = ""]) => {
    const content = parts.get(Number(/<PartNumber>(\d+)</.exec(part)?.[1]));
    if (content === undefined || !part.replaceAll("&quot;", '"').includes(etag(content)))
      throw new S3Refusal(400, "InvalidPart");
    return content;
  });
  if (named.slice(0, -1).some((part) => part.length < partBytesMin)) throw new S3Refusal(400, "EntityTooSmall");
  objects.set(key, Buffer.concat(named));
  return { body: `<CompleteMultipartUploadResult><Key>${key}</Key></CompleteMultipartUploadResult>` };
}

function list(query: URLSearchParams, objects: S3Server["objects"]): Answer {
  const after = query.get("continuation-token") ?? "";
  const prefix = query.get("prefix") ?? "";
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
  const page = keys.slice(0, pageSize);
  const contents = page.map((key) => `<Contents><Key>${key}</Key><Size>${objects.get(key)!.length}</Size></Contents>`);
  const next = keys.length > pageSize ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : "";
  return { body: `<ListBucketResult>${contents.join("")}${next}</ListBucketResult>` };
}

function etag(content: Buffer): string {
  return `"${createHash("md5").update(content).digest("hex")}"`;
}
