import assert from "node:assert/strict";
import { test } from "node:test";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { uncounted } from "../protocol/network.ts";
import { dashboardHandler } from "./handler.ts";

const page = new TextEncoder().encode(`<!doctype html>${"<p>calm</p>".repeat(500)}`);
const files = new Map([
  ["/", { bytes: page, type: "text/html; charset=utf-8", etag: '"p"' }],
  ["/assets/a-1.js", { bytes: page, type: "text/javascript; charset=utf-8", etag: '"a"' }],
]);
const handler = dashboardHandler(async () => files);
const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
  handler(new Request(`http://localhost:7700${path}`, { method, headers }), "127.0.0.1", uncounted);

test("the page comes with a policy that lets nothing else in", async () => {
  const answer = await get("/");
  assert.equal(answer?.status, 200);
  assert.equal(answer.headers.get("content-type"), "text/html; charset=utf-8");
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  const policy = answer.headers.get("content-security-policy") ?? "";
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  assert.deepEqual(new Uint8Array(await answer.arrayBuffer()), page);
});

test("bytes are compressed as the browser accepts, and are the same bytes", async () => {
  const brotli = await get("/", { "accept-encoding": "gzip, deflate, br;q=0.9" });
  assert.equal(brotli?.headers.get("content-encoding"), "br");
  assert.deepEqual(new Uint8Array(brotliDecompressSync(await brotli.bytes())), page);
  const gzipped = await get("/", { "accept-encoding": "gzip, br;q=0" });
  assert.equal(gzipped?.headers.get("content-encoding"), "gzip");
  assert.deepEqual(new Uint8Array(gunzipSync(await gzipped.bytes())), page);
});

test("a browser that has it gets 304; hashed assets are kept for ever, the page is not", async () => {
  assert.equal((await get("/", { "if-none-match": '"x", W/"p"' }))?.status, 304);
  assert.equal((await get("/", { "if-none-match": '"x"' }))?.status, 200);
  assert.match((await get("/assets/a-1.js"))?.headers.get("cache-control") ?? "", /immutable/);
  assert.equal((await get("/"))?.headers.get("cache-control"), "no-cache");
});

test("other paths and methods go to the next handler without loading anything", async () => {
  const never = dashboardHandler(() => assert.fail("loaded for a path that is not the dashboard's"));
  for (const path of ["/metrics", "/blobs/x", "/v1/models", "/healthz"])
    assert.equal(await never(new Request(`http://localhost${path}`), "peer", uncounted), undefined);
  assert.equal(await get("/assets/../../etc/passwd"), undefined);
  assert.equal(await get("/assets/nothing.js"), undefined);
  assert.equal(await get("/", {}, "POST"), undefined);
  assert.equal(await (await get("/", {}, "HEAD"))?.text(), "");
});

test("a load that failed is tried again", async () => {
  let loads = 0;
  const flaky = dashboardHandler(async () => {
    loads += 1;
    if (loads === 1) throw new Error("not built yet");
    return files;
  });
  const request = new Request("http://localhost/");
  await assert.rejects(flaky(request, "peer", uncounted), /not built yet/);
  assert.equal((await flaky(request, "peer", uncounted))?.status, 200);
});

test("pages that compute may compile WebAssembly and share memory with their workers; others may not, and none may more", async () => {
  const computing = dashboardHandler(
    async () =>
      new Map(
        ["/", "/join", "/assets/tab-engine-1.js", "/assets/a-1.js"].map((path) => [path, files.get("/")] as never),
      ),
  );
  const headersOf = async (path: string) =>
    (await computing(new Request(`http://localhost:7700${path}`), "127.0.0.1", uncounted))?.headers ?? new Headers();
  for (const path of ["/join", "/assets/tab-engine-1.js"]) {
    const headers = await headersOf(path);
    assert.equal(headers.get("cross-origin-embedder-policy"), "require-corp");
    assert.equal(headers.get("cross-origin-opener-policy"), "same-origin");
    const policy = headers.get("content-security-policy") ?? "";
    assert.match(policy, /script-src 'self' 'wasm-unsafe-eval'; /);
    assert.match(policy, /worker-src 'self'/);
    assert.match(policy, /connect-src 'self';/);
    assert.doesNotMatch(policy, /'unsafe|https?:|\*/);
  }
  for (const path of ["/", "/assets/a-1.js"])
    assert.doesNotMatch((await headersOf(path)).get("content-security-policy") ?? "", /wasm|worker/);
});
