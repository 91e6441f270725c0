import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type DescMessage, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { hasCode } from "../../core/errors.ts";
import { ExchangeRequestSchema, ExchangeResponseSchema } from "../gen/dcnr/v1/exchange_pb.ts";
import { encodeFrame, FrameReader } from "./frames.ts";

const delivery = (bytes: number) =>
  create(ExchangeRequestSchema, {
    event: {
      case: "delivery",
      value: { id: 7n, to: "b", from: "a", epoch: 3n, shape: [2, 3], hash: "h", data: content(bytes) },
    },
  });

function content(bytes: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => (i * 31) % 251);
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(pieces));
}

/** What a reader makes of the bytes when they arrive in chunks of one size. */
function read(bytes: Uint8Array, chunk: number): Uint8Array[] {
  const messages: Uint8Array[] = [];
  const reader = new FrameReader((message) => messages.push(message));
  for (let at = 0; at < bytes.byteLength; at += chunk) reader.push(bytes.subarray(at, at + chunk));
  assert.ok(reader.isBetween);
  return messages;
}

test("a frame written in pieces means the same as one encoded whole", () => {
  const pass = { id: 5n, conductor: "p", rows: [{ request: "r", position: 1 }] };
  const cases: [DescMessage, Message][] = [
    [ExchangeRequestSchema, delivery(0)],
    [ExchangeRequestSchema, delivery(100)],
    [ExchangeRequestSchema, delivery(100_000)],
    [ExchangeRequestSchema, create(ExchangeRequestSchema, {})],
    [ExchangeResponseSchema, create(ExchangeResponseSchema, { event: { case: "receipt", value: { id: 4n } } })],
    // Fields after the large one.
    [
      ExchangeRequestSchema,
      create(ExchangeRequestSchema, {
        event: { case: "delivery", value: { id: 8n, data: content(9_001), pass: { session: "s", port: "x", pass } } },
      }),
    ],
  ];
  for (const [schema, message] of cases) {
    const frame = joined(encodeFrame(schema, message));
    const [body, ...others] = read(frame, frame.byteLength);
    assert.equal(others.length, 0);
    assert.deepEqual(fromBinary(schema, body as Uint8Array), fromBinary(schema, toBinary(schema, message)));
  }
});

test("large bytes are written from where they lie, and lie where numbers can be read once they have arrived", () => {
  const message = delivery(64 << 10);
  const pieces = encodeFrame(ExchangeRequestSchema, message);
  assert.ok(message.event.case === "delivery");
  assert.equal(pieces.at(-1), message.event.value.data);
  const [body] = read(joined(pieces), 16 << 10);
  const { event } = fromBinary(ExchangeRequestSchema, body as Uint8Array);
  assert.ok(event.case === "delivery");
  assert.equal(event.value.data.byteOffset % 8, 0);
  assert.deepEqual(event.value.data, message.event.value.data);
});

test("bytes that arrive are plain ones: a slice of them is a copy", () => {
  const [body] = read(Buffer.concat(encodeFrame(ExchangeRequestSchema, delivery(64))), 1_000);
  assert.equal(Object.getPrototypeOf(body), Uint8Array.prototype);
});

test("messages are found however the bytes are cut", () => {
  const sent = [delivery(0), delivery(5_000), create(ExchangeRequestSchema, {}), delivery(17)];
  const bytes = joined(sent.flatMap((message) => encodeFrame(ExchangeRequestSchema, message)));
  for (const chunk of [1, 3, 4, 5, 7, 1_000, bytes.byteLength])
    assert.deepEqual(
      read(bytes, chunk).map((body) => fromBinary(ExchangeRequestSchema, body)),
      sent,
    );
});

test("too large a message is refused before memory is taken for it, and so is a compressed one", () => {
  const reader = () => new FrameReader(() => assert.fail("nothing arrives"));
  assert.throws(
    () => reader().push(Uint8Array.of(0, 255, 255, 255, 255)),
    (error) => hasCode(error, "resource_exhausted"),
  );
  assert.throws(
    () => reader().push(Uint8Array.of(1, 0, 0, 0, 1, 9)),
    (error) => hasCode(error, "unimplemented"),
  );
  assert.throws(
    () => encodeFrame(ExchangeRequestSchema, delivery(5 << 20)),
    (error) => hasCode(error, "resource_exhausted"),
  );
});
