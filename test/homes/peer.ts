// One process of ways.ts: a relay, a machine that waits at it, or one that calls that machine and says how much the relay has carried.

import type { PNodeId } from "../../src/core/ids.ts";
import { Tasks } from "../../src/core/tasks.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { service } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { routedNetwork } from "../../src/protocol/routes/routed-network.ts";
import { tensorsToo } from "../../src/relay/limits.ts";
import { Relay } from "../../src/relay/relay.ts";
import { Reservations } from "../../src/relay/reservations.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { realWorld } from "../../src/system/world.ts";

const world = realWorld({ logFormat: "none" });
const [role = "", relayAt = "", target = ""] = process.argv.slice(2);
const identity = newIdentity();
const wires = openGrpcNetwork({ timers: world.timers, identity, punches: true });
const network = routedNetwork(wires, world);

const echoes = [
  service(SystemService, { getVersion: async () => ({}), getHealth: async () => ({}) }),
  service(ExchangeService, {
    exchange: async (channel) => {
      for await (const { event } of channel.incoming)
        if (event.case === "chunk")
          await channel.send({ event: { case: "receipt", value: { detail: String(event.value.data.byteLength) } } });
    },
  }),
];

/** What is exchanged until the relay does not carry it any more, or for so many times. */
const roundsMax = 20;
const data = new Uint8Array(1 << 18);

async function call(): Promise<void> {
  for (let round = 0; round < roundsMax; round++) {
    const channel = network.open(target, ExchangeService.method.exchange);
    try {
      const answers = channel.incoming[Symbol.asyncIterator]();
      for (let sent = 0; sent < 4; sent++) {
        await channel.send({ event: { case: "chunk", value: { data } } });
        if ((await answers.next()).done) break;
      }
    } catch {
      // A better way was found, or none yet.
    }
    channel.close();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

if (role === "relay") {
  const relay = new Relay(world, tensorsToo(0));
  const server = await network.serve(relayAt, [relay.service()]);
  console.log(withKey(server.address.replace("0.0.0.0", relayAt.split(":")[0] as string), identity.id));
  process.on("SIGUSR2", () => console.log(`carried ${relay.relayed.bytes}`));
} else if (role === "waits") {
  const server = await network.serve("0.0.0.0:0", echoes);
  const waiting: Reservations = new Reservations({
    ...{ pnode: identity.id as string as PNodeId, network, world, tasks: new Tasks(world.log) },
    signal: new AbortController().signal,
    accept: (line, from) => server.accept(line, from),
    onChange: () => console.log(withKey(waiting.routes.join(","), identity.id)),
  });
  waiting.learn([{ address: relayAt, name: "relay", tensors: true }]);
} else {
  await network.serve("0.0.0.0:0", echoes);
  await call();
  console.log("called");
  process.exit(0);
}
