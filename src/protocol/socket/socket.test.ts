import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import { describe, it } from "node:test";
import { build } from "esbuild";
import { DcnrError } from "../../core/errors.ts";
import { newIdentity } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { ExchangeService } from "../gen/dcnr/v1/exchange_pb.ts";
import { InferenceService } from "../gen/dcnr/v1/inference_pb.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import { type Gate, type Network, type ServedService, type Server, service } from "../network.ts";
import { withKey } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import type { GuestLimits } from "../server/limits.ts";
import { openSocketNetwork } from "./socket-network.ts";
import { webSocketLine } from "./web-socket-line.ts";

const timers = backgroundTimers;

const services: readonly ServedService[] = [
  service(SystemService, {
    getVersion: async (_, { caller }) => ({ id: caller.id ?? "nobody", software: caller.address }),
    getHealth: async (_, { header }) => {
      throw new DcnrError("unavailable", `${header("x-what")} sleeps`, { outlook: "final" });
    },
  }),
  service(ExchangeService, {
    exchange: async (channel) => {
      for await (const { event } of channel.incoming) {
        if (event.case === "ping") await channel.send({ event: { case: "pong", value: { id: event.value.id } } });
        if (event.case === "chunk") {
          const detail = String(event.value.data.reduce((sum, byte) => sum + byte, 0));
          await channel.send({ event: { case: "receipt", value: { id: event.value.id, detail } } });
        }
        if (event.case === "hello") throw new DcnrError("permission_denied", "no greetings here");
      }
    },
  }),
];

interface Scene {
  readonly key: string;
  /** "ws://host:port#key". */
  readonly address: string;
  readonly place: string;
  readonly node: Network;
  readonly tab: Network;
  readonly server: Server;
}

interface SceneOptions {
  readonly gate?: Gate;
  readonly guestLimits?: Partial<GuestLimits>;
  readonly connect?: (url: string, signal: AbortSignal) => Promise<Line>;
}

async function scene(run: (scene: Scene) => Promise<void>, { gate, guestLimits, connect }: SceneOptions = {}) {
  const identity = newIdentity();
  const answers = openGrpcNetwork({ timers, identity, ...(guestLimits && { guestLimits }) });
  const server = await answers.serve("127.0.0.1:0", services, undefined, gate);
  const node = openGrpcNetwork({ timers, identity: newIdentity() });
  const tab = openSocketNetwork({ timers, identity: newIdentity(), secure: false, ...(connect && { connect }) });
  try {
    const address = withKey(`ws://${server.address}`, identity.id);
    await run({ key: identity.id, address, place: server.address, node, tab, server });
  } finally {
    for (const network of [node, tab, answers]) await network.close();
    await server.close();
  }
}

