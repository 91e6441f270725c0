// The checks that S3 makes before it looks at a request: AWS signature version 4, in headers or in the address, its
// end of life, and the checksums of the body. Written from AWS's description, apart from the SDK that it checks.

import { createHash, createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";

export interface Credentials {
  readonly id: string;
  readonly secret: string;
}

export class S3Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

interface Signature {
  readonly credential: string;
  readonly date: string;
  readonly signedHeaders: string;
  readonly signature: string;
  readonly expiresS: number;
  readonly payload: string;
}

/** S3 accepts clocks that differ by 15 minutes. */
const headerLifetimeS = 15 * 60;

export function checkSignature(request: IncomingMessage, url: URL, body: Buffer, credentials: Credentials): void {
  const given = url.searchParams.has("X-Amz-Signature") ? fromQuery(url.searchParams) : fromHeaders(request);
  const [id = "", day = "", region = "", service = ""] = given.credential.split("/");
  if (id !== credentials.id) throw new S3Refusal(403, "InvalidAccessKeyId");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", given.date, scope, sha256Hex(canonical(request, url, given))].join("\n");
  const key = [day, region, service, "aws4_request"].reduce<Buffer | string>(hmac, `AWS4${credentials.secret}`);
  if (hmac(key, text).toString("hex") !== given.signature) throw new S3Refusal(403, "SignatureDoesNotMatch");
  const ageS = (Date.now() - parseDate(given.date)) / 1000;
  if (ageS > given.expiresS || ageS < -headerLifetimeS) throw new S3Refusal(403, "AccessDenied");
  if (given.payload !== "UNSIGNED-PAYLOAD" && given.payload !== sha256Hex(body))
    throw new S3Refusal(400, "XAmzContentSHA256Mismatch");
  const checksum = request.headers["x-amz-checksum-sha256"] ?? url.searchParams.get("x-amz-checksum-sha256");
  if (checksum && checksum !== createHash("sha256").update(body).digest("base64"))
    throw new S3Refusal(400, "BadDigest");
}

function fromQuery(query: URLSearchParams): Signature {
  const get = (name: string) => query.get(`X-Amz-${name}`) ?? "";
  return {
    credential: get("Credential"),
    date: get("Date"),
    signedHeaders: get("SignedHeaders"),
    signature: get("Signature"),
    expiresS: Number(get("Expires")),
    payload: query.get("X-Amz-Content-Sha256") ?? "UNSIGNED-PAYLOAD",
  };
}

function fromHeaders({ headers }: IncomingMessage): Signature {
  const fields = new Map(
    [...(headers.authorization ?? "").matchAll(/(\w+)=([^,\s]+)/g)].map(([, name = "", value = ""]) => [name, value]),
  );
  if (fields.size === 0) throw new S3Refusal(403, "AccessDenied");
  return {
    credential: fields.get("Credential") ?? "",
    date: String(headers["x-amz-date"]),
    signedHeaders: fields.get("SignedHeaders") ?? "",
    signature: fields.get("Signature") ?? "",
    expiresS: headerLifetimeS,
    payload: String(headers["x-amz-content-sha256"]),
  };
}

function canonical(request: IncomingMessage, url: URL, { signedHeaders, payload }: Signature): string {
  const query = [...url.searchParams]
    .filter(([name]) => name !== "X-Amz-Signature")
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort();
  const headers = signedHeaders.split(";").map((name) => `${name}:${String(request.headers[name] ?? "").trim()}\n`);
  return [request.method, url.pathname, query.join("&"), headers.join(""), signedHeaders, payload].join("\n");
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function parseDate(date: string): number {
  return Date.parse(date.replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\dZ)$/, "$1-$2-$3:$4:$5"));
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function sha256Hex(content: Buffer | string): string {
  return createHash("sha256").update(content).digest("hex");
}
