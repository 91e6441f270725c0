import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { withApi } from "./echo.testing.ts";
import { parseOrigin } from "./origins.ts";

/** As a browser sends it for a page: fetch() of Node would not let us say where we come from. */
function asPage(
  url: string,
  method: string,
  headers: Record<string, string>,
  body = "",
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]> }> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers }, (response) => {
      response.resume().on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers }));
    });
    asked.on("error", reject).end(body);
  });
}

const ours = "https://chat.example";
const asking = {
  "access-control-request-method": "POST",
  "access-control-request-headers": "authorization, x-stainless-os",
};

test("a page of a named origin may ask models, after its browser has asked, and may read the answer", () =>
  withApi(true, async ({ url }) => {
    const before = await asPage(`${url}/chat/completions`, "OPTIONS", { origin: ours, ...asking });
    assert.equal(before.status, 204);
    assert.equal(before.headers["access-control-allow-origin"], ours);
    assert.match(String(before.headers["access-control-allow-methods"]), /POST/);
    const body = JSON.stringify({ model: "echo", prompt: "call me" });
    for (const path of ["/completions", "/nothing"]) {
      const answer = await asPage(url + path, "POST", { origin: ours, "content-type": "application/json" }, body);
      assert.equal(answer.status, path === "/completions" ? 200 : 404);
      assert.equal(answer.headers["access-control-allow-origin"], ours, "errors can be read too");
      assert.match(String(answer.headers["vary"]), /origin/);
      assert.match(String(answer.headers["access-control-expose-headers"]), /x-request-id/);
    }
  }));

test("no other page may, and a named one may ask nothing but models", () =>
  withApi(true, async ({ url, echo }) => {
    const body = JSON.stringify({ model: "echo", prompt: "call me" });
    for (const origin of ["https://evil.example", "http://chat.example", "https://chat.example:444", "null"]) {
      assert.equal((await asPage(`${url}/completions`, "POST", { origin }, body)).status, 403, origin);
      assert.equal((await asPage(`${url}/completions`, "OPTIONS", { origin, ...asking })).status, 403, origin);
      const read = await asPage(`${url}/models`, "GET", { origin });
      assert.equal(read.headers["access-control-allow-origin"], undefined);
    }
    const elsewhere = url.replace("/v1", "/dcnr.v1.SessionService/CreateSession");
    assert.equal((await asPage(elsewhere, "POST", { origin: ours }, "{}")).status, 403);
    assert.equal((await asPage(elsewhere, "OPTIONS", { origin: ours, ...asking })).status, 403);
    assert.equal(echo.seen.length, 0);
  }));

test("an origin is named as browsers write it", () => {
  assert.equal(parseOrigin("https://chat.example"), "https://chat.example");
  for (const text of [
    "*",
    "chat.example",
    "https://chat.example/",
    "https://CHAT.example",
    "ftp://chat.example",
    "null",
  ])
    assert.throws(() => parseOrigin(text), /--allow-origin takes an origin/);
});
