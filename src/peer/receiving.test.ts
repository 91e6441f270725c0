import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { silentLog } from "../core/world.ts";
import { ExchangeService } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { MemoryNetwork } from "../protocol/memory-network.testing.ts";
import { type Channel, protocolMajor } from "../protocol/network.ts";
import { peerService, refused } from "./receiving.ts";
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
    hasHash: () => true,
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