describe("calls over a WebSocket", () => {
  it("are answered to whoever has proved its key, from Node and from what a browser has", () =>
    scene(async ({ address, node, tab }) => {
      for (const network of [node, tab]) {
        const { id, software } = await network.call(address, SystemService.method.getVersion, {});
        assert.equal(id, network.id);
        assert.equal(software, "127.0.0.1");
      }
    }));

  it("go over TLS, too, where no certificate of the web is asked for because the key is", () =>
    scene(async ({ address, node }) => {
      const { id } = await node.call(address.replace("ws:", "wss:"), SystemService.method.getVersion, {});
      assert.equal(id, node.id);
    }));

  it("carry an expected failure with code, sentence and outlook, and headers", () =>
    scene(async ({ address }) => {
      const named = openSocketNetwork({ timers, secure: false, headers: { "x-what": "the store" } });
      await assert.rejects(named.call(address, SystemService.method.getHealth, {}), {
        code: "unavailable",
        message: "the store sleeps",
        outlook: "final",
      });
      await assert.rejects(named.watch(address, InferenceService.method.generate, {})[Symbol.asyncIterator]().next(), {
        code: "unimplemented",
      });
      await named.close();
    }));

  it("reach nobody whose key is not the one that is called", () =>
    scene(async ({ place, node, tab }) => {
      const stranger = withKey(`ws://${place}`, newIdentity().id);
      for (const network of [node, tab])
        await assert.rejects(network.call(stranger, SystemService.method.getVersion, {}), { code: "unauthenticated" });
    }));

  it("stream both ways, in order, with many streams side by side and large messages whole", () =>
    scene(async ({ address, node, tab }) => {
      const data = new Uint8Array(1 << 20).fill(3);
      const stream = async (network: Network) => {
        const channel = network.open(address, ExchangeService.method.exchange);
        const sending = (async () => {
          for (let id = 0n; id < 12n; id++) await channel.send({ event: { case: "chunk", value: { id, data } } });
        })();
        let expected = 0n;
        for await (const { event } of channel.incoming) {
          assert.ok(event.case === "receipt" && event.value.id === expected);
          assert.equal(event.value.detail, String(3 << 20));
          if (++expected === 12n) break;
        }
        await sending;
        channel.close();
      };
      await Promise.all([node, tab, tab].map(stream));
    }));

  it("are not held up by a stream that nobody reads", async () => {
    let isRead = () => {};
    const held = new Promise<void>((resolve) => {
      isRead = resolve;
    });
    const slow = service(ExchangeService, {
      exchange: async (channel) => {
        await held;
        for await (const _ of channel.incoming);
      },
    });
    const identity = newIdentity();
    const answers = openGrpcNetwork({ timers, identity });
    const server = await answers.serve("127.0.0.1:0", [slow, services[0] as ServedService]);
    const tab = openSocketNetwork({ timers, identity: newIdentity(), secure: false });
    const address = withKey(server.address, identity.id);
    const channel = tab.open(address, ExchangeService.method.exchange);
    const data = new Uint8Array(1 << 20);
    let sent = 0;
    const sending = (async () => {
      for (; sent < 40; sent++) await channel.send({ event: { case: "chunk", value: { data } } });
    })();
    // Until the credit of the stream is used up; then calls still pass.
    for (let before = -1; before !== sent; ) {
      before = sent;
      for (let call = 0; call < 20; call++) await tab.call(address, SystemService.method.getVersion, {});
    }
    assert.ok(sent < 40, `${sent} MB were taken of a stream that nobody reads`);
    isRead();
    await sending;
    channel.close();
    for (const network of [tab, answers]) await network.close();
    await server.close();
  });

  it("fail at once when the socket breaks", () =>
    scene(async ({ address, tab, server }) => {
      const channel = tab.open(address, ExchangeService.method.exchange);
      await channel.send({ event: { case: "ping", value: { id: 1n } } });
      const messages = channel.incoming[Symbol.asyncIterator]();
      await messages.next();
      await server.close();
      await assert.rejects(messages.next(), { code: "unavailable" });
    }));

  it("are judged before they are read, and end with what the gate says", () => {
    const gate: Gate = {
      identify: async (caller) => caller,
      key: async () => ({ scopes: [], key: "", owner: "" }),
      member: async ({ id }) => {
        throw new DcnrError("permission_denied", `${id} is no member`);
      },
      orchestrator: async () => {},
      network: async () => {},
    };
    return scene(
      async ({ address, tab }) => {
        const channel = tab.open(address, ExchangeService.method.exchange);
        await assert.rejects(channel.incoming[Symbol.asyncIterator]().next(), {
          message: `${tab.id} is no member`,
          code: "permission_denied",
        });
      },
      { gate },
    );
  });

  it("count for the limits of their caller as any others do", () =>
    scene(
      async ({ address, tab }) => {
        const open = () => tab.open(address, ExchangeService.method.exchange);
        const first = open();
        await first.send({ event: { case: "ping", value: { id: 1n } } });
        const answers = first.incoming[Symbol.asyncIterator]();
        await answers.next();
        await assert.rejects(open().incoming[Symbol.asyncIterator]().next(), { code: "resource_exhausted" });
        first.close();
      },
      { guestLimits: { requestsPerKey: 1 } },
    ));

  it("notice a byte that was changed on the way", () => {
    let messages = 0;
    const flipping = async (url: string, signal: AbortSignal): Promise<Line> => {
      const line = await webSocketLine(url, timers, signal);
      return {
        ...line,
        send: (message) => {
          const copy = message.slice();
          if (++messages === 5) copy[copy.byteLength - 1] = (copy.at(-1) as number) ^ 1;
          return line.send(copy);
        },
      };
    };
    return scene(
      async ({ address, tab }) => {
        const channel = tab.open(address, ExchangeService.method.exchange);
        await assert.rejects(
          async () => {
            for (let id = 0n; id < 9n; id++) await channel.send({ event: { case: "ping", value: { id } } });
            for await (const { event } of channel.incoming)
              if (event.case === "pong" && event.value.id === 8n) assert.fail("all of it was taken");
          },
          { code: "unavailable" },
        );
      },
      { connect: flipping },
    );
  });
});

/** What a server answers to the first lines of a connection. */
function answerTo(place: string, lines: readonly string[]): Promise<string> {
  const [host, port] = place.split(":") as [string, string];
  return new Promise((resolve) => {
    const socket = connectTcp(Number(port), host);
    let answer = "";
    socket.on("data", (bytes: Buffer) => {
      answer += bytes.toString("latin1");
      if (answer.includes("\r\n\r\n")) {
        socket.destroy();
        resolve(answer);
      }
    });
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  });
}

describe("a WebSocket", () => {
  const request = (place: string, ...more: readonly string[]) => [
    "GET /dcnr/socket HTTP/1.1",
    `host: ${place}`,
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol: dcnr",
    ...more,
  ];

  it("is opened as RFC 6455 says", () =>
    scene(async ({ place }) => {
      const answer = await answerTo(place, request(place));
      assert.match(answer, /^HTTP\/1\.1 101 /);
      // The RFC's own example.
      assert.match(answer, /sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/);
    }));

  it("is not opened for pages of others, at other paths, or for another protocol", () =>
    scene(async ({ place }) => {
      const answers = [
        await answerTo(place, request(place, "origin: https://elsewhere.example")),
        await answerTo(place, [...request(place)].with(0, "GET /chat HTTP/1.1")),
        await answerTo(place, request(place).with(6, "sec-websocket-protocol: chat")),
      ];
      assert.deepEqual(
        answers.map((answer) => answer.slice(9, 12)),
        ["403", "404", "400"],
      );
    }));
});

it("who is refused a WebSocket and does not leave is let go", () =>
  scene(async ({ place }) => {
    const [host, port] = place.split(":") as [string, string];
    const socket = connectTcp({ host, port: Number(port), allowHalfOpen: true });
    socket.write("GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n");
    let said = "";
    for await (const piece of socket) said += String(piece);
    assert.match(said, /^HTTP\/1\.1 404 /);
    // Only a connection that is no more answers what is written on it with an end.
    const broken = once(socket, "error");
    const writing = setInterval(() => socket.write("x"), 20);
    await broken.finally(() => clearInterval(writing));
  }));

it("what a browser needs of it contains nothing of Node's", async () => {
  const { metafile } = await build({
    entryPoints: ["src/protocol/socket/socket-network.ts", "src/protocol/routes/routed-network.ts"],
    ...{ bundle: true, write: false, metafile: true, platform: "browser", format: "esm", outdir: "nowhere" },
    logLevel: "silent",
  });
  const outside = Object.values(metafile.inputs).flatMap(({ imports }) => imports.filter(({ external }) => external));
  assert.deepEqual(outside, []);
});
