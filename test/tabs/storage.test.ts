// A browser's disk, keys and transfers as a PNode uses them, in a real browser.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { launchBrowser } from "../browser/browser.ts";

test("what is spilled, cached, signed and fetched in a browser is what it should be, within its bounds", async () => {
  const { outputFiles } = await build({
    ...{ entryPoints: [join(import.meta.dirname, "storage-worker.ts")], bundle: true, write: false },
    ...{ format: "esm", platform: "browser", target: "es2024" },
  });
  const script = outputFiles[0]?.text ?? "";
  const answers: Record<string, [string, string]> = {
    "/": ["text/html", "<!doctype html><title>storage</title>"],
    "/worker.js": ["text/javascript", script],
    "/blob": ["application/octet-stream", "blob"],
  };
  const server = createServer((request, response) => {
    response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
    response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
    const [type, body] = answers[request.url ?? ""] ?? [];
    if (type === undefined) response.writeHead(404).end();
    else response.setHeader("Content-Type", type).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const browser = await launchBrowser();
  try {
    const page = await (await browser.newContext()).newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const found = await page.evaluate(
      () =>
        new Promise((resolve) => {
          const worker = new Worker("/worker.js", { type: "module" });
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = ({ message }) => resolve({ error: message });
        }),
    );
    assert.deepEqual(found, {
      ...{ spilled: "other", tooMuch: "resource_exhausted", afterwards: "nothing", gone: "NotFoundError" },
      ...{ cached: "shard", isKept: true, same: true, signed: true, forged: false, others: false, unknown: undefined },
      ...{ missing: "not_found", elsewhere: "unavailable", foreign: ["s3.example"], longer: "data_loss" },
      downloaded: "blob",
      isSha256: createHash("sha256").update("abc").digest("hex"),
    });
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});
