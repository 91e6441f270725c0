import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId } from "../src/core/ids.ts";
import { Tasks } from "../src/core/tasks.ts";
import { SystemService } from "../src/protocol/gen/dcnr/v1/system_pb.ts";
import { service } from "../src/protocol/network.ts";
import { withKey } from "../src/protocol/routes/address.ts";
import { routedNetwork } from "../src/protocol/routes/routed-network.ts";
import { tensorsToo } from "../src/relay/limits.ts";
import { Relay } from "../src/relay/relay.ts";
import { Reservations } from "../src/relay/reservations.ts";
import { hasRouters } from "./routers.ts";
import { runSeed } from "./run.ts";
import { Fabric } from "./world/network.ts";
import { Wire } from "./world/wire.ts";
import { SimulatedWorld } from "./world/world.ts";

test("whoever is behind a router is called by a relay and in no other way, and by the next one when that crashes", async () => {
  const world = new SimulatedWorld(1);
  const fabric = new Fabric(new Wire(world));
  const [caller, hidden] = [world.start("a"), world.start("p")];
  const relays = ["r1", "r2"].map((name) => ({ host: world.start(name), address: `${name}:1` }));
  for (const { host, address } of relays)
    await fabric.network(host).serve(address, [new Relay(host.world, tensorsToo(0)).service()]);
  const inner = fabric.network(hidden);
  const system = service(SystemService, {
    getVersion: async (_, { caller: { id = "", address } }) => ({ id, role: address }),
    getHealth: async () => ({}),
  });
  const server = await inner.serve("p:1", [system]);
  fabric.hidden.add("p");
  const reservations = new Reservations({
    ...{ pnode: "p" as PNodeId, network: inner, world: hidden.world, tasks: new Tasks(hidden.world.log) },
    signal: new AbortController().signal,
    accept: (line, from) => server.accept(line, from),
    onChange: () => {},
  });
  reservations.learn(
    relays.map(({ host, address }) => ({
      address: withKey(address, host.name as never),
      name: address,
      tensors: true,
    })),
  );
  await world.time.run(() => reservations.routes.length === 2, 5_000);
  const network = routedNetwork(fabric.network(caller), caller.world);
  const asked = async (routes: readonly string[]) => {
    let outcome: string | undefined;
    network.call(withKey(routes.join(","), "p" as never), SystemService.method.getVersion, {}).then(
      ({ id, role }) => {
        outcome = `${id} from ${role}`;
      },
      () => {
        outcome = "nothing";
      },
    );
    await world.time.run(() => outcome !== undefined, world.time.nowMs + 30_000);
    return outcome;
  };
  assert.equal(await asked(["p:1"]), "nothing");
  const routes = ["p:1", ...reservations.routes];
  assert.match((await asked(routes)) ?? "", /^a from a@r[12]:1$/);
  const used = /r[12]/.exec((await asked(routes)) ?? "")?.[0];
  world.host(used as string)?.crash();
  await world.time.run(() => reservations.routes.length === 1, world.time.nowMs + 20_000);
  await asked(routes);
  const other = used === "r1" ? "r2" : "r1";
  assert.equal(await asked(["p:1", ...reservations.routes]), `a from a@${other}:1`);
});

test("worlds with machines behind routers and relays that crash train to the undisturbed roots", async () => {
  const faults = new Map<string, number>();
  for (const seed of [2, 7, 11]) {
    const report = await runSeed(seed, { routers: true });
    assert.deepEqual(report.violations, [], `seed ${seed}`);
    for (const [kind, count] of Object.entries(report.faults)) faults.set(kind, (faults.get(kind) ?? 0) + count);
  }
  assert.ok((faults.get("nat") ?? 0) > 0 && (faults.get("relay crash") ?? 0) > 0);
});

test("some worlds have routers, most have none", () => {
  const drawn = Array.from({ length: 400 }, (_, seed) => hasRouters(seed)).filter(Boolean).length;
  assert.ok(drawn > 30 && drawn < 100, `${drawn} of 400`);
});
