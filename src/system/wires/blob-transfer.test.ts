import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { DcnrError, hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { newIdentity } from "../keys.ts";
import { openHttpTransfer } from "./blob-transfer.ts";
import { consumed } from "./consumed.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function serving(answer: Answer, run: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}/blobs/states/x?token=secret`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const content = new Uint8Array(600_000).map((_, i) => i * 7);
/** For what must be given up: soon. */
const hasty = openHttpTransfer({ stallMs: 100, answerMs: 400 });
const transfer = openHttpTransfer();
/** For what must succeed, on a busy machine too: five seconds stand for thirty, and what is slow takes longer. */
const stallMs = 5_000;
const patient = openHttpTransfer({ stallMs, answerMs: 60_000 });
const failing = (code: DcnrError["code"], pattern: RegExp) => (error: unknown) => {
  assert.ok(hasCode(error, code), String(error));
  assert.match((error as Error).message, pattern);
  assert.doesNotMatch((error as Error).message, /secret|password/, "neither tokens nor what a server said");
  return true;
};

describe("a server behind a proxy that ends TLS", () => {
  const key = newIdentity().id;
  const openssl = spawnSync("openssl", ["version"]).status === 0;

  /** Answers with the content, under a certificate for 127.0.0.1 that nobody has signed but itself. */
  async function proxied(run: (url: string, certificate: string) => Promise<void>): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), "dcnr-proxy-"));
    const [cert, secret] = [join(directory, "cert.pem"), join(directory, "key.pem")];
    const made = ["-keyout", secret, "-out", cert, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...made], {
      stdio: "ignore",
    });
    const certificate = readFileSync(cert, "utf8");
    const server = createTlsServer({ cert: certificate, key: readFileSync(secret) }, (request, response) => {
      request.resume();
      response.end(request.method === "GET" ? content : "");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      await run(`https://127.0.0.1:${(server.address() as AddressInfo).port}/blobs/states/x?token=secret`, certificate);
    } finally {
      server.closeAllConnections();
      server.close();
      rmSync(directory, { recursive: true });
    }
  }

  it("is believed by a certificate of the web where the address says so, and by its key alone where not", (test) =>
    openssl
      ? proxied(async (url, authorities) => {
          const transfer = openHttpTransfer({ stallMs, authorities });
          const into = new Uint8Array(content.byteLength);
          await assert.rejects(transfer.download({ url, key, headers: {} }, into), DcnrError);
          await transfer.download({ url, key, orWeb: true, headers: {} }, into);
          assert.equal(sha256(into), sha256(content));
          await transfer.upload({ url, key, orWeb: true, headers: {} }, content);
        })
      : test.skip("there is no openssl here"));

  it("is told nothing if it shows neither the key nor a certificate that counts", (test) =>
    openssl
      ? proxied(async (url) => {
          const into = new Uint8Array(content.byteLength);
          await assert.rejects(
            openHttpTransfer({ stallMs }).download({ url, key, orWeb: true, headers: {} }, into),
            DcnrError,
          );
          assert.ok(into.every((byte) => byte === 0));
        })
      : test.skip("there is no openssl here"));
});

