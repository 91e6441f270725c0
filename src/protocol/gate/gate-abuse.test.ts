// A PNode's process that means harm, or somebody who came to its socket: what the gate bears of them. Its memory, its descriptors and its life are
// the owner's.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type LookupFunction, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode } from "../../core/errors.ts";
import { silentLog, type Timers } from "../../core/world.ts";
import { newIdentity } from "../../system/keys.ts";
import { backgroundTimers } from "../../system/timers.ts";
import { ManualTimers } from "../connections/timers.testing.ts";
import { KeyBook } from "../identity/key-book.ts";
import { Reach } from "../routes/reach.ts";
import { guestLimitsDefault } from "../server/limits.ts";
import { encodeRecord, RecordReader } from "../socket/records.ts";
import { askGate } from "./behind.ts";
import { Gate } from "./gate.ts";
import { GateDialing } from "./gate-dialing.ts";
import { controlBytesMax, jsonOf, jsonRecord, type Told } from "./gate-wire.ts";

const scratch = mkdtempSync(join(tmpdir(), "dcnr-abuse-"));
const ends: (() => void)[] = [];
after(() => {
  for (const end of ends.reverse()) end();
  rmSync(scratch, { recursive: true, force: true });
});

let gates = 0;

async function openGate(timers: Timers = backgroundTimers) {
  const identity = newIdentity();
  let signed = 0;
  const sign = (content: Uint8Array) => {
    signed++;
    return identity.sign(content);
  };
  const place = { path: join(scratch, `${gates++}`), token: "told to one process" };
  const reach = new Reach(["203.0.113.5:7700"]);
  const dialing = new GateDialing({ timers, identity, keys: new KeyBook(), reach, web: false });
  const gone = Promise.withResolvers<void>();
  const gate = new Gate({
    ...{ timers, log: silentLog, ...place, identity: { ...identity, sign }, dialing, listen: "127.0.0.1:0" },
    ...{ limits: guestLimitsDefault, onGone: gone.resolve },
    requests: { wait: () => new Promise(() => {}), nothing: async () => null },
  });
  await gate.open();
  const open = (ask: Parameters<typeof askGate>[1]): Socket => {
    const socket = askGate(place, ask);
    socket.on("error", () => {});
    ends.push(() => socket.destroy());
    return socket;
  };
  ends.push(() => gate.close());
  return { place, gate, open, gone: gone.promise, signed: () => signed };
}

const request = (id: number, name: string, given: unknown = null) => jsonRecord({ kind: "request", id, name, given });

/** As many answers on the control connection, by their codes. */
async function answers(socket: Socket, count: number): Promise<(string | undefined)[]> {
  const reader = new RecordReader(socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>);
  const codes: (string | undefined)[] = [];
  while (codes.length < count) {
    const told = jsonOf<Told>((await reader.next(controlBytesMax)) ?? assert.fail("the gate has ended"));
    if (told.kind === "answer") codes.push(told.refused?.code);
  }
  return codes;
}

