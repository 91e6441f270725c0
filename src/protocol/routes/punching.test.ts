import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import type { Timers } from "../../core/world.ts";
import { newIdentity } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { limitsDefault } from "../connections/connection-limits.ts";
import { RelayService } from "../gen/dcnr/v1/relay_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import { Tls } from "../identity/tls.ts";
import { service } from "../network.ts";
import { withKey } from "./address.ts";
import { Punching, type PunchingOptions } from "./punching.ts";
import { Reach } from "./reach.ts";

const key = "a".repeat(52);
const relay = `8.8.8.8:7700#${key}`;

describe("a place that a peer tells for a way through routers", () => {
  const reach = new Reach(["8.8.8.8:7700"], [], () => assert.fail("no name may be looked up"));
  const punching = new Punching({ reach } as unknown as PunchingOptions);
  const answering = (place: string) => punching.answer(place, relay, "1.1.1.1", () => assert.fail("nobody came"));

  it("is a number: a name would be judged now and could lead into the owner's network a moment later", async () => {
    for (const place of ["localhost:22", "printer.home:631", "127.1:22", "0x7f000001:22"])
      await assert.rejects(answering(place), (error) => hasCode(error, "invalid_argument"), place);
  });

  it("is none of the owner's network", async () => {
    for (const place of ["127.0.0.1:22", "192.168.1.1:80", "[::1]:22", "[::ffff:10.0.0.1]:22", "169.254.169.254:80"])
      await assert.rejects(answering(place), (error) => hasCode(error, "permission_denied"), place);
  });
});

describe("ways through routers that others ask for", () => {
  const identity = newIdentity();
  const punchingWith = (timers: Timers) =>
    new Punching({
      ...{ timers, tls: new Tls(identity), connection: { timers, limits: limitsDefault } },
      reach: undefined,
    } as unknown as PunchingOptions);
  const nobody = () => assert.fail("nobody came");

  it("are made two at a time for a peer and sixteen in all", async () => {
    // A relay that takes every connection and says nothing on it.
    const connected = new Set<Socket>();
    const server = createServer((socket) => void connected.add(socket.on("error", () => {}))).listen(0, "127.0.0.1");
    await once(server, "listening");
    const silent = withKey(`127.0.0.1:${(server.address() as AddressInfo).port}`, identity.id);
    const punching = punchingWith({ after: () => () => {} });
    const underWay: Promise<unknown>[] = [];
    const ask = (peer: string) => {
      const asked = punching.answer("192.0.2.1:9", silent, peer, nobody);
      asked.catch(() => {});
      return asked;
    };
    const refused = (peer: string) => assert.rejects(ask(peer), { code: "resource_exhausted" }, peer);
    const peers = Array.from({ length: 8 }, (_, index) => `peer ${index}`);
    for (const peer of peers) {
      underWay.push(ask(peer), ask(peer));
      await refused(peer);
    }
    await refused("another peer");
    while (connected.size < underWay.length) await once(server, "connection");
    for (const socket of connected) socket.destroy();
    for (const one of underWay) await assert.rejects(one, (error) => !hasCode(error, "resource_exhausted"));
    connected.clear();
    const later = ask("another peer");
    await once(server, "connection");
    for (const socket of connected) socket.destroy();
    await assert.rejects(later, (error) => !hasCode(error, "resource_exhausted"));
    server.close();
  });

  it("knock at a place that a peer has made up some thirty times, and no more", async () => {
    const relayKey = newIdentity();
    const carries = openGrpcNetwork({ timers: backgroundTimers, identity: relayKey });
    const unused = async () => {};
    const relays = service(RelayService, {
      locate: async () => ({ place: "198.51.100.7:4444" }),
      ...{ reserve: unused, dial: unused, answer: unused },
    });
    const server = await carries.serve("127.0.0.1:0", [relays]);
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const place = `127.0.0.1:${(closed.address() as AddressInfo).port}`;
    closed.close();
    await once(closed, "close");

    // Time passes with the pauses between two knocks alone.
    const pauseMs = 100;
    let nowMs = 0;
    let knocks = 0;
    const waiting = new Set<{ readonly atMs: number; readonly callback: () => void }>();
    const timers: Timers = {
      after: (delayMs, callback) => {
        const timer = { atMs: nowMs + delayMs, callback };
        waiting.add(timer);
        if (delayMs === pauseMs) {
          knocks++;
          setImmediate(() => {
            nowMs = timer.atMs;
            for (const one of [...waiting]) if (one.atMs <= nowMs && waiting.delete(one)) one.callback();
          });
        }
        return () => void waiting.delete(timer);
      },
    };
    const punching = punchingWith(timers);
    const relay = withKey(server.address, relayKey.id);
    try {
      assert.equal(await punching.answer(place, relay, "a liar", nobody), "198.51.100.7:4444");
      // It waits for nothing any more once it has given up.
      while (waiting.size > 0) await new Promise(setImmediate);
      assert.ok(knocks >= 25 && knocks <= 35, `${knocks} knocks`);
    } finally {
      await carries.close();
      await server.close();
    }
  });
});
