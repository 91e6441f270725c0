import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, PassThrough } from "node:stream";
import { after, describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import { silentLog } from "../../core/world.ts";
import { newIdentity, type RealIdentity, verifySignature } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { openHttpTransfer } from "../../system/wires/blob-transfer.ts";
import { ExchangeService } from "../gen/dcnr/v1/exchange_pb.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import { KeyBook } from "../identity/key-book.ts";
import { type Network, type ServedService, type Server, service } from "../network.ts";
import { withKey } from "../routes/address.ts";
import type { Line } from "../routes/line.ts";
import { Reach } from "../routes/reach.ts";
import { guestLimitsDefault } from "../server/limits.ts";
import { askGate, type GatePlace, openNetworkBehind } from "./behind.ts";
import { Gate } from "./gate.ts";
import { GateControl } from "./gate-control.ts";
import { GateDialing } from "./gate-dialing.ts";
import { splice } from "./splice.ts";

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

const scratch = mkdtempSync(join(tmpdir(), "dcnr-gates-"));
const ends: (() => unknown)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
  rmSync(scratch, { recursive: true, force: true });
});

interface Machine {
  readonly identity: RealIdentity;
  readonly network: Network;
  readonly server: Server;
  readonly place: GatePlace;
  readonly control: GateControl;
  readonly gone: Promise<void>;
}

/** A machine as it is lent: a gate, and a network behind it that serves. Both in this process; what passes is real. */
async function machine(name: string, web = false): Promise<Machine> {
  const identity = newIdentity();
  const place = { path: join(scratch, name), token: name };
  const reach = new Reach(["127.0.0.1:1"]);
  const dialing = new GateDialing({ timers: backgroundTimers, identity, keys: new KeyBook(), reach, web });
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  const gate = new Gate({
    ...{ timers: backgroundTimers, log: silentLog, ...place, identity, dialing, listen: "127.0.0.1:0" },
    ...{ limits: guestLimitsDefault, requests: {}, onGone: resolve },
  });
  await gate.open();
  const control = await GateControl.open({ ...place, log: silentLog, say: () => {}, onGone: () => {} });
  const network = openNetworkBehind({ ...place, timers: backgroundTimers, log: silentLog, control, web });
  const server = await network.serve("ignored:1", mirrors);
  ends.push(async () => {
    await network.close();
    await server.close();
    control.close();
    gate.close();
  });
  return { identity, network, server, place, control, gone };
}

const version = (network: Network, address: string) => network.call(address, SystemService.method.getVersion, {});

