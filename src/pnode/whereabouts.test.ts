import assert from "node:assert/strict";
import { it } from "node:test";
import { DcnrError } from "../core/errors.ts";
import type { PNodeId } from "../core/ids.ts";
import { Tasks } from "../core/tasks.ts";
import { virtualWorld } from "../core/virtual-world.testing.ts";
import { RelayService } from "../protocol/gen/dcnr/v1/relay_pb.ts";
import { MemoryNetwork } from "../protocol/memory-network.testing.ts";
import { tensorsToo } from "../relay/limits.ts";
import { Whereabouts } from "./whereabouts.ts";

it("who is sent away loses its place at a PNode's relay within 20 seconds, and nobody while that cannot be asked", async () => {
  const { world, until, pass } = virtualWorld();
  const network = new MemoryNetwork();
  const ending = new AbortController();
  const whereabouts = new Whereabouts({
    ...{ pnode: "relay" as PNodeId, network, world, tasks: new Tasks(world.log), signal: ending.signal },
    ...{ advertise: undefined, relay: tensorsToo(0), onlyByRelays: false, onMoved: () => {} },
  });
  await network.serve("relay:1", whereabouts.services);
  const waiting = new Set<string>();
  for (const machine of ["member", "sent away", "unknown"]) {
    const line = network.as(machine).open("relay:1", RelayService.method.reserve);
    waiting.add(machine);
    void (async () => {
      for await (const _ of line.incoming);
      waiting.delete(machine);
    })();
  }
  await until(() => whereabouts.relayed?.machines === 3);
  let isSentAway = false;
  whereabouts.review(async (machine) => {
    if (machine === "unknown") throw new DcnrError("unavailable", "no orchestrator answers");
    return !(isSentAway && machine === "sent away");
  });
  await pass(60_000);
  assert.equal(waiting.size, 3);
  isSentAway = true;
  await pass(20_000);
  assert.deepEqual([...waiting], ["member", "unknown"]);
  assert.equal(whereabouts.relayed?.machines, 2);
  ending.abort();
});
