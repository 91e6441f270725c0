import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { hashOfContent } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { silentLog } from "../core/world.ts";
import { DataType } from "../protocol/gen/dcnr/v1/common_pb.ts";
import { ExchangeService, Verdict } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { MemoryNetwork } from "../protocol/memory-network.testing.ts";
import { type Channel, protocolMajor } from "../protocol/network.ts";
import { type Expected, peerService, refused } from "./receiving.ts";
import { Refusals } from "./refusals.ts";

/** A PNode that refuses every tensor, and what it says to a caller until the caller or itself has had enough. */
async function said(
  talk: (channel: Pick<Channel<never, never>, "send">) => Promise<void>,
  key: string | undefined = "p1",
): Promise<string[]> {
  const network = new MemoryNetwork(key);
  const nobody = { expects: () => refused("nobody wants it") };
  const served = peerService({
    exchange: nobody,
    passes: nobody,
    onAsk: () => assert.fail("nobody asks"),
    onLost: () => assert.fail("nothing is lost"),
    ownership: () => "owner",
    hashOf: hashOfContent,
    refusals: new Refusals({ clock: { wallMs: () => 0, monotonicMs: () => 0 }, log: silentLog }),
    log: silentLog,
  });
  await network.serve("p2", [served]);
  const channel = network.open("p2", ExchangeService.method.exchange);
  await talk(channel as never);
  const heard: string[] = [];
  for await (const { event } of channel.incoming) {
    heard.push(event.case ?? "");
    if (heard.length === 2) break;
  }
  channel.close();
  return heard;
}

const hello = (major: number) => ({ event: { case: "hello", value: { protocolMajor: major } } }) as never;
const ping = { event: { case: "ping", value: { id: 1n } } } as never;
const delivery = { event: { case: "delivery", value: { id: 2n } } } as never;

describe("a stream from a peer", () => {
  it("is answered once the peer has greeted", async () => {
    const heard = await said(async (channel) => {
      for (const event of [hello(protocolMajor), ping, delivery]) await channel.send(event);
    });
    assert.deepEqual(heard, ["pong", "receipt"]);
  });

  it("in another version of the protocol is not listened to", async () => {
    const heard = await said(async (channel) => {
      for (const event of [hello(protocolMajor + 1), ping, delivery]) await channel.send(event);
    });
    assert.deepEqual(heard, []);
  });

  it("without a greeting is not listened to", async () => {
    const heard = await said(async (channel) => {
      for (const event of [delivery, ping]) await channel.send(event);
    });
    assert.deepEqual(heard, []);
  });

  it("from somebody who shows no key is not listened to", async () => {
    const heard = await said(async (channel) => {
      for (const event of [hello(protocolMajor), ping, delivery]) await channel.send(event);
    }, "");
    assert.deepEqual(heard, []);
  });
});

describe("tensors that a peer announces and does not finish", () => {
  /** What is taken from memory and not given back, after what was said on each of so many streams. */
  async function held(streams: number, announcements: readonly object[]): Promise<{ held: number; after: number }> {
    let held = 0;
    const expected: Expected = {
      ...{ dtype: "float32", shape: [4], from: "a", session: "s" },
      refusal: () => undefined,
      allocate: (bytes) => {
        held += 1;
        return new Uint8Array(bytes);
      },
      discard: () => {
        held -= 1;
      },
      take: () => {
        held -= 1;
        return { verdict: Verdict.STORED, detail: "" };
      },
    };
    const network = new MemoryNetwork("p1");
    const protocol = { expects: () => expected };
    const served = peerService({
      ...{ exchange: protocol, passes: protocol, onAsk: () => {}, onLost: () => {} },
      ...{ ownership: () => "owner" as const, hashOf: () => "" as Sha256, log: silentLog },
      refusals: new Refusals({ clock: { wallMs: () => 0, monotonicMs: () => 0 }, log: silentLog }),
    });
    await network.serve("p2", [served]);
    const open = Array.from({ length: streams }, () => network.open("p2", ExchangeService.method.exchange));
    for (const channel of open) {
      for (const event of [hello(protocolMajor), ...announcements, ping]) await channel.send(event as never);
      for await (const { event } of channel.incoming) if (event.case === "pong") break;
    }
    const most = held;
    for (const channel of open) channel.close();
    await new Promise((resolve) => setImmediate(resolve));
    return { held: most, after: held };
  }

  const announced = (id: number, data = 0) => ({
    event: {
      case: "delivery",
      value: {
        ...{ id: BigInt(id), from: "a", to: "b", dtype: DataType.FLOAT32, shape: [4], bytes: 16n },
        data: new Uint8Array(data),
      },
    },
  });

  it("take memory once for each number, and give it back", async () => {
    const same = Array.from({ length: 50 }, () => announced(1));
    assert.deepEqual(await held(1, same), { held: 1, after: 0 });
    assert.deepEqual(await held(1, [announced(1), announced(1, 16), announced(2, 16)]), { held: 0, after: 0 });
  });

  it("are a few for each peer, on however many streams", async () => {
    const many = Array.from({ length: 50 }, (_, id) => announced(id));
    assert.deepEqual(await held(1, many), { held: 8, after: 0 });
    assert.deepEqual(await held(10, many), { held: 16, after: 0 });
  });
});