describe("a network behind a gate", async () => {
  const [one, two, webby] = await Promise.all([machine("one"), machine("two"), machine("webby", true)]);
  const at = ({ server, identity }: Machine) => withKey(server.address, identity.id);

  it("has the gate's identity, and calls and is called by it", async () => {
    assert.equal(one.network.id, one.identity.id);
    for (let turn = 0; turn < 3; turn++) {
      const { id, software } = await version(one.network, at(two));
      assert.deepEqual([id, software], [one.identity.id, "127.0.0.1"]);
    }
    const channel = two.network.open(at(one), ExchangeService.method.exchange);
    await channel.send({ event: { case: "ping", value: { id: 1n } } });
    for await (const { event } of channel.incoming) {
      assert.equal(event.case === "receipt" && event.value.detail, two.identity.id);
      break;
    }
    channel.close();
  });

  it("meets processes that have no gate, both ways, also over WebSockets", async () => {
    const identity = newIdentity();
    const plain = openGrpcNetwork({ timers: backgroundTimers, identity });
    const server = await plain.serve("127.0.0.1:0", mirrors);
    ends.push(
      () => plain.close(),
      () => server.close(),
    );
    assert.equal((await version(plain, at(one))).id, identity.id);
    assert.equal((await version(one.network, withKey(server.address, identity.id))).id, one.identity.id);
    assert.equal((await version(webby.network, withKey(server.address, identity.id))).id, webby.identity.id);
    const web = openGrpcNetwork({ timers: backgroundTimers, identity, web: true });
    ends.push(() => web.close());
    assert.equal((await version(web, at(one))).id, identity.id);
    assert.equal((await version(webby.network, at(two))).id, webby.identity.id);
  });

  it("knows whoever shows no key as nobody", async () => {
    const nobody = openNetworkBehind({ ...two.place, timers: backgroundTimers, log: silentLog, web: false });
    ends.push(() => nobody.close());
    assert.equal((await version(nobody, at(one))).id, "nobody");
  });

  it("calls nobody else than it meant, and nobody without a key", async () => {
    const wrong = version(one.network, withKey(two.server.address, one.identity.id));
    await assert.rejects(wrong, (error) => hasCode(error, "unauthenticated"));
    await assert.rejects(version(one.network, two.server.address), (error) => hasCode(error, "permission_denied"));
  });

  it("is told why nobody answers", async () => {
    const closed = withKey("127.0.0.1:1", two.identity.id);
    await assert.rejects(version(one.network, closed), /127\.0\.0\.1:1/);
    await assert.rejects(version(one.network, withKey("10.1.2.3:7700", two.identity.id)), (error) =>
      hasCode(error, "permission_denied"),
    );
  });

  it("answers on lines that somebody carries to it, by the key that was proved on them", async () => {
    const identity = newIdentity();
    const [near, far] = linePair();
    one.server.accept(far, "relayed@192.0.2.1:7700");
    const { Tls } = await import("../identity/tls.ts");
    const { LineSocket } = await import("../routes/line-socket.ts");
    const tls = new Tls(identity);
    const caller = openGrpcNetwork({
      timers: backgroundTimers,
      dial: () => tls.over(new LineSocket(near, "192.0.2.1:7700"), "a relay", one.identity.id),
    });
    ends.push(() => caller.close());
    const { id, software } = await version(caller, "127.0.0.1:9");
    assert.deepEqual([id, software], [identity.id, "relayed@192.0.2.1:7700"]);
  });

  it("signs what PNodes sign with the gate's key, in order, and nothing else", async () => {
    const contents = ["a", "b", "c"].map((word) => Buffer.from(`dcnr delivery 1\n${word}`));
    const signatures = await Promise.all(contents.map((content) => one.control.sign(content)));
    for (const [index, content] of contents.entries())
      assert.ok(verifySignature(one.identity.publicKey, content, signatures[index] as Uint8Array));
    await assert.rejects(one.control.sign(Buffer.from("dcnr key succession 1\n")), (error) =>
      hasCode(error, "permission_denied"),
    );
  });

  it("moves blobs by the gate, with no more than the gate lets", async () => {
    const stored = new Map<string, Buffer>();
    const store = createHttpServer(async (request, response) => {
      const path = request.url ?? "";
      if (request.method === "GET") return void response.writeHead(stored.has(path) ? 200 : 404).end(stored.get(path));
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      stored.set(path, Buffer.concat(parts));
      response.end();
    });
    await new Promise<void>((resolve) => store.listen(0, "127.0.0.1", () => resolve()));
    ends.push(() => store.close());
    const url = `http://127.0.0.1:${(store.address() as AddressInfo).port}/blob`;
    const transfer = openHttpTransfer({ gate: one.place });
    const content = Buffer.alloc(3_000_000, 7);
    await transfer.upload({ url, headers: {} }, content);
    const into = new Uint8Array(content.byteLength);
    await transfer.download({ url, headers: {} }, into);
    assert.ok(content.equals(into));
    const elsewhere = { url: "http://192.168.7.7/blob", headers: {} };
    await assert.rejects(transfer.download(elsewhere, into), (error) => hasCode(error, "permission_denied"));
  });

  it("refuses what it does not know, a second PNode, a ticket that was never given, and records that are too long", async () => {
    await assert.rejects(one.control.request("become root"), (error) => hasCode(error, "unimplemented"));
    await assert.rejects(one.control.request("serve"), (error) => hasCode(error, "already_exists"));
    await assert.rejects(one.control.request("page"), (error) => hasCode(error, "permission_denied"));
    const answered = (socket: Socket) =>
      new Promise<string>((resolve) => {
        let text = "";
        socket.on("error", () => {});
        socket.on("data", (piece) => {
          text += piece.toString("latin1");
        });
        socket.on("close", () => resolve(text));
      });
    assert.match(await answered(askGate(one.place, { ask: "control" })), /already_exists/);
    assert.match(await answered(askGate(one.place, { ask: "take", ticket: 99 })), /not_found/);
    assert.match(await answered(askGate({ ...one.place, token: "x" }, { ask: "control" })), /unauthenticated/);
    const long = connect(one.place.path);
    long.write(Buffer.from([0x7f, 0, 0, 0]));
    assert.match(await answered(long), /too long/);
  });

  it("ends with the connection by which both talk", async () => {
    const three = await machine("three");
    three.control.close();
    await three.gone;
  });
});

describe("two connections that became one", () => {
  const pair = async () => {
    const listener = createServer();
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", () => resolve()));
    const accepted = new Promise<Socket>((resolve) => listener.once("connection", resolve));
    const near = connect((listener.address() as AddressInfo).port, "127.0.0.1");
    const far = await accepted;
    listener.close();
    for (const socket of [near, far]) socket.on("error", () => {});
    return { near, far };
  };
  const closed = (socket: Duplex) => new Promise<void>((resolve) => socket.once("close", () => resolve()));

  it("carry everything, and an end goes through to the other side", async () => {
    const [left, right] = [await pair(), await pair()];
    splice(left.far, right.near, backgroundTimers);
    const content = Buffer.alloc(2_000_000, 5);
    let got = 0;
    right.far.on("data", (piece) => {
      got += piece.length;
    });
    left.near.resume().end(content);
    await Promise.all([closed(right.far), closed(left.near)]);
    assert.equal(got, content.length);
  });

  it("break together", async () => {
    const [left, right] = [await pair(), await pair()];
    splice(left.far, right.near, backgroundTimers);
    right.far.write("hello");
    left.near.resume();
    const both = [closed(left.near), closed(right.near)];
    right.far.resetAndDestroy();
    await Promise.all(both);
  });

  it("end where one of them was over before they met", async () => {
    const [left, right] = [await pair(), await pair()];
    left.far.destroy();
    await closed(left.far);
    const ended = closed(right.far.resume());
    splice(left.far, right.near, backgroundTimers);
    await ended;
  });
});

/** Two ends of a line in memory. */
function linePair(): [Line, Line] {
  const [there, back] = [new PassThrough(), new PassThrough()];
  const end = (incoming: PassThrough, outgoing: PassThrough): Line => ({
    send: async (bytes) => void outgoing.write(bytes),
    incoming,
    close: () => {
      outgoing.end();
    },
  });
  return [end(back, there), end(there, back)];
}