describe("a gate", () => {
  it("lives on whatever comes to its socket, also from somebody who does not know the word", async () => {
    const { place, open } = await openGate();
    const words = [
      [],
      [0],
      [0, 0],
      [0, 0, 0],
      [0, 0, 0, 0],
      [0, 0, 0, 9, 0x7b],
      [0, 0, 0, 2, 0x5b, 0x5d],
      [255, 1, 2, 3],
    ];
    for (const bytes of words) {
      const socket = connect(place.path);
      socket.on("error", () => {});
      const closed = once(socket, "close");
      socket.resume().end(Buffer.from(bytes));
      await closed;
    }
    const control = open({ ask: "control" });
    control.write(request(1, "hello"));
    assert.deepEqual(await answers(control, 1), [undefined]);
  });

  it("signs no faster than signatures are taken, and on few connections", async () => {
    const { open, signed } = await openGate();
    const asked = 6_000;
    const record = encodeRecord(Buffer.from("dcnr delivery 1\na"));
    const signing = open({ ask: "sign" });
    signing.write(Buffer.concat(Array.from({ length: asked }, () => record)));
    for (let before = -1; signed() > before || before === 0; await sleep(200)) before = signed();
    assert.ok(signed() < asked, "all were signed, and nobody took one");
    let got = 0;
    const signature = 4 + 64;
    for await (const piece of signing) {
      got += (piece as Buffer).byteLength;
      if (got === asked * signature) break;
    }
    const more = Array.from({ length: 7 }, () => open({ ask: "sign" }));
    const first = more.map((socket) => {
      socket.write(record);
      return once(socket, "data").then(([answer]) => String(answer).includes("resource_exhausted"));
    });
    assert.equal((await Promise.all(first)).filter(Boolean).length, 3);
  });

  it("does so much at once and no more", async () => {
    const { open } = await openGate();
    const control = open({ ask: "control" });
    for (let id = 1; id <= 300; id++) control.write(request(id, "wait"));
    const refused = await answers(control, 44);
    assert.deepEqual(new Set(refused), new Set(["resource_exhausted"]));
  });

  it("keeps so much of what it was asked for and no more", async () => {
    const { open } = await openGate();
    const control = open({ ask: "control" });
    for (let id = 1; id <= 6; id++) control.write(request(id, "wait", "x".repeat(3 << 20)));
    assert.deepEqual(await answers(control, 1), ["resource_exhausted"]);
  });

  it("leaves a PNode that does not listen, before what it should hear fills the memory", async () => {
    const { gate, open, gone } = await openGate();
    const deaf = open({ ask: "control" });
    deaf.write(request(1, "hello"));
    await once(deaf, "readable");
    for (let told = 0; told < 32; told++) gate.tell({ kind: "say", sentence: "x".repeat(1 << 20) });
    await gone;
  });

  it("opens nothing for a place whose name is none, since nobody would hear how that ends", async () => {
    let lookups = 0;
    class Counting extends Reach {
      override readonly lookup: LookupFunction = (_host, _options, found) => {
        lookups++;
        found(new Error("no names here"), "", 0);
      };
    }
    const reach = new Counting(["203.0.113.5:7700"]);
    const [identity, keys] = [newIdentity(), new KeyBook()];
    const dialing = new GateDialing({ timers: backgroundTimers, identity, keys, reach, web: false });
    ends.push(() => dialing.close());
    await assert.rejects(dialing.web({ host: "a@b", port: 443, tls: true }), /is not a route/);
    assert.equal(lookups, 0);
    await assert.rejects(dialing.web({ host: "a.b", port: 443, tls: true }));
    assert.equal(lookups, 1);
  });

  it("says nothing at a port where no server of the web is, also not to ask for a line", async () => {
    let lookups = 0;
    class Counting extends Reach {
      override readonly lookup: LookupFunction = (_host, _options, found) => {
        lookups++;
        found(new Error("no names here"), "", 0);
      };
    }
    const dialing = new GateDialing({
      ...{ timers: backgroundTimers, identity: newIdentity(), keys: new KeyBook(), web: true },
      reach: new Counting(["203.0.113.5:7700"]),
    });
    ends.push(() => dialing.close());
    const { signal } = new AbortController();
    const key = "a".repeat(52);
    for (const address of [`ws://mail.example:25#${key}`, `wss://mail.example:465#${key}`, `mail.example:22#${key}`])
      await assert.rejects(dialing.line(address, signal), (error) => hasCode(error, "permission_denied"), address);
    assert.equal(lookups, 0);
    await assert.rejects(dialing.line(`ws://o.example:8443#${key}`, signal), /no names here/);
    await assert.rejects(dialing.line(`wss://o.example#${key}`, signal), /no names here/);
    assert.equal(lookups, 2);
  });

  it("lets nobody stay whom it has refused", async () => {
    const timers = new ManualTimers();
    const { place } = await openGate(timers);
    const socket = connect({ path: place.path, allowHalfOpen: true });
    ends.push(() => socket.destroy());
    socket.on("error", () => {});
    socket.write(jsonRecord({ ask: "sign", token: "wrong" }));
    assert.match(String((await once(socket, "data"))[0]), /unauthenticated/);
    // It goes on talking, and never ends its own half.
    for (let passed = 0; !socket.destroyed; passed++, await sleep(5)) {
      assert.ok(passed < 400, "it is still there");
      socket.write("more");
      timers.advance(1_000);
    }
  });
});
