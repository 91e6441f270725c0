// What travels between machines below and beside the messages of the contract: frames of WebSockets and of calls on them, records of
// sealed lines, tensors in eight bits, shards of records.

import { Duplex } from "node:stream";
import { fail, hasCode } from "../../src/core/errors.ts";
import { int8Bytes, toInt8 } from "../../src/core/numbers/int8.ts";
import { areFiniteOnWire } from "../../src/core/numbers/wire-types.ts";
import { parseRow, RecordWriter, recordOfRow, recordsOf } from "../../src/pipeline/records.ts";
import { withoutKey } from "../../src/protocol/routes/address.ts";
import { Punching, type PunchingOptions } from "../../src/protocol/routes/punching.ts";
import { encodeRecord, RecordReader } from "../../src/protocol/socket/records.ts";
import { webSocketOn } from "../../src/protocol/socket/rfc6455.ts";
import {
  decodeFrame,
  decodeHead,
  decodeNumber,
  decodeStatus,
  encodeFrame,
  encodeHead,
  encodeNumber,
  encodeStatus,
} from "../../src/protocol/socket/socket-frames.ts";
import { open } from "../../src/vnode/wire.ts";
import type { Parser } from "./parsers.ts";

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");

const head = encodeHead({
  path: "/dcnr.v1.SystemService/GetVersion",
  headers: { authorization: "Bearer x", te: "trailers" },
});
const status = encodeStatus({ code: 5, message: "there is no such thing", outlook: "final" });
const frames = [
  encodeFrame("hello", 0, encodeNumber(1)),
  encodeFrame("open", 1, head),
  encodeFrame("credit", 1, encodeNumber(65_536)),
  encodeFrame("data", 1, new Uint8Array(40)),
  encodeFrame("status", 1, status),
];

/** As the carrier of calls reads a frame. */
function readFrame(spoiled: Uint8Array): unknown {
  const { kind, payload } = decodeFrame(spoiled);
  switch (kind) {
    case "open":
      return decodeHead(payload, { bytesMax: 16 << 10, countMax: 64 });
    case "hello":
    case "credit":
      return decodeNumber(payload);
    case "status":
      return decodeStatus(payload);
    default:
      return payload;
  }
}

/** Everything that comes on a line, until it ends. */
async function drained(incoming: AsyncIterable<Uint8Array>): Promise<number> {
  let count = 0;
  for await (const _ of incoming) count++;
  return count;
}

/** What clients send: two messages, one of them in two parts, a ping between them, masked. */
function clientsBytes(): Uint8Array {
  const masked = (first: number, payload: string) => {
    const mask = [1, 2, 3, 4];
    const bytes = [...Buffer.from(payload)].map((byte, at) => byte ^ (mask[at & 3] as number));
    return Buffer.from([first, 0x80 | bytes.length, ...mask, ...bytes]);
  };
  return Buffer.concat([masked(0x02, "half"), masked(0x89, "ping"), masked(0x80, "whole"), masked(0x82, "one")]);
}

const shape = [3, 4];
const eight = toInt8(
  Float32Array.from({ length: 12 }, (_, i) => i - 5.5),
  shape,
);

const shard = (() => {
  const writer = new RecordWriter();
  for (const row of [{ text: "one" }, { text: "two", n: [1, null] }]) writer.add(recordOfRow(row));
  return writer.take().content;
})();

const reachable = "8.8.8.8:7400";

/** Where a peer says that its router shows it, and the relay that carries the call. Nothing is dialled here: the last check says no. */
function punchParser(): Parser {
  const check = (host: string) => {
    if (host !== "8.8.8.8") fail("permission_denied", "not reached from here");
    fail("unavailable", "got past the checks");
  };
  const punching = new Punching({ reach: { check } } as unknown as PunchingOptions);
  const punch = punching.service(() => {}).handlers["punch"] as (request: object, context: object) => Promise<object>;
  return {
    name: "place to punch at",
    samples: [Buffer.from(`${reachable} relay.test:7400`)],
    parse: async (spoiled) => {
      const [place = "", relay = ""] = text(spoiled).split(" ");
      const caller = { id: "peer", address: `peer@${withoutKey(relay)}`, roles: [] };
      await punch({ place, relay }, { caller }).catch((refusal: unknown) => {
        if (!hasCode(refusal, "unavailable")) throw refusal;
      });
    },
  };
}

export function openWireParsers(): Parser[] {
  return [
    punchParser(),
    { name: "frame of calls", samples: frames, parse: readFrame },
    {
      name: "WebSocket",
      samples: [clientsBytes()],
      parse: async (spoiled) => {
        const socket = new Duplex({ read: () => {}, write: (_piece, _encoding, done) => done() });
        socket.push(spoiled);
        socket.push(null);
        const count = await drained(webSocketOn(socket, Buffer.alloc(0), "server").incoming);
        if (count === 0) fail("invalid_argument", "no message came");
      },
    },
    {
      name: "records of a line",
      samples: [Buffer.concat([encodeRecord(Buffer.from("one")), encodeRecord(Buffer.from("two, longer"))])],
      parse: async (spoiled) => {
        async function* pieces(): AsyncGenerator<Uint8Array> {
          for (let at = 0; at < spoiled.length; at += 5) yield spoiled.subarray(at, at + 5);
        }
        const reader = new RecordReader(pieces());
        while ((await reader.next(1 << 16)) !== undefined);
      },
    },
    {
      name: "tensor in int8",
      samples: [eight],
      parse: (spoiled) => {
        // As peer/receiving.ts: the length by what the edge carries, then the values.
        if (spoiled.byteLength !== int8Bytes(shape) || !areFiniteOnWire("int8", shape, spoiled))
          fail("invalid_argument", "not what the edge carries");
        const { data } = open({ dtype: "int8", shape, bytes: spoiled });
        if (!(data as Float32Array).every(Number.isFinite)) throw new Error("what was let in is not finite");
      },
    },
    {
      name: "shard of records",
      samples: [shard],
      parse: (spoiled) => {
        for (const record of recordsOf(spoiled)) parseRow(text(record), "a record");
      },
    },
  ];
}
