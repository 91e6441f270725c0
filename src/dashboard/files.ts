// A file of the dashboard as it is served: its bytes, its media type by its name, a tag by its content.

import { createHash } from "node:crypto";

export interface DashboardFile {
  readonly bytes: Uint8Array;
  readonly type: string;
  readonly etag: string;
}

/** By path, "/" for the page itself; other names carry a hash of their content and never change. */
export type DashboardFiles = ReadonlyMap<string, DashboardFile>;

const types: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
};

export function dashboardFile(name: string, bytes: Uint8Array): DashboardFile {
  const hash = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  const extension = name.slice(name.lastIndexOf(".") + 1);
  return { bytes, type: types[extension] ?? "application/octet-stream", etag: `"${hash}"` };
}
