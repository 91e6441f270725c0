import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { ManualTimers } from "../connections/timers.testing.ts";
import { openGrpcNetwork } from "../grpc.ts";
import type { HttpHandler } from "../network.ts";
import { Guests } from "./guests.ts";
import { guestLimitsDefault as limits } from "./limits.ts";

interface Scene {
  readonly timers: ManualTimers;
  /** A connection that has said so much so far. */
  say(bytes: string, localAddress?: string): Promise<Socket>;
  readonly url: string;
  /** How many requests have begun. */
  begun(count: number): Promise<void>;
}

async function scene(run: (scene: Scene) => Promise<void>): Promise<void> {
  const timers = new ManualTimers();
  const network = openGrpcNetwork({ timers });
  let begun = 0;
  const http: HttpHandler = async (request) => {
    begun++;
    await request.text();
    return new Response("read");
  };
  const server = await network.serve("127.0.0.1:0", [], http);
  const sockets: Socket[] = [];
  try {
    await run({
      timers,
      url: `http://${server.address}`,
      begun: async (count) => {
        while (begun < count) await new Promise((resolve) => setImmediate(resolve));
      },
      say: async (bytes, localAddress) => {
        const [host, port] = server.address.split(":") as [string, string];
        const socket = connect({ port: Number(port), host, ...(localAddress && { localAddress }) });
        sockets.push(socket);
        socket.on("error", () => {});
        await once(socket, "connect");
        socket.write(bytes);
        await settled();
        return socket;
      },
    });
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.close();
    await network.close();
  }
}

const post = "POST /x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n";

describe("a connection to a server is closed", () => {
  const cases: readonly [string, string, number][] = [
    ["that says nothing", "", limits.prefaceMs],
    ["that stops in the middle of what may become HTTP/2's first words", "PRI *", limits.prefaceMs],
    ["that stops after HTTP/2's first words", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", limits.headersMs],
    ["that stops in the middle of a request's headers", post, limits.headersMs],
    ["that stops in the middle of a request's body", `${post}\r\nhalf`, limits.bodyMs],
  ];
  for (const [who, bytes, limitMs] of cases)
    it(who, () =>
      scene(async ({ say, timers, begun }) => {
        const socket = await say(bytes);
        if (bytes.endsWith("half")) await begun(1);
        socket.resume();
        await settled();
        assert.equal(socket.closed, false);
        timers.advance(limitMs);
        await once(socket, "close");
      }),
    );

  it("that keeps saying a little of a request's headers", () =>
    scene(async ({ say, timers }) => {
      const socket = await say(post);
      socket.resume();
      const closed = once(socket, "close");
      for (let passedMs = 0; passedMs < limits.headersMs; passedMs += limits.headersMs / 10) {
        socket.write("x: y\r\n");
        await settled();
        timers.advance(limits.headersMs / 10);
      }
      await closed;
    }));

  it("that was told to speak encrypted and stays", async () => {
    const timers = new ManualTimers();
    const guests = new Guests(timers, limits);
    const never = () => assert.fail("nobody may serve it");
    const listener = createServer({ pauseOnConnect: true }, (socket) =>
      guests.welcome(socket, { http1: never, http2: never, plain: () => false }),
    );
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", () => resolve()));
    // It goes on talking, and never ends its own half.
    const socket = connect({ port: (listener.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
    try {
      socket.on("error", () => {});
      socket.write("GET / HTTP/1.1\r\n");
      assert.match(String((await once(socket, "data"))[0]), /^HTTP\/1.1 426/);
      socket.write("host: a\r\n");
      assert.equal(guests.count, 1);
      timers.advance(limits.prefaceMs);
      await settled();
      assert.equal(guests.count, 0);
    } finally {
      socket.destroy();
      listener.close();
    }
  });

  it("whose other end falls silent while a stream is open", () =>
    scene(async ({ say, timers, begun }) => {
      const settings = Buffer.of(0, 0, 0, 4, 0, 0, 0, 0, 0);
      // ":method: POST", ":scheme: http", ":path: /" by their numbers, then ":authority"; its body never comes.
      const fields = Buffer.concat([Buffer.of(0x83, 0x86, 0x84, 0x41, 9), Buffer.from("127.0.0.1")]);
      const headers = Buffer.concat([Buffer.of(0, 0, fields.byteLength, 1, 4, 0, 0, 0, 1), fields]);
      const socket = await say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
      socket.write(Buffer.concat([settings, headers]));
      await begun(1);
      socket.resume();
      const closed = once(socket, "close");
      timers.advance(2 * limits.quietMs);
      await settled();
      timers.advance(limits.pingMs);
      await closed;
    }));

  it("that has no stream for long", () =>
    scene(async ({ url, timers }) => {
      const session: ClientHttp2Session = connectHttp2(url);
      session.on("error", () => {});
      const stream = session.request({ ":path": "/" });
      stream.resume();
      await once(stream, "close");
      await settled();
      timers.advance(limits.idleMs);
      await once(session, "close");
    }));
});

describe("an address whose connections come to nothing", () => {
  const proper = "GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

  it("waits for its turn, unread, and gets it", { skip: process.platform !== "linux" }, () =>
    scene(async ({ say, timers, begun }) => {
      for (let count = 0; count < limits.door.wastedFree; count++) {
        const socket = await say("rubbish\r\n\r\n", "127.0.0.9");
        socket.resume();
        if (!socket.closed) await once(socket, "close");
      }
      await settled();
      const honest = await say(proper, "127.0.0.9");
      const answer = once(honest, "data");
      await say(proper, "127.0.0.8");
      await begun(1);
      assert.equal(honest.bytesRead, 0, "another address is not held up");
      timers.advance(limits.door.turnMinMs);
      assert.match(String((await answer)[0]), /^HTTP\/1.1 200 OK/);
    }),
  );
});

describe("a connection to a server is kept", () => {
  it("while a request's body gets on, however long it takes", () =>
    scene(async ({ say, timers, begun }) => {
      const socket = await say(`${post}\r\n`);
      await begun(1);
      const answer = once(socket, "data");
      for (let i = 0; i < 100; i++) {
        socket.write("x");
        await settled();
        timers.advance(limits.bodyMs / 2);
      }
      assert.match(String((await answer)[0]), /^HTTP\/1.1 200 OK/);
    }));

  it("however its first words are cut", () =>
    scene(async ({ say }) => {
      const socket = await say("P");
      const answer = once(socket, "data");
      for (const letter of "OST /x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n") {
        socket.write(letter);
        await settled();
      }
      assert.match(String((await answer)[0]), /^HTTP\/1.1 200 OK/);
    }));
});

/** Until what is on its way between sockets of this machine has arrived. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
}
