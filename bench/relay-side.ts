// One process of the relay's benchmark: the relay, who receives, or who sends. Told what to do by its parent, it answers with the CPU time it took.

import type { PNodeId } from "../src/core/ids.ts";
import { Tasks } from "../src/core/tasks.ts";
import { ExchangeService } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { SystemService } from "../src/protocol/gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import { service } from "../src/protocol/network.ts";
import { withKey } from "../src/protocol/routes/address.ts";
import { openSocketNetwork } from "../src/protocol/socket/socket-network.ts";
import { tensorsToo } from "../src/relay/limits.ts";
import { Relay } from "../src/relay/relay.ts";
import { Reservations } from "../src/relay/reservations.ts";
import { newIdentity } from "../src/system/keys.ts";
import { realWorld } from "../src/system/world.ts";

export type SideOrder =
  | { readonly kind: "relay" }
  /** As a tab: by WebSocket, sealed by our own handshake. */
  | { readonly kind: "receive"; readonly relay?: string; readonly tab?: boolean }
  | { readonly kind: "send"; readonly to: string; readonly bytes: number; readonly tab?: boolean }
  | { readonly kind: "cpu" };

export type SideAnswer = { readonly address: string } | { readonly cpuSeconds: number } | { readonly done: true };

const world = realWorld({ logFormat: "none" });
const identity = newIdentity();
const answer = (value: SideAnswer) => process.send?.(value);
const networkOf = (tab = false) => {
  const options = { timers: world.timers, identity };
  return tab ? openSocketNetwork({ ...options, secure: false }) : openGrpcNetwork(options);
};

/** Says how much has come, each time a chunk has. */
const receiver = [
  service(SystemService, { getVersion: async () => ({}), getHealth: async () => ({}) }),
  service(ExchangeService, {
    exchange: async (channel) => {
      for await (const { event } of channel.incoming)
        if (event.case === "chunk") await channel.send({ event: { case: "receipt", value: { id: event.value.id } } });
    },
  }),
];

async function relays(): Promise<void> {
  const server = await networkOf().serve("127.0.0.1:0", [new Relay(world, tensorsToo(0)).service()]);
  answer({ address: withKey(server.address, identity.id) });
}

async function receives({ relay, tab }: SideOrder & { kind: "receive" }): Promise<void> {
  const network = networkOf(tab);
  const server = await network.serve("127.0.0.1:0", receiver);
  if (relay === undefined) return void answer({ address: withKey(server.address, identity.id) });
  const waiting: Reservations = new Reservations({
    ...{ pnode: identity.id as string as PNodeId, network, world, tasks: new Tasks(world.log), sealed: tab ?? false },
    signal: new AbortController().signal,
    accept: (line, from) => server.accept(line, from),
    onChange: () => answer({ address: withKey(waiting.routes[0] as string, identity.id) }),
  });
  waiting.learn([{ address: relay, name: "relay", tensors: true }]);
}

async function sends({ to, bytes, tab }: SideOrder & { kind: "send" }): Promise<void> {
  const channel = networkOf(tab).open(to, ExchangeService.method.exchange);
  const data = new Uint8Array(1 << 20).fill(7);
  const chunks = BigInt(Math.ceil(bytes / data.byteLength));
  const sending = (async () => {
    for (let id = 1n; id <= chunks; id++) await channel.send({ event: { case: "chunk", value: { id, data } } });
  })();
  for await (const { event } of channel.incoming) if (event.case === "receipt" && event.value.id === chunks) break;
  await sending;
  channel.close();
  answer({ done: true });
}

let before = process.cpuUsage();
process.on("message", (order: SideOrder) => {
  if (order.kind === "relay") void relays();
  else if (order.kind === "receive") void receives(order);
  else if (order.kind === "send") void sends(order);
  else {
    const { user, system } = process.cpuUsage(before);
    before = process.cpuUsage();
    answer({ cpuSeconds: (user + system) / 1e6 });
  }
});
