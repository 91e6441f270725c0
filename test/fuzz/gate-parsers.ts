// What a PNode's process that was taken over says to its gate, with good samples: everything behind the socket, from the first record to whatever is
// asked for. Nothing is dialled here: numbers are refused, and names lead nowhere.

import { isIP, type LookupFunction } from "node:net";
import { Duplex } from "node:stream";
import { DcnrError, fail } from "../../src/core/errors.ts";
import { silentLog } from "../../src/core/world.ts";
import { Gate } from "../../src/protocol/gate/gate.ts";
import { GateDialing } from "../../src/protocol/gate/gate-dialing.ts";
import { type Ask, jsonRecord } from "../../src/protocol/gate/gate-wire.ts";
import { KeyBook } from "../../src/protocol/identity/key-book.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { Reach } from "../../src/protocol/routes/reach.ts";
import { guestLimitsDefault } from "../../src/protocol/server/limits.ts";
import { encodeRecord } from "../../src/protocol/socket/records.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import type { Parser } from "./parsers.ts";

const token = "t";
const identity = newIdentity();
const bytes = (text: string): Uint8Array => Buffer.from(text);

/** Nowhere can be reached; the checks before that are those of a lent machine. */
class NoReach extends Reach {
  override check(host: string): void {
    super.check(host);
    if (isIP(host.replace(/^\[|\]$/g, "")) !== 0) fail("unavailable", "got past the checks");
  }

  override readonly lookup: LookupFunction = (_host, _options, found) =>
    found(new DcnrError("unavailable", "no names here"), "", 0);
}

const dialing = new GateDialing({
  ...{ timers: backgroundTimers, identity, keys: new KeyBook(), web: false },
  reach: new NoReach(["8.8.8.8:7700"]),
});

const asked = (ask: object, ...more: readonly Uint8Array[]) =>
  Buffer.concat([jsonRecord({ token, ...ask } as Ask), ...more]);
const wanted = (value: object) => encodeRecord(bytes(JSON.stringify(value)));
const request = (name: string, given: unknown = null) => wanted({ kind: "request", id: 1, name, given });
const far = withKey("8.8.8.8:7700", identity.id);
const punch = { place: "8.8.8.8:7400", relay: far, share: "8.8.8.8" };

const samples = [
  asked({ ask: "control" }, request("hello"), wanted({ kind: "proved", ticket: 1 }), request("echo", { bound: "h:1" })),
  asked({ ask: "sign" }, encodeRecord(bytes("dcnr delivery 1\ns\na\nl\nk\nh"))),
  asked({ ask: "control" }, request("punch", `${identity.id}@8.8.8.8:7700/${identity.id}#${identity.id}`)),
  asked({ ask: "control" }, request("answer punch", punch)),
  asked({ ask: "dial", address: far, nobody: true }),
  asked({ ask: "line", address: withKey("wss://relay.test", identity.id) }),
  asked({ ask: "web", host: "blobs.test", port: 443, tls: true }),
  asked({ ask: "web", host: "8.8.8.8", port: 9000, tls: false, key: identity.id }),
  asked({ ask: "take", ticket: 1 }),
  asked({ ask: "carried", from: "peer@8.8.8.8:7700" }, bytes("GET /dcnr/socket HTTP/1.1\r\nhost: a\r\n\r\n")),
];

/** All that the gate says to what came, when it has ended. */
function answerTo(spoiled: Uint8Array): Promise<Buffer> {
  const options = { timers: backgroundTimers, log: silentLog, path: "", token, identity, dialing };
  const echo = async (given: unknown) => given;
  const gate = new Gate({
    ...{ ...options, listen: "no address", limits: guestLimitsDefault, requests: { echo }, onGone: () => {} },
  });
  const said: Buffer[] = [];
  const write = (piece: Buffer, _encoding: string, done: () => void) => {
    said.push(piece);
    done();
  };
  const socket = Object.assign(new Duplex({ read: () => {}, write }), { setNoDelay: () => {} });
  // As a local socket does, which is not left half open.
  socket.once("end", () => setImmediate(() => socket.destroy()));
  return new Promise((resolve) => {
    socket.once("close", () => {
      gate.close();
      resolve(Buffer.concat(said));
    });
    gate.hear(socket);
    socket.push(spoiled);
    socket.push(null);
  });
}

export function openGateParsers(): Parser[] {
  return [
    {
      name: "what a gate is asked",
      costly: true,
      samples,
      parse: async (spoiled) => {
        const said = await answerTo(spoiled);
        if (said.byteLength < 5 || said.includes("refused") || said.readUInt32BE(0) === 0)
          fail("invalid_argument", "nothing was given");
      },
    },
  ];
}
