import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { DcnrError } from "../core/errors.ts";
import type { PNodeId } from "../core/ids.ts";
import { Tasks } from "../core/tasks.ts";
import { silentLog, type World } from "../core/world.ts";
import { ExchangeService } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { PunchService } from "../protocol/gen/dcnr/v1/punch_pb.ts";
import { RelayService } from "../protocol/gen/dcnr/v1/relay_pb.ts";
import { SystemService } from "../protocol/gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../protocol/grpc.ts";
import { type Network, type ServedService, type Server, service } from "../protocol/network.ts";
import { withKey } from "../protocol/routes/address.ts";
import type { Line } from "../protocol/routes/line.ts";
import { routedNetwork } from "../protocol/routes/routed-network.ts";
import { openSocketNetwork } from "../protocol/socket/socket-network.ts";
import { newIdentity } from "../system/keys.ts";
import { backgroundTimers } from "../system/timers.ts";
import { realWorld } from "../system/world.ts";
import { callsOnly, type RelayLimits, tensorsToo } from "./limits.ts";
import { Relay } from "./relay.ts";
import { Reservations } from "./reservations.ts";

const world: World = { ...realWorld({ logFormat: "none" }), log: silentLog };

/** Says who calls, and sends everything back. */
const echoes: readonly ServedService[] = [
  service(SystemService, {
    getVersion: async (_, { caller }) => ({ id: caller.id ?? "nobody", software: caller.address }),
    getHealth: async () => ({}),
  }),
  service(ExchangeService, {
    exchange: async (channel) => {
      for await (const { event } of channel.incoming)
        if (event.case === "chunk") {
          const detail = String(event.value.data.byteLength);
          await channel.send({ event: { case: "receipt", value: { id: event.value.id, detail } } });
        }
    },
  }),
];

interface Scene {
  /** Waits at the relays and can be called in no other way. */
  readonly hidden: Reservations;
  readonly callee: ReturnType<typeof newIdentity>;
  readonly caller: Network;
  readonly relays: readonly { readonly relay: Relay; readonly address: string; close(): Promise<void> }[];
  /** Lines that reached the hidden machine. */
  readonly lines: Line[];
  route(): string;
  open(identity?: ReturnType<typeof newIdentity>): Network;
}

