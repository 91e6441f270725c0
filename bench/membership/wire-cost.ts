// What a probe without news takes on a connection that is open already: measured through a proxy that counts.

import { type AddressInfo, connect, createServer } from "node:net";
import { GossipService } from "../../src/protocol/gen/dcnr/v1/gossip_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { type Handlers, service } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";

/** TCP and IP headers of a segment, and of its acknowledgement the other way. */
const segmentBytes = 52;
const calls = 200;

export async function measureCall(): Promise<{ request: number; response: number }> {
  const [asker, asked] = [newIdentity(), newIdentity()];
  const [client, server] = [asker, asked].map((identity) => openGrpcNetwork({ timers: backgroundTimers, identity }));
  if (client === undefined || server === undefined) throw new Error("two networks were opened");
  const refuse = async () => ({});
  const handlers: Handlers<typeof GossipService> = {
    ...{ probe: async () => ({ news: [], stranger: false }), probeVia: refuse, sync: refuse },
    ...{ remind: refuse, introduce: refuse, listMembers: refuse },
  };
  const { address, close } = await server.serve("127.0.0.1:0", [service(GossipService, handlers)]);
  let [there, back] = [0, 0];
  const proxy = createServer((socket) => {
    const onward = connect(Number(address.split(":")[1]), "127.0.0.1");
    socket.on("data", (bytes) => {
      there += bytes.length;
      onward.write(bytes);
    });
    onward.on("data", (bytes) => {
      back += bytes.length;
      socket.write(bytes);
    });
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      one.on("close", () => other.destroy());
      one.on("error", () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const place = withKey(`127.0.0.1:${(proxy.address() as AddressInfo).port}`, asked.id);
  const call = () => client.call(place, GossipService.method.probe, { from: "", news: [] }, { timeoutMs: 10_000 });
  for (let warm = 0; warm < 20; warm++) await call();
  const before = [there, back] as const;
  for (let count = 0; count < calls; count++) await call();
  const [sent, received] = [(there - before[0]) / calls, (back - before[1]) / calls];
  await client.close();
  await close();
  await server.close();
  proxy.close();
  return { request: Math.round(sent + segmentBytes), response: Math.round(received + segmentBytes) };
}
