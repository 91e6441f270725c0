// From what a person writes after --store and --blobs to an open store. Backends are loaded when named, so that
// nobody pays for a database client that is not used.

import { fail } from "../core/errors.ts";
import type { World } from "../core/world.ts";
import type { BlobStore } from "./blobs/blob-store.ts";
import type { StateStore } from "./records/state-store.ts";

export interface StoreDependencies {
  readonly world: World;
}

export interface BlobDependencies extends StoreDependencies {
  /** "http://host:port" of this orchestrator as PNodes reach it, for blobs that it serves itself. */
  readonly baseUrl: () => string;
}

export const storeForms =
  "memory, sqlite:PATH, dynamodb:TABLE[@ENDPOINT] or postgres://USER:PASSWORD@HOST:PORT/DATABASE";
export const blobForms = "memory, dir:PATH or s3://BUCKET[/PREFIX][@ENDPOINT]";

export async function openStateStore(address: string, { world }: StoreDependencies): Promise<StateStore> {
  if (address === "memory") return (await import("./memory.ts")).openMemoryStore();
  const path = afterScheme(address, "sqlite:");
  if (path) return (await import("./records/sqlite.ts")).openSqliteStore({ path, world });
  const table = afterScheme(address, "dynamodb:");
  if (table) {
    const [name, endpoint] = splitEndpoint(table, address);
    return (await import("./records/dynamodb.ts")).openDynamoStore({ table: name, endpoint, world });
  }
  if (/^postgres(ql)?:\/\/./.test(address))
    return (await import("./records/postgres.ts")).openPostgresStore({ url: address, world });
  fail("invalid_argument", `the store "${address}" is not of a known form: use ${storeForms}`);
}

export async function openBlobStore(address: string, { world, baseUrl }: BlobDependencies): Promise<BlobStore> {
  if (address === "memory")
    return (await import("./memory.ts")).openMemoryBlobs({ clock: world.clock, key: world.chance.bytes(32), baseUrl });
  const path = afterScheme(address, "dir:");
  if (path) return (await import("./blobs/directory.ts")).openDirectoryBlobs({ path, world, baseUrl });
  const place = afterScheme(address, "s3://");
  if (place) {
    const [name, endpoint] = splitEndpoint(place, address);
    const [bucket = "", ...prefix] = name.split("/");
    if (bucket !== "")
      return (await import("./blobs/s3.ts")).openS3Blobs({ bucket, prefix: prefix.join("/"), endpoint, world });
  }
  fail("invalid_argument", `the blob store "${address}" is not of a known form: use ${blobForms}`);
}

function afterScheme(address: string, scheme: string): string | undefined {
  return address.startsWith(scheme) ? address.slice(scheme.length) : undefined;
}

/** `name@http://host:port`; an endpoint without a scheme means http, as local servers do. */
function splitEndpoint(text: string, address: string): [string, string | undefined] {
  const at = text.indexOf("@");
  if (at < 0) return [text, undefined];
  const given = text.slice(at + 1);
  const endpoint = given.includes("://") ? given : `http://${given}`;
  if (at === 0 || !URL.canParse(endpoint))
    fail("invalid_argument", `"${address}" should read NAME@ENDPOINT with an endpoint such as http://127.0.0.1:8000`);
  return [text.slice(0, at), endpoint];
}