async function scene(
  run: (scene: Scene) => Promise<void>,
  {
    limits = [tensorsToo(0)],
    tamper = (line: Line) => line,
    tabs = "none",
  }: { limits?: RelayLimits[]; tamper?: (line: Line) => Line; tabs?: "none" | "hidden" | "caller" | "both" } = {},
): Promise<void> {
  const opened: Network[] = [];
  const servers: Server[] = [];
  const open = (identity = newIdentity(), isTab = false) => {
    const options = { timers: backgroundTimers, identity };
    const network = routedNetwork(
      isTab ? openSocketNetwork({ ...options, secure: false }) : openGrpcNetwork(options),
      world,
    );
    opened.push(network);
    return network;
  };
  const relays = await Promise.all(
    limits.map(async (limit) => {
      const identity = newIdentity();
      const relay = new Relay(world, limit);
      const network = open(identity);
      const server = await network.serve("127.0.0.1:0", [relay.service()]);
      servers.push(server);
      return { relay, address: withKey(server.address, identity.id), close: () => server.close() };
    }),
  );
  const callee = newIdentity();
  const isHiddenTab = tabs === "hidden" || tabs === "both";
  const hiddenNetwork = open(callee, isHiddenTab);
  const server = await hiddenNetwork.serve("127.0.0.1:0", echoes);
  servers.push(server);
  const ending = new AbortController();
  const lines: Line[] = [];
  const hidden = new Reservations({
    pnode: callee.id as string as PNodeId,
    network: hiddenNetwork,
    ...{ world, tasks: new Tasks(silentLog), signal: ending.signal, sealed: isHiddenTab },
    accept: (line, from) => {
      lines.push(line);
      server.accept(tamper(line), from);
    },
    onChange: () => {},
  });
  hidden.learn(relays.map(({ address, relay }) => ({ address, name: address, tensors: relay.limits.tensors })));
  try {
    await until(() => hidden.standing.length > 0);
    const route = () => withKey(hidden.routes.join(","), callee.id);
    const caller = open(newIdentity(), tabs === "caller" || tabs === "both");
    await run({ hidden, callee, caller, relays, lines, route, open });
  } finally {
    ending.abort();
    for (const network of opened) await network.close();
    for (const one of servers) await one.close();
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(10);
}

describe("a machine that nobody can call", () => {
  it("is called by a relay, and both ends know each other by their keys", () =>
    scene(async ({ caller, route, relays }) => {
      const { id, software } = await caller.call(route(), SystemService.method.getVersion, {});
      assert.equal(id, caller.id);
      assert.match(software, new RegExp(`^${caller.id}@127`), "the address says who carries it");
      assert.equal(relays[0]?.relay.relayed.connections, 1);
    }));

  it("gets tensors in their order, with the wire's own flow control", () =>
    scene(async ({ caller, route, relays }) => {
      const channel = caller.open(route(), ExchangeService.method.exchange);
      const data = new Uint8Array(1 << 20).fill(7);
      const sending = (async () => {
        for (let id = 0n; id < 32n; id++) await channel.send({ event: { case: "chunk", value: { id, data } } });
      })();
      let expected = 0n;
      for await (const { event } of channel.incoming) {
        assert.ok(event.case === "receipt" && event.value.id === expected && event.value.detail === String(1 << 20));
        if (++expected === 32n) break;
      }
      await sending;
      channel.close();
      assert.ok((relays[0]?.relay.relayed.bytes ?? 0) > 32 << 20);
    }));

  for (const tabs of ["hidden", "caller", "both"] as const)
    it(`knows its caller and gets tensors where browsers are at work: ${tabs}`, () =>
      scene(
        async ({ caller, route, relays }) => {
          const { id } = await caller.call(route(), SystemService.method.getVersion, {});
          assert.equal(id, caller.id);
          const channel = caller.open(route(), ExchangeService.method.exchange);
          const data = new Uint8Array(1 << 20).fill(7);
          const sending = (async () => {
            for (let id = 0n; id < 8n; id++) await channel.send({ event: { case: "chunk", value: { id, data } } });
          })();
          let expected = 0n;
          for await (const { event } of channel.incoming) {
            assert.ok(event.case === "receipt" && event.value.id === expected);
            if (++expected === 8n) break;
          }
          await sending;
          channel.close();
          assert.ok((relays[0]?.relay.relayed.bytes ?? 0) > 8 << 20);
        },
        { tabs },
      ));

  it("is reached by nobody whose key is not the one that is called", () =>
    scene(async ({ caller, hidden, open }) => {
      const stranger = newIdentity();
      const call = caller.call(withKey(hidden.routes[0] as string, stranger.id), SystemService.method.getVersion, {});
      await assert.rejects(call, { code: "unauthenticated" });
      const other = hidden.routes.map((route) => route.replace(/^[^@]*/, stranger.id)).join(",");
      const nowhere = open().call(withKey(other, stranger.id), SystemService.method.getVersion, {});
      await assert.rejects(nowhere, /does not wait at this relay/);
    }));

  /** What a relay that reads nothing can still do to the fourth piece. */
  const spoilings: Readonly<Record<string, (piece: Uint8Array) => Uint8Array[]>> = {
    "changes a bit": (piece) => {
      const copy = piece.slice();
      if (copy.byteLength > 0) copy[copy.byteLength >> 1] = (copy[copy.byteLength >> 1] ?? 0) ^ 1;
      return [copy];
    },
    "hands something on twice": (piece) => [piece.slice(), piece.slice()],
    "leaves something out": () => [],
  };
  for (const tabs of ["none", "both"] as const)
    for (const [what, spoil] of Object.entries(spoilings))
      it(`notices a relay that ${what}, and nothing wrong is taken (browsers: ${tabs})`, () => {
        let pieces = 0;
        const spoiling = (line: Line): Line => ({
          ...line,
          incoming: (async function* () {
            for await (const piece of line.incoming) yield* ++pieces === 4 ? spoil(piece) : [piece.slice()];
          })(),
        });
        return scene(
          async ({ caller, route }) => {
            const channel = caller.open(route(), ExchangeService.method.exchange);
            const data = new Uint8Array(1 << 20).fill(7);
            await assert.rejects(async () => {
              for (let id = 0n; id < 8n; id++) await channel.send({ event: { case: "chunk", value: { id, data } } });
              for await (const { event } of channel.incoming) assert.fail(`${event.case} came`);
              throw new DcnrError("unavailable", "the stream ended");
            }, DcnrError);
          },
          { tamper: spoiling, tabs },
        );
      });

  it("waits at two relays, so that the death of one costs a reconnect", () =>
    scene(
      async ({ caller, route, relays, hidden }) => {
        await until(() => hidden.standing.length === 2);
        const both = route();
        const call = () => caller.call(both, SystemService.method.getVersion, {});
        await call();
        const used = relays.find(({ relay }) => relay.relayed.connections > 0);
        await used?.close();
        await until(() => hidden.standing.length === 1);
        let attempts = 0;
        for (let answered = false; !answered && attempts < 3; attempts++)
          answered = await call().then(
            () => true,
            () => false,
          );
        assert.ok(attempts <= 2, "the first call after the loss at most fails");
      },
      { limits: [tensorsToo(0), tensorsToo(0)] },
    ));

  it("is called, but sent no tensors, by a relay that carries calls alone", () =>
    scene(
      async ({ caller, route }) => {
        assert.match(route(), /\?calls#/);
        await caller.call(route(), SystemService.method.getVersion, {});
        const channel = caller.open(route(), ExchangeService.method.exchange);
        await assert.rejects(
          channel.send({ event: { case: "ping", value: {} } }),
          /nothing leads to .* that carries this/,
        );
      },
      { limits: [callsOnly] },
    ));

  it("hears that its relay is at its limit", () =>
    scene(
      async ({ caller, route, hidden, relays }) => {
        const channel = caller.open(route(), ExchangeService.method.exchange);
        const data = new Uint8Array(1 << 19);
        void (async () => {
          for (;;) await channel.send({ event: { case: "chunk", value: { data } } });
        })().catch(() => {});
        await until(() => hidden.standing.some(({ slowed }) => slowed !== undefined));
        assert.deepEqual(hidden.standing[0]?.slowed, { bytesPerSecond: 1 << 19, shared: false });
        assert.ok(relays[0]?.relay.relayed.slowed);
        channel.close();
      },
      { limits: [tensorsToo(1 << 20)] },
    ));
});

describe("a way through routers", () => {
  it("is not needed: where none can be made, the relay carries what it did", () =>
    scene(async ({ callee, hidden, relays }) => {
      // Here nobody answers a connection that was not asked for, and none is asked for at the same moment.
      const caller = routedNetwork(
        openGrpcNetwork({ timers: backgroundTimers, identity: newIdentity(), punches: true }),
        world,
      );
      const channel = caller.open(withKey(hidden.routes.join(","), callee.id), ExchangeService.method.exchange);
      await channel.send({ event: { case: "chunk", value: { data: new Uint8Array(9) } } });
      const first = await channel.incoming[Symbol.asyncIterator]().next();
      assert.ok(!first.done && first.value.event.case === "receipt");
      assert.equal(relays[0]?.relay.relayed.connections, 1);
      await caller.close();
    }));

  it("is made only with the relay by which the call has come", () =>
    scene(async ({ open }) => {
      const identity = newIdentity();
      const network = openGrpcNetwork({ timers: backgroundTimers, identity, punches: true });
      const server = await network.serve("127.0.0.1:0", []);
      const address = withKey(server.address, identity.id);
      const request = { place: "127.0.0.1:9", relay: withKey("127.0.0.1:9", identity.id) };
      await assert.rejects(open().call(address, PunchService.method.punch, request), /by no other/);
      await network.close();
      await server.close();
    }));

  it("begins with the port that the relay sees", () =>
    scene(async ({ relays, open }) => {
      const { address } = relays[0] as Scene["relays"][number];
      const { place } = await open().call(address, RelayService.method.locate, {});
      assert.match(place, /^127\.0\.0\.1:\d+$/);
      assert.notEqual(place, address.split("#")[0]);
    }));
});

describe("a relay", () => {
  it("lets nobody answer a ring but the machine that was rung, and a ticket only once", () =>
    scene(async ({ relays, callee, open }) => {
      const { relay, address } = relays[0] as Scene["relays"][number];
      const victim = newIdentity();
      const tickets: string[] = [];
      const line = open(victim).open(address, RelayService.method.reserve);
      const rung = (async () => {
        for await (const { event } of line.incoming) if (event.case === "ring") tickets.push(event.value.ticket);
      })();
      await until(() => relay.relayed.machines === 2);
      const dial = open().open(address, RelayService.method.dial);
      await dial.send({ event: { case: "target", value: victim.id } });
      await until(() => tickets.length === 1);
      const answers = async (as: Network) => {
        const channel = as.open(address, RelayService.method.answer);
        await channel.send({ event: { case: "ticket", value: tickets[0] as string } });
        const first = await channel.incoming[Symbol.asyncIterator]().next();
        return first.done ? "nothing" : first.value.event.case;
      };
      await assert.rejects(answers(open(callee)), { code: "not_found" });
      const owner = open(victim);
      assert.equal(await answers(owner), "called");
      await assert.rejects(answers(owner), { code: "not_found" });
      line.close();
      await rung;
    }));

  it("carries nothing more of a machine that it dismisses, in the middle of a call too", () =>
    scene(async ({ caller, callee, route, relays, hidden }) => {
      const { relay } = relays[0] as Scene["relays"][number];
      const channel = caller.open(route(), ExchangeService.method.exchange);
      await channel.send({ event: { case: "chunk", value: { data: new Uint8Array(9) } } });
      const answers = channel.incoming[Symbol.asyncIterator]();
      assert.ok(!(await answers.next()).done);
      assert.deepEqual(relay.machines, [callee.id]);
      relay.dismiss(callee.id);
      assert.deepEqual(relay.machines, []);
      await assert.rejects(answers.next(), { code: "unavailable" });
      await until(() => relay.relayed.connections === 0);
      await until(() => hidden.standing.length > 0);
    }));

  it("refuses more connections to a machine than it carries", () =>
    scene(
      async ({ caller, route, open }) => {
        await caller.call(route(), SystemService.method.getVersion, {});
        await assert.rejects(open().call(route(), SystemService.method.getVersion, {}), { code: "resource_exhausted" });
      },
      { limits: [{ ...tensorsToo(0), connectionsPerMachine: 1 }] },
    ));

  it("carries others to a machine that one caller wants for itself alone", () =>
    scene(
      async ({ callee, route, open, relays }) => {
        const [{ address }] = relays as [Scene["relays"][number]];
        const greedy = open();
        const dial = async () => {
          const channel = greedy.open(address, RelayService.method.dial);
          await channel.send({ event: { case: "target", value: callee.id } });
          const { value } = await channel.incoming[Symbol.asyncIterator]().next();
          return value?.event.case;
        };
        assert.equal(await dial(), "answered");
        assert.equal(await dial(), "answered");
        await assert.rejects(dial(), { code: "resource_exhausted" });
        await open().call(route(), SystemService.method.getVersion, {});
      },
      { limits: [{ ...tensorsToo(0), connectionsPerMachine: 3, connectionsPerPair: 2 }] },
    ));
});
