import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "node:tls";
import { hasCode } from "../../core/errors.ts";
import { newIdentity } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { openGrpcNetwork } from "../grpc.ts";
import { parseAddress, withKey } from "../routes/address.ts";
import { certificateOf, holderOf } from "./certificate.ts";
import { pinnedFetch } from "./pinned-http.ts";
import { Tls } from "./tls.ts";

const [server, stranger, web] = [newIdentity(), newIdentity(), newIdentity()];

async function withServer(run: (address: string, heard: string[]) => Promise<void>, withWeb = false): Promise<void> {
  const heard: string[] = [];
  const webCertificate = { cert: certificateOf(web), key: web.privateKey };
  const network = openGrpcNetwork({
    ...{ timers: backgroundTimers, identity: server },
    ...(withWeb && { webCertificate }),
  });
  const listening = await network.serve("127.0.0.1:0", [], async (request) => {
    const body = request.method === "PUT" ? Buffer.from(await request.arrayBuffer()).toString() : "";
    heard.push(`${request.method} ${new URL(request.url).pathname} ${body}`);
    return new Response(`heard ${body}`, { status: body === "refuse" ? 403 : 200 });
  });
  try {
    await run(listening.address, heard);
  } finally {
    await listening.close();
    await network.close();
  }
}

describe("a request to the holder of a key", () => {
  it("goes there and back, with its body and its status", () =>
    withServer(async (address, heard) => {
      const pinned = withKey(address, server.id);
      const body = Buffer.from("content");
      const answer = await pinnedFetch(new Tls(), pinned, "/blobs/x?token=1", { method: "PUT", body });
      assert.deepEqual([answer.status, await answer.text()], [200, "heard content"]);
      const refused = await pinnedFetch(new Tls(), pinned, "/", { method: "PUT", body: Buffer.from("refuse") });
      assert.equal(refused.status, 403);
      assert.equal(heard[0], "PUT /blobs/x content");
    }));

  it("tells nothing to anybody else who answers", () =>
    withServer(async (address, heard) => {
      const call = pinnedFetch(new Tls(), withKey(address, stranger.id), "/", {
        method: "PUT",
        body: Buffer.from("x"),
      });
      await assert.rejects(call, (error) => hasCode(error, "unauthenticated"));
      assert.deepEqual(heard, []);
    }));
});

describe("one port", () => {
  it("shows browsers the web's certificate, and processes of the network its key", () =>
    withServer(async (address) => {
      const { host, port } = parseAddress(address);
      const shown = (servername?: string) =>
        new Promise((resolve, reject) => {
          const socket = connect({ host, port, rejectUnauthorized: false, ...(servername && { servername }) });
          socket.once("error", reject);
          socket.once("secureConnect", () => {
            const certificate = socket.getPeerX509Certificate();
            resolve(certificate && holderOf(certificate)?.id);
            socket.destroy();
          });
        });
      assert.equal(await shown("models.example"), web.id);
      assert.equal(await shown(), web.id, "those who call a number too");
      assert.equal(await new Tls().meet({ host, port }, backgroundTimers), server.id);
    }, true));
});