describe("a download", () => {
  it("takes what came in one piece of a wire with something else for what it is", () =>
    serving(
      (_, response) => {
        // Without a length: chunks with their sizes between them, hundreds in one packet.
        for (let at = 0; at < content.byteLength; at += 150) response.write(content.subarray(at, at + 150));
        response.end();
      },
      async (url) => {
        const into = new Uint8Array(content.byteLength);
        await transfer.download({ url, headers: {} }, into);
        assert.equal(sha256(into), sha256(content));
      },
    ));

  it("gives the memory of each piece back at once, and none that others use", () => {
    const alone = Buffer.from(new ArrayBuffer(1000));
    const shared = new Uint8Array(new ArrayBuffer(1000), 0, 999);
    consumed(alone);
    consumed(shared);
    assert.equal(alone.buffer.byteLength, 0);
    assert.equal(shared.buffer.byteLength, 1000);
  });

  it("takes as long as it takes while bytes move: longer than a stall may last", () =>
    serving(
      (_, response) => {
        response.setHeader("content-length", content.byteLength);
        const drip = async () => {
          for (let at = 0; at < content.byteLength; at += 20_000) {
            response.write(content.subarray(at, at + 20_000));
            await sleep(stallMs / 25);
          }
          response.end();
        };
        void drip();
      },
      async (url) => {
        const into = new Uint8Array(content.byteLength);
        await patient.download({ url, headers: {} }, into);
        assert.equal(sha256(into), sha256(content));
      },
    ));

  it("that stands still fails, and the next attempt gets it", async () => {
    let requests = 0;
    const answer: Answer = (_, response) => {
      response.setHeader("content-length", content.byteLength);
      if (++requests === 1) response.write(content.subarray(0, 1000));
      else response.end(content);
    };
    await serving(answer, async (url) => {
      const into = new Uint8Array(content.byteLength);
      await assert.rejects(hasty.download({ url, headers: {} }, into), failing("unavailable", /stalled: no byte came/));
      await patient.download({ url, headers: {} }, into);
      assert.equal(sha256(into), sha256(content));
    });
  });

  it("from a server that takes the connection and says nothing fails", async () => {
    const sockets: Socket[] = [];
    const server = createTcpServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`;
    await assert.rejects(
      hasty.download({ url, headers: {} }, new Uint8Array(9)),
      failing("unavailable", /no answer came/),
    );
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it("of another length is refused, announced or not, and never overruns its memory", async () => {
    for (const [length, announced] of [
      [content.byteLength - 1, true],
      [content.byteLength + 1, true],
      [content.byteLength - 1, false],
      [content.byteLength + 1, false],
    ] as const)
      await serving(
        (_, response) => {
          if (announced) response.setHeader("content-length", length);
          else response.setHeader("transfer-encoding", "chunked");
          response.end(Buffer.alloc(length));
        },
        async (url) => {
          const into = new Uint8Array(content.byteLength);
          await assert.rejects(transfer.download({ url, headers: {} }, into), failing("data_loss", /came with/));
        },
      );
  });

  it("that is cut off says so, and one that is missing is told from it", async () => {
    await serving(
      (_, response) => {
        response.setHeader("content-length", content.byteLength);
        response.write(content.subarray(0, 5000), () => response.destroy());
      },
      (url) =>
        assert.rejects(
          transfer.download({ url, headers: {} }, new Uint8Array(content.byteLength)),
          failing("unavailable", /cannot be reached|closed the connection/),
        ),
    );
    await serving(
      (_, response) => response.writeHead(404).end("the password is swordfish"),
      (url) =>
        assert.rejects(
          transfer.download({ url, headers: {} }, new Uint8Array(9)),
          failing("not_found", /answered 404$/),
        ),
    );
  });

  it("follows no redirect and tells nothing of what a server answers", async () => {
    for (const status of [200, 301, 307, 403, 500])
      await serving(
        (_, response) =>
          response.writeHead(status, { location: "http://169.254.169.254/password" }).end("password=swordfish"),
        (url) =>
          assert.rejects(transfer.download({ url, headers: {} }, new Uint8Array(9)), (error: unknown) => {
            assert.ok(error instanceof DcnrError);
            assert.doesNotMatch(error.message, /password|swordfish|secret/);
            return true;
          }),
      );
  });
});

describe("an upload", () => {
  it("to a slow but steady reader takes as long as it takes", async () => {
    // More than what the system's buffers swallow at once.
    const large = new Uint8Array(24 << 20).fill(5);
    let received = 0;
    await serving(
      (request, response) => {
        request.on("data", (piece: Buffer) => {
          received += piece.length;
          request.pause();
          setTimeout(() => request.resume(), piece.length / 20_000);
        });
        request.on("end", () => response.writeHead(201).end());
      },
      (url) => patient.upload({ url, headers: {} }, large),
    );
    assert.equal(received, large.byteLength);
  });

  it("to a reader that stops reading fails", () =>
    serving(
      (request) => void request.once("data", () => request.pause()),
      (url) =>
        assert.rejects(
          hasty.upload({ url, headers: {} }, new Uint8Array(64 << 20)),
          failing("unavailable", /stalled: no byte was taken/),
        ),
    ));

  it("sends the address's headers and its size, and no others of its own", async () => {
    let seen: string[] = [];
    await serving(
      (request, response) => {
        seen = Object.keys(request.headers).sort();
        request.resume().on("end", () => response.writeHead(201).end());
      },
      (url) => patient.upload({ url, headers: { "X-Amz-Checksum-Sha256": "abc" } }, content),
    );
    assert.deepEqual(seen, ["connection", "content-length", "host", "x-amz-checksum-sha256"]);
  });

  it("that is refused in the middle ends there, with the status alone", async () => {
    await serving(
      (request, response) => {
        request.once("data", () => response.writeHead(507).end("password: disk 3 is full"));
      },
      (url) =>
        assert.rejects(
          transfer.upload({ url, headers: {} }, new Uint8Array(64 << 20)),
          failing("resource_exhausted", /answered 507$/),
        ),
    );
  });

  it("ends when it is cancelled", () =>
    serving(
      (request) => void request.once("data", () => request.pause()),
      async (url) => {
        const controller = new AbortController();
        const slow = openHttpTransfer({ stallMs: 60_000 });
        const sending = slow.upload({ url, headers: {} }, new Uint8Array(64 << 20), controller.signal);
        await sleep(50);
        controller.abort();
        await assert.rejects(sending, (error: unknown) => hasCode(error, "cancelled"));
      },
    ));
});
