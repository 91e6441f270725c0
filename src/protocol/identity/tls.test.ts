import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { connect as connectPlain } from "node:net";
import { describe, it } from "node:test";
import { connect as connectTls } from "node:tls";
import { hasCode } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { keyIdOf, successionsMax } from "../../core/keys.ts";
import { newIdentity, succeeded } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { ExchangeService } from "../gen/dcnr/v1/exchange_pb.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import { type Network, type ServedService, service } from "../network.ts";
import { parseAddress, withKey } from "../routes/address.ts";
import { certificateOf, holderOf } from "./certificate.ts";
import { KeyBook } from "./key-book.ts";
import { Tls } from "./tls.ts";

/** Each method tells the caller who it is, as far as the server knows. */
const mirrors: readonly ServedService[] = [
  service(SystemService, {
    getVersion: async (_, { caller }) => ({ id: caller.id ?? "nobody", software: caller.address }),
    getHealth: async () => ({}),
  }),
  service(ExchangeService, {
    exchange: async (channel, { caller }) => {
      for await (const _ of channel.incoming)
        await channel.send({ event: { case: "receipt", value: { detail: caller.id ?? "nobody" } } });
    },
  }),
];

const [server, client, stranger] = [newIdentity(), newIdentity(), newIdentity()];

async function withServer(run: (address: string, open: (as?: typeof client) => Network) => Promise<void>) {
  const opened: Network[] = [];
  const open = (identity?: typeof client) => {
    const network = openGrpcNetwork({ timers: backgroundTimers, ...(identity && { identity }) });
    opened.push(network);
    return network;
  };
  const listening = await open(server).serve("127.0.0.1:0", mirrors);
  try {
    await run(listening.address, open);
  } finally {
    for (const network of opened) await network.close();
    await listening.close();
  }
}

describe("connections that are pinned by keys", () => {
  it("tell both ends who the other is, for calls and streams alike", () =>
    withServer(async (address, open) => {
      const network = open(client);
      const pinned = withKey(address, server.id);
      const version = await network.call(pinned, SystemService.method.getVersion, {});
      assert.deepEqual([version.id, version.software], [client.id, "127.0.0.1"]);
      const channel = network.open(pinned, ExchangeService.method.exchange);
      await channel.send({ event: { case: "ping", value: { id: 1n } } });
      for await (const { event } of channel.incoming) {
        assert.equal(event.case === "receipt" && event.value.detail, client.id);
        break;
      }
      channel.close();
    }));

  it("are not made to somebody else who answers at the address", () =>
    withServer(async (address, open) => {
      const call = open(client).call(withKey(address, stranger.id), SystemService.method.getVersion, {});
      await assert.rejects(
        call,
        (error) => hasCode(error, "unauthenticated") && /is not who it should be/.test(String(error)),
      );
    }));

  it("are made by those who show no key, too: they are nobody in particular, and know whom they call", () =>
    withServer(async (address, open) => {
      const { id } = await open().call(withKey(address, server.id), SystemService.method.getVersion, {});
      assert.equal(id, "nobody");
      const wrong = open().call(withKey(address, stranger.id), SystemService.method.getVersion, {});
      await assert.rejects(wrong, (error) => hasCode(error, "unauthenticated"));
    }));

  it("tell whoever comes for the first time which key answers", () =>
    withServer(async (address) => {
      assert.equal(await new Tls().meet(parseAddress(address), backgroundTimers), server.id);
    }));

  it("are not met where nothing is encrypted, and nobody waits there for ever", async () => {
    const plain = openGrpcNetwork({ timers: backgroundTimers });
    const listening = await plain.serve("127.0.0.1:0", mirrors.slice(0, 1));
    await assert.rejects(new Tls().meet(parseAddress(listening.address), backgroundTimers, 500), (error) =>
      hasCode(error, "unavailable"),
    );
    await listening.close();
    await plain.close();
  });

  it("leave plain callers on this machine nobody in particular", () =>
    withServer(async (address, open) => {
      const { id } = await open(client).call(address, SystemService.method.getVersion, {});
      assert.equal(id, "nobody");
    }));

  it("speak TLS 1.3 and nothing older", () =>
    withServer(async (address) => {
      const { host, port } = parseAddress(address);
      const socket = connectTls({ host, port, maxVersion: "TLSv1.2", rejectUnauthorized: false });
      const failure = await new Promise<Error>((resolve) => socket.once("error", resolve));
      assert.match(failure.message, /alert|version/i);
    }));

  it("are let go when the greeting is never finished", async () => {
    const network = openGrpcNetwork({ timers: backgroundTimers, identity: server, guestLimits: { headersMs: 50 } });
    const listening = await network.serve("127.0.0.1:0", mirrors.slice(0, 1));
    const { host, port } = parseAddress(listening.address);
    const socket = connectPlain(port, host);
    socket.on("error", () => {});
    socket.write(Buffer.from([0x16, 3, 1]));
    await new Promise<void>((resolve) => socket.once("close", () => resolve()));
    await network.close();
    await listening.close();
  });
});

