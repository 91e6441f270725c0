// What a sealed line keeps from whoever carries it, and that these checks can see: two ciphers that are wrong in one way each
// must fail them.

import assert from "node:assert/strict";
import { createDecipheriv } from "node:crypto";
import { describe, it } from "node:test";
import { newIdentity } from "../../system/keys.ts";
import type { Line } from "../routes/line.ts";
import { Cipher, type NewSealing, tagBytes } from "./seal-keys.ts";
import { sealAnswering, sealCalling } from "./sealed-line.ts";

/** What a relay makes of each piece that the caller sends once the line is sealed. */
type Relay = (piece: Uint8Array) => readonly Uint8Array[];

/** What the answering end takes of these messages; "refused" is what it says about the rest. */
async function taken(messages: readonly string[], newSealing: NewSealing, relay: Relay): Promise<string[]> {
  const [callee, caller] = [newIdentity(), newIdentity()];
  let isSealed = false;
  const [up, down] = [pieces(), pieces()];
  const send = async (piece: Uint8Array) => {
    for (const one of isSealed ? relay(piece) : [piece]) up.push(one);
  };
  const calling: Line = { send, incoming: down.all, close: up.end };
  const answering: Line = { send: async (piece) => down.push(piece), incoming: up.all, close: down.end };
  const [line, { line: other }] = await Promise.all([
    sealCalling(calling, caller, ({ id }) => id === callee.id, newSealing),
    sealAnswering(answering, callee, newSealing),
  ]);
  isSealed = true;
  for (const message of messages) await line.send(new TextEncoder().encode(message));
  line.close();
  const got: string[] = [];
  try {
    for await (const message of other.incoming) got.push(new TextDecoder().decode(message));
  } catch {
    got.push("refused");
  }
  return got;
}

function pieces() {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 64 });
  const writer = writable.getWriter();
  return {
    push: (piece: Uint8Array) => void writer.write(piece),
    all: readable as AsyncIterable<Uint8Array>,
    end: () => void writer.close().catch(() => {}),
  };
}

const messages = ["pay one", "pay one", "pay two"];

const checks = {
  "nothing that a relay changed is taken": async (newSealing: NewSealing) => {
    const flipped = (piece: Uint8Array) => {
      const copy = piece.slice();
      // The last letter of the message.
      const at = copy.byteLength - tagBytes - 1;
      copy[at] = (copy[at] as number) ^ 1;
      return [copy];
    };
    assert.deepEqual(await taken(messages, newSealing, flipped), ["refused"]);
  },
  "a relay sees of two equal messages nothing that is equal, and repeats none": async (newSealing: NewSealing) => {
    const seen: string[] = [];
    const repeating = (piece: Uint8Array) => {
      seen.push(Buffer.from(piece).toString("hex"));
      return [piece, piece.slice()];
    };
    assert.deepEqual(await taken(messages, newSealing, repeating), ["pay one", "refused"]);
    assert.equal(new Set(seen).size, messages.length);
  },
} satisfies Record<string, (newSealing: NewSealing) => Promise<void>>;

/** Each breaks one rule. */
const mutants: readonly {
  readonly fault: string;
  readonly shows: keyof typeof checks;
  readonly newSealing: NewSealing;
}[] = [
  {
    fault: "what comes is decrypted and nobody looks whether it is whole",
    shows: "nothing that a relay changed is taken",
    newSealing: async (secret) => {
      const sound = await Cipher.of(secret);
      let number = 0;
      return {
        seal: (content) => sound.seal(content),
        open: async (record) => {
          // What AES-GCM does but for its tag: its second block is the first of the content.
          const counter = new DataView(new ArrayBuffer(16));
          counter.setBigUint64(4, BigInt(number++));
          counter.setUint32(12, 2);
          const cipher = createDecipheriv("aes-256-ctr", secret, new Uint8Array(counter.buffer));
          return cipher.update(record.subarray(0, -tagBytes));
        },
      };
    },
  },
  {
    fault: "every record has the same nonce",
    shows: "a relay sees of two equal messages nothing that is equal, and repeats none",
    newSealing: async (secret) => ({
      seal: async (content) => (await Cipher.of(secret)).seal(content),
      open: async (record) => (await Cipher.of(secret)).open(record),
    }),
  },
];

describe("on a sealed line", () => {
  it("all arrives that nobody touches", async () => {
    for (const newSealing of [Cipher.of, ...mutants.map((mutant) => mutant.newSealing)])
      assert.deepEqual(await taken(messages, newSealing, (piece) => [piece]), messages);
  });

  for (const [rule, check] of Object.entries(checks)) it(rule, () => check(Cipher.of));

  for (const { fault, shows, newSealing } of mutants)
    it(`it shows where ${fault}`, () => assert.rejects(checks[shows](newSealing), assert.AssertionError));
});
