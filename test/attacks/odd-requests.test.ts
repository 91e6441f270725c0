// P: requests whose Host, address or method is not what a client would send, over a real socket. Each gets an answer that
// refuses it, never "internal error", and a page whose name was made to lead to this machine reads nothing here.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import type { Network, Server } from "../../src/protocol/network.ts";
import { healthService } from "../../src/protocol/server/health.ts";
import { backgroundTimers } from "../../src/system/timers.ts";

let network: Network;
let server: Server;
const logged: string[] = [];

before(async () => {
  const log = (_: string, message: string) => void logged.push(message);
  network = openGrpcNetwork({ timers: backgroundTimers, log, allowedHosts: ["dcnr.example"] });
  server = await network.serve("127.0.0.1:0", [healthService(() => true, backgroundTimers)], async (request) => {
    return new Response(`page ${new URL(request.url).pathname}`);
  });
});
after(async () => {
  await server.close();
  await network.close();
});

/** The status line of the answer to these bytes. */
function answer(text: string): Promise<string> {
  const [host, port] = server.address.split(":") as [string, string];
  return new Promise((resolve, reject) => {
    let said = "";
    const socket = connect(Number(port), host, () => socket.write(text));
    socket.on("error", reject);
    socket.setEncoding("latin1");
    socket.on("data", (piece: string) => {
      said += piece;
      if (said.includes("\r\n")) socket.destroy();
    });
    socket.on("close", () => resolve(said.split("\r\n", 1)[0] as string));
  });
}

const get = (host: string, path = "/x") => answer(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\n\r\n`);

describe("P: odd requests", () => {
  it("with a Host that is no host are refused", async () => {
    for (const host of ["a b<>", "<script>", "a:b:c", "a/../b", "a@b", "[::1", "a\\b", "%00", "a:99999999x"])
      assert.match(await get(host), /^HTTP\/1\.1 403 /, host);
  });

  it("for methods, with a Host that only looks like one or with none, are refused and end nothing", async () => {
    const path = "/grpc.health.v1.Health/Check";
    for (const host of ["127.0.0.1:99999", "[:::]", "256.256.256.256"]) {
      assert.match(await get(host, path), /^HTTP\/1\.1 403 /, host);
      const posted = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`;
      assert.match(await answer(posted), /^HTTP\/1\.1 403 /, host);
    }
    assert.match(await answer(`GET ${path} HTTP/1.0\r\n\r\n`), /^HTTP\/1\.1 400 /);
    assert.match(await get("", path), /^HTTP\/1\.1 400 /);
    assert.match(await get("127.0.0.1"), /^HTTP\/1\.1 200 /, "others are answered");
  });

  it("under a name that is not ours are refused, reading too", async () => {
    assert.match(await get("evil.example"), /^HTTP\/1\.1 403 /);
    assert.match(
      await answer("POST /x HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n"),
      /^HTTP\/1\.1 403 /,
    );
    for (const host of ["127.0.0.1", "localhost:80", "[::1]:80", "dcnr.example"])
      assert.match(await get(host), /^HTTP\/1\.1 200 /, host);
  });

  it("for addresses that are none are refused", async () => {
    for (const path of ["http://evil.example/x", "*", "x", "//\u0000", ":99999999/"])
      assert.match(await get("127.0.0.1", path), /^HTTP\/1\.1 40[034] /, path);
  });

  it("leave nothing behind that looks like a fault of ours", () => assert.deepEqual(logged, []));
});