describe("a certificate", () => {
  it("says nothing but the key, and the same every time", () => {
    const pem = certificateOf(client);
    assert.equal(pem, certificateOf(client));
    assert.deepEqual(holderOf(Buffer.from(pem)), { id: client.id, keys: [client.id] });
  });

  it("with any bit turned round is somebody's or nobody's, and reading it never breaks", () => {
    const { raw } = new X509Certificate(certificateOf(client));
    let read = 0;
    for (let bit = 0; bit < raw.length * 8; bit++) {
      const spoiled = Buffer.from(raw);
      spoiled[bit >> 3] = (spoiled[bit >> 3] as number) ^ (1 << (bit & 7));
      let certificate: X509Certificate;
      try {
        certificate = new X509Certificate(spoiled);
      } catch {
        continue;
      }
      read++;
      holderOf(certificate);
    }
    assert.ok(read > 500, `${read} of them are certificates`);
  });
});

describe("addresses with keys", () => {
  it("are places where one key must answer", () => {
    assert.deepEqual(parseAddress(`10.0.0.1:7700#${client.id}`), {
      host: "10.0.0.1",
      port: 7700,
      secure: false,
      socket: false,
      key: client.id,
    });
    for (const wrong of ["10.0.0.1:7700#", "10.0.0.1:7700#abc", `https://a:1#${client.id}`])
      assert.throws(() => parseAddress(wrong), /is not an address/);
    const { port, secure, socket } = parseAddress(`wss://lab.example#${client.id}`);
    assert.deepEqual({ port, secure, socket }, { port: 443, secure: true, socket: true });
  });
});

describe("a key that has succeeded another", () => {
  const next = succeeded(server);
  const nextId = keyIdOf(next.publicKey);

  async function meeting(as: typeof server, pinned: string, keys = new KeyBook()): Promise<string> {
    const [serving, calling] = [
      openGrpcNetwork({ timers: backgroundTimers, identity: as }),
      openGrpcNetwork({ timers: backgroundTimers, identity: client, keys }),
    ];
    const listening = await serving.serve("127.0.0.1:0", mirrors);
    try {
      const address = withKey(listening.address, pinned as KeyId);
      return (await calling.call(address, SystemService.method.getVersion, {})).id;
    } finally {
      await calling.close();
      await serving.close();
      await listening.close();
    }
  }
  const isRefused = (error: unknown) => hasCode(error, "unauthenticated");

  it("is believed by whoever knows the older one, and by whoever knows itself", async () => {
    assert.equal(await meeting(next, server.id), client.id);
    assert.equal(await meeting(next, nextId), client.id);
    const third = succeeded(next);
    for (const known of [server.id, nextId, keyIdOf(third.publicKey)])
      assert.equal(await meeting(third, known), client.id);
  });

  it("ends the older one for whoever has seen it, and nobody follows back", async () => {
    const heard: string[] = [];
    const keys = new KeyBook((former, newest) => heard.push(`${former} ${newest}`));
    assert.equal(await meeting(server, server.id, keys), client.id);
    assert.equal(await meeting(next, server.id, keys), client.id);
    assert.deepEqual(heard, [`${server.id} ${nextId}`]);
    await assert.rejects(meeting(server, server.id, keys), isRefused);
    await assert.rejects(meeting(succeeded(server), server.id, keys), isRefused, "another heir of the older one");
    assert.equal(await meeting(succeeded(next), server.id, keys), client.id);
    await assert.rejects(meeting(server, nextId), isRefused, "whoever knows the newer one only");
  });

  it("is nobody if the older one has not signed for it, or signed for another", async () => {
    const former = next.former as NonNullable<typeof next.former>;
    const forged = former.map((word) => ({ ...word, signature: word.signature.map((byte) => byte ^ 1) }));
    await assert.rejects(meeting({ ...next, former: forged }, server.id), isRefused);
    await assert.rejects(meeting({ ...stranger, id: server.id, former }, server.id), isRefused);
    const ofItself = succeeded(stranger).former as typeof former;
    await assert.rejects(meeting({ ...next, former: [...former, ...ofItself] }, server.id), isRefused);
  });

  it("keeps the id of its holder, who shows the way from the first key to the present one", () => {
    const third = succeeded(next);
    const found = holderOf(Buffer.from(certificateOf(third)));
    assert.deepEqual(found, { id: server.id, keys: [server.id, nextId, keyIdOf(third.publicKey)] });
    let many = server;
    for (let count = 0; count < successionsMax; count++) many = succeeded(many);
    assert.equal(holderOf(Buffer.from(certificateOf(many)))?.keys.length, successionsMax + 1);
    assert.throws(() => succeeded(many), /become somebody new/);
  });
});
