// A real https server on this machine, with a certificate that only this test trusts.

import assert from "node:assert/strict";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { httpsGet } from "../src/system/wires/https-get.ts";
import { certificate, key } from "./wire/localhost-certificate.ts";

describe("a GET over https", () => {
  let server: Server;
  let port = 0;
  const requests: string[] = [];
  before(async () => {
    server = createServer({ key, cert: certificate }, (request, response) => {
      requests.push(`${request.url} ${request.headers.range ?? ""}`);
      if (request.url === "/redirect") response.writeHead(302, { location: "/elsewhere" }).end();
      else response.writeHead(200, { etag: "e1" }).end("content");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    port = (server.address() as AddressInfo).port;
  });
  after(() => server.close());

  const get = (host: string, path: string, checkAddress: (address: string) => void, headers = {}) =>
    httpsGet({ url: new URL(`https://${host}:${port}${path}`), headers, checkAddress }, certificate);

  it("gives status, headers and body, and sends the headers it is told to", async () => {
    const answer = await get("localhost", "/file", () => {}, { range: "bytes=3-" });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["etag"], "e1");
    let text = "";
    for await (const piece of answer.body) text += Buffer.from(piece).toString();
    assert.equal(text, "content");
    assert.equal(requests.at(-1), "/file bytes=3-");
  });

  it("does not follow redirects", async () => {
    const answer = await get("localhost", "/redirect", () => {});
    assert.equal(answer.status, 302);
    assert.equal(answer.headers["location"], "/elsewhere");
    answer.cancel();
  });

  for (const host of ["localhost", "127.0.0.1"])
    it(`asks about the address of ${host} before it connects, and does not when it is refused`, async () => {
      const asked: string[] = [];
      const before = requests.length;
      const refuse = (address: string) => {
        asked.push(address);
        throw new Error("not allowed");
      };
      await assert.rejects(get(host, "/secret", refuse), /not allowed/);
      assert.ok(asked.some((address) => address === "127.0.0.1" || address === "::1"));
      assert.equal(requests.length, before);
    });

  it("refuses a certificate that it does not know", async () => {
    const url = new URL(`https://localhost:${port}/`);
    await assert.rejects(httpsGet({ url, headers: {}, checkAddress: () => {} }), { code: "unavailable" });
  });
});
